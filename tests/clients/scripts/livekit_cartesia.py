"""Client script for LiveKit's Cartesia plugin: two streamed texts, and HTTP."""

from __future__ import annotations

import asyncio
import sys

import aiohttp
from heard import tell
from livekit.plugins import cartesia
from livekit_heard import heard, spoken


async def main(base: str) -> None:
    async with aiohttp.ClientSession() as session:
        tts = cartesia.TTS(base_url=base, api_key="none", voice="clara", model="sonic-3", http_session=session)
        first = await spoken(tts, "The kettle is on. ", "The boat comes back ", "in the evening.")
        second = await spoken(tts, "And again.")
        third = await heard(tts.synthesize("And once more, all of it at once."))
        await tts.aclose()
    tell(first=first, second=second, at_once=third)


asyncio.run(main(*sys.argv[1:]))
