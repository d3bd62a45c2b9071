"""Client script for LiveKit's OpenAI plugin, which requests and decodes MP3."""

from __future__ import annotations

import asyncio
import sys

from heard import tell
from livekit.plugins import openai
from livekit_heard import heard


async def main(base: str) -> None:
    tts = openai.TTS(base_url=f"{base}/v1", api_key="none", model="qwen3-tts", voice="clara")
    said = await heard(tts.synthesize("The kettle is on, and the boat comes back in the evening."))
    await tts.aclose()
    tell(**said)


asyncio.run(main(*sys.argv[1:]))
