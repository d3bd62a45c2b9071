"""Cartesia's own client: two contexts on one socket, text pushed in pieces, a cancel."""

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
    tell(whole=first, pieces=second, after_cancel=third)


main(*sys.argv[1:])
