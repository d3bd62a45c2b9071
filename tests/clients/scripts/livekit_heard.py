"""Functions that collect audio, sample rates and word times from LiveKit's plugins."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from heard import sound


async def heard(events: AsyncIterable[Any]) -> dict[str, Any]:
    """Read a LiveKit stream to its end, and return its audio, sample rates and word times."""
    pcm, rates, words = b"", set(), []
    async for event in events:
        pcm += bytes(event.frame.data)
        rates.add(event.frame.sample_rate)
        timed = event.frame.userdata.get("lk.timed_transcripts", [])
        words += [[str(word), word.start_time, word.end_time] for word in timed]
    return {**sound(pcm), "rates": sorted(rates), "words": words}


async def spoken(tts: Any, *pieces: str) -> dict[str, Any]:
    """Send a text in pieces to a LiveKit plugin, and return its audio and word times."""
    async with tts.stream() as stream:
        for piece in pieces:
            stream.push_text(piece)
        stream.end_input()
        return await heard(stream)
