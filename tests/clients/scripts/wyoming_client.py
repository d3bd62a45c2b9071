"""Client script for the `wyoming` package: complete and streamed texts."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from heard import sound, tell
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

TEXT = "The kettle is on. The boat comes back in the evening."
STEP_S = 60


async def asked(uri: str, *events: Event) -> dict[str, Any]:
    """Send events on a new connection, and return the received events.

    Returns:
        Types, audio and data of all events up to the end of the text or of the connection.
    """
    streaming = SynthesizeStart.is_type(events[0].type)
    heard: dict[str, Any] = {"kinds": [], "error": None}
    pcm = b""
    async with AsyncClient.from_uri(uri, connect_timeout=STEP_S, read_timeout=STEP_S) as client:
        for event in events:
            await client.write_event(event)
        while (event := await client.read_event()) is not None:
            if AudioChunk.is_type(event.type):
                pcm += AudioChunk.from_event(event).audio
            else:
                heard["kinds"].append(event.type)
            if AudioStart.is_type(event.type):
                start = AudioStart.from_event(event)
                heard["format"] = [start.rate, start.width, start.channels]
            elif Error.is_type(event.type):
                error = Error.from_event(event)
                heard["error"] = [error.code, error.text]
            elif SynthesizeStopped.is_type(event.type) or (AudioStop.is_type(event.type) and not streaming):
                break
    return {**heard, **sound(pcm)}


async def described(uri: str) -> dict[str, Any]:
    async with AsyncClient.from_uri(uri, read_timeout=STEP_S) as client:
        await client.write_event(Describe().event())
        event = await client.read_event()
        assert event is not None
        (program,) = Info.from_event(event).tts
        await client.write_event(Ping(text="there?").event())
        pong = await client.read_event()
        assert pong is not None
        return {
            "streams": program.supports_synthesize_streaming,
            "voices": {voice.name: voice.languages for voice in program.voices if voice.installed},
            "made_by": sorted({voice.attribution.name for voice in program.voices}),
            "pong": Pong.from_event(pong).text,
        }


async def main(uri: str) -> None:
    clara = SynthesizeVoice(name="clara")
    pieces = [SynthesizeChunk(text=f"{word} ").event() for word in TEXT.split(" ")]
    in_pieces = [SynthesizeStart(voice=clara).event(), *pieces, Synthesize(text=TEXT, voice=clara).event()]
    whole = asked(uri, Synthesize(text="Good morning.", voice=clara).event())
    by_language = asked(uri, Synthesize(text="Good evening, everybody.", voice=SynthesizeVoice(language="en")).event())
    together = await asyncio.gather(whole, by_language)
    tell(
        described=await described(uri),
        whole=together[0],
        by_language=together[1],
        in_pieces=await asked(uri, *in_pieces, SynthesizeStop().event()),
        nobody=await asked(uri, Synthesize(text="Hello.", voice=SynthesizeVoice(name="nobody")).event()),
        dutch=await asked(uri, Synthesize(text="Hallo.", voice=SynthesizeVoice(language="nl")).event()),
    )


asyncio.run(main(sys.argv[2]))
