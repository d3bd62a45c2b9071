"""Cartesia's own client: contexts on one socket, text pushed in pieces, a cancel; one text over HTTP."""

from __future__ import annotations

import sys
from typing import Any

from cartesia import Cartesia
from heard import sound, tell

VOICE = {"mode": "id", "id": "clara"}
FORMAT = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
OPTIONS = {"model_id": "sonic-3", "voice": VOICE, "output_format": FORMAT, "language": "en"}


def heard(context: Any, name: str) -> dict[str, Any]:
    """What came for one context. After a cancel the SDK hands out what was on its way for the cancelled one too."""
    pcm, kinds = b"", []
    for event in context.receive():
        if event.context_id != name:
            continue
        kinds.append(event.type)
        if event.type == "chunk":
            pcm += event.audio
    return {**sound(pcm), "chunks": kinds.count("chunk"), "last": kinds[-1] if kinds else None}


def generated(client: Cartesia) -> dict[str, Any]:
    """One text over HTTP, as samples and as an MP3."""
    options = {"model_id": "sonic-3", "voice": "clara", "language": "en", "transcript": "One sentence at once."}
    pcm = client.tts.generate(**options, output_format=FORMAT, extra_body={"seed": 7})
    mp3 = client.tts.generate(**options, output_format={"container": "mp3", "sample_rate": 44100, "bit_rate": 128000})
    return {**sound(pcm.read()), "mp3": len(mp3.read()), "type": mp3.headers["content-type"]}


def main(base: str) -> None:
    client = Cartesia(api_key="none", base_url=base, websocket_base_url=base.replace("http", "ws", 1))
    with client.tts.websocket_connect() as connection:
        whole = connection.context("whole", timeout=60, **OPTIONS)
        whole.push("One sentence at once.", continue_=False)
        first = heard(whole, "whole")
        pieces = connection.context("pieces", timeout=60, **OPTIONS)
        for text in ("The kettle ", "is on. ", "The boat comes back ", "in the evening."):
            pieces.push(text)
        pieces.no_more_inputs()
        second = heard(pieces, "pieces")
        dropped = connection.context("dropped", timeout=60, **OPTIONS)
        dropped.push("A sentence that nobody will hear to its end, however long it may go on. ")
        dropped.cancel()
        after = connection.context("after", timeout=60, **OPTIONS)
        after.push("Still here.")
        after.no_more_inputs()
        third = heard(after, "after")
    tell(whole=first, pieces=second, after_cancel=third, generated=generated(client))


main(*sys.argv[1:])
