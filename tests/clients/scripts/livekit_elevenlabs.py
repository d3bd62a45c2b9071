"""Client script for LiveKit's ElevenLabs plugin: streamed text, word times, HTTP, voices."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aiohttp
from heard import tell
from livekit.plugins import elevenlabs
from livekit_heard import heard, spoken


async def main(base: str) -> None:
    async with aiohttp.ClientSession() as session:
        options: dict[str, Any] = {"base_url": f"{base}/v1", "api_key": "none", "http_session": session}
        tts = elevenlabs.TTS(voice_id="clara", encoding="pcm_24000", **options)
        first = await spoken(tts, "The kettle is on. ", "The boat comes back ", "in the evening.")
        second = await spoken(tts, "And again.")
        plain = elevenlabs.TTS(**options)  # Default voice and format of the plugin.
        third = await spoken(plain, "Sound as it comes.")
        fourth = await heard(plain.synthesize("And once more, all of it at once."))
        scheduled = elevenlabs.TTS(
            voice_id="clara", encoding="pcm_24000", chunk_length_schedule=[50, 80], auto_mode=False, **options
        )
        fifth = await spoken(scheduled, "Once there was a king who had a castle by the sea ", "and nobody came.")
        voices = [voice.name for voice in await tts.list_voices()]
        for each in (tts, plain, scheduled):
            await each.aclose()
    tell(first=first, second=second, mp3=third, at_once=fourth, scheduled=fifth, voices=voices)


asyncio.run(main(*sys.argv[1:]))
