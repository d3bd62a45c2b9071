"""Client script for Pipecat's OpenAI service, which accepts only OpenAI's voice names."""

from __future__ import annotations

import asyncio
import sys

from heard import sound, tell
from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.tests.utils import run_test

START_S = 30.0


async def main(base: str) -> None:
    settings = OpenAITTSService.Settings(voice="alloy", model="qwen3-tts")
    service = OpenAITTSService(api_key="none", base_url=f"{base}/v1", settings=settings, sample_rate=24000)
    spoken = TTSSpeakFrame("The kettle is on, and the boat comes back in the evening.")
    down, up = await run_test(service, frames_to_send=[spoken], start_timeout=START_S)
    pcm = b"".join(frame.audio for frame in down if isinstance(frame, TTSAudioRawFrame))
    tell(**sound(pcm), errors=[frame.error for frame in up if isinstance(frame, ErrorFrame)])


asyncio.run(main(*sys.argv[1:]))
