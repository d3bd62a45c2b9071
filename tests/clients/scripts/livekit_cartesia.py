"""LiveKit's plugin for Cartesia: live text over its WebSocket, twice over one pooled connection; one text over HTTP."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aiohttp
from heard import sound, tell
from livekit.plugins import cartesia


async def spoken(tts: cartesia.TTS, *pieces: str) -> dict[str, Any]:
    pcm, rates = b"", set()
    async with tts.stream() as stream:
        for piece in pieces:
            stream.push_text(piece)
        stream.end_input()
        async for event in stream:
            pcm += bytes(event.frame.data)
            rates.add(event.frame.sample_rate)
    return {**sound(pcm), "rates": sorted(rates)}


async def synthesized(tts: cartesia.TTS, text: str) -> dict[str, Any]:
    pcm, rates = b"", set()
    async for event in tts.synthesize(text):
        pcm += bytes(event.frame.data)
        rates.add(event.frame.sample_rate)
    return {**sound(pcm), "rates": sorted(rates)}


async def main(base: str) -> None:
    async with aiohttp.ClientSession() as session:
        tts = cartesia.TTS(base_url=base, api_key="none", voice="clara", model="sonic-3", http_session=session)
        first = await spoken(tts, "The kettle is on. ", "The boat comes back ", "in the evening.")
        second = await spoken(tts, "And again.")
        third = await synthesized(tts, "And once more, all of it at once.")
        await tts.aclose()
    tell(first=first, second=second, at_once=third)


asyncio.run(main(*sys.argv[1:]))
