"""LiveKit's plugin for OpenAI: it asks for MP3 in events and decodes it."""

from __future__ import annotations

import asyncio
import sys

from heard import sound, tell
from livekit.plugins import openai


async def main(base: str) -> None:
    tts = openai.TTS(base_url=f"{base}/v1", api_key="none", model="qwen3-tts", voice="clara")
    pcm, rates = b"", set()
    async for event in tts.synthesize("The kettle is on, and the boat comes back in the evening."):
        pcm += bytes(event.frame.data)
        rates.add(event.frame.sample_rate)
    await tts.aclose()
    tell(**sound(pcm), rates=sorted(rates))


asyncio.run(main(*sys.argv[1:]))
