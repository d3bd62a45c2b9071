"""Client script for Cartesia's SDK: contexts, streamed text, cancel and HTTP."""

from __future__ import annotations

import sys
from typing import Any

from cartesia import Cartesia, NotFoundError
from heard import sound, tell

VOICE = {"mode": "id", "id": "clara"}
FORMAT = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
OPTIONS = {"model_id": "sonic-3", "voice": VOICE, "output_format": FORMAT, "language": "en"}


def heard(context: Any, name: str) -> dict[str, Any]:
    """Receive the events of the context `name`, and return their types and the audio.

    After a cancel, the SDK also returns events of the cancelled context, which are ignored.
    """
    pcm, kinds = b"", []
    for event in context.receive():
        if event.context_id != name:
            continue
        kinds.append(event.type)
        if event.type == "chunk":
            pcm += event.audio
    return {**sound(pcm), "chunks": kinds.count("chunk"), "last": kinds[-1] if kinds else None}


def generated(client: Cartesia) -> dict[str, Any]:
    """Generate audio over HTTP as PCM and as MP3, and return descriptions of both."""
    options = {"model_id": "sonic-3", "voice": "clara", "language": "en", "transcript": "One sentence at once."}
    pcm = client.tts.generate(**options, output_format=FORMAT, extra_body={"seed": 7})
    mp3 = client.tts.generate(**options, output_format={"container": "mp3", "sample_rate": 44100, "bit_rate": 128000})
    return {**sound(pcm.read()), "mp3": len(mp3.read()), "type": mp3.headers["content-type"]}


def flushed(connection: Any) -> dict[str, Any]:
    """Generate two texts in one context with a flush between them, and describe the audio.

    As in Cartesia's example, flush_id assigns the audio to the texts.
    """
    context = connection.context("flushes", timeout=60, **OPTIONS)
    context.push("Stay hungry.")
    context.push("", flush=True)
    context.push("Stay foolish.")
    context.no_more_inputs()
    kinds: list[Any] = []
    for event in context.receive():
        kind = [event.type, getattr(event, "flush_id", None)]
        if event.context_id == "flushes" and kinds[-1:] != [kind]:
            kinds.append(kind)
    return {"kinds": kinds}


def as_events(client: Cartesia) -> dict[str, Any]:
    pcm, kinds = b"", []
    options = {"model_id": "sonic-3", "voice": VOICE, "language": "en", "output_format": FORMAT}
    for event in client.tts.generate_sse(transcript="One sentence at once.", **options, extra_body={"seed": 7}):
        kinds.append(event.type)
        pcm += event.audio if event.type == "chunk" else b""
    return {**sound(pcm), "last": kinds[-1]}


def voices(client: Cartesia) -> dict[str, Any]:
    listed = list(client.voices.list(limit=2))  # The client requests one page after another.
    return {"names": [voice.name for voice in listed], "one": client.voices.get(listed[0].id).name}


def dictionaries(client: Cartesia) -> dict[str, Any]:
    """Create, list, change, use and delete pronunciation dictionaries, and return the results."""
    kept = client.pronunciation_dicts
    made = kept.create(name="Our names", items=[{"text": "Nguyen", "alias": "Lose"}])
    other = kept.create(name="Others")
    listed = [one.name for one in kept.list(limit=1)]
    changed = kept.update(made.id, items=[{"text": "nguyen", "alias": "Win", "case_sensitive": False}])
    options = {"model_id": "sonic-3", "voice": "clara", "language": "en", "output_format": FORMAT}

    def said(transcript: str, **more: Any) -> str:
        reply = client.tts.generate(transcript=transcript, **options, **more, extra_body={"seed": 7})
        return str(sound(reply.read())["sha256"])

    pair = [said("Ask Nguyen.", pronunciation_dict_id=made.id), said("Ask Win.")]
    kept.delete(other.id)
    try:
        kept.retrieve(other.id)
    except NotFoundError as error:
        gone = error.body["error_code"]
    return {
        "listed": listed,
        "items": [[item.text, item.alias] for item in changed.items],
        "pair": pair,
        "gone": gone,
        "left": kept.retrieve(made.id).name,
    }


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
        flushes = flushed(connection)
    report = {"flushes": flushes, "events": as_events(client), "voices": voices(client)}
    report["dictionaries"] = dictionaries(client)
    tell(**report, whole=first, pieces=second, after_cancel=third, generated=generated(client))


main(*sys.argv[1:])
