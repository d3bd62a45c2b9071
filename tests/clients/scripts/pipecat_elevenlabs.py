"""Client script for Pipecat's ElevenLabs services: two utterances, by WebSocket and HTTP."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aiohttp
from heard import sound, tell
from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame, TTSTextFrame
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.elevenlabs.tts import ElevenLabsHttpTTSService, ElevenLabsTTSService
from pipecat.tests.utils import run_test

START_S = 30.0


async def turns(service: FrameProcessor) -> dict[str, Any]:
    frames = [TTSSpeakFrame("The kettle is on."), TTSSpeakFrame("The boat comes back in the evening.")]
    down, up = await run_test(service, frames_to_send=frames, start_timeout=START_S)
    pcm = b"".join(frame.audio for frame in down if isinstance(frame, TTSAudioRawFrame))
    return {
        **sound(pcm),
        "stops": sum(isinstance(frame, TTSStoppedFrame) for frame in down),
        "words": [frame.text for frame in down if isinstance(frame, TTSTextFrame)],
        "errors": [frame.error for frame in up if isinstance(frame, ErrorFrame)],
    }


async def main(base: str) -> None:
    settings = ElevenLabsTTSService.Settings(voice="clara", model="eleven_flash_v2_5")
    url = base.replace("http", "ws", 1)
    socket = await turns(ElevenLabsTTSService(api_key="none", url=url, settings=settings, sample_rate=24000))
    async with aiohttp.ClientSession() as session:
        plain = ElevenLabsHttpTTSService.Settings(voice="clara", model="eleven_flash_v2_5")
        service = ElevenLabsHttpTTSService(
            api_key="none", base_url=base, settings=plain, sample_rate=24000, aiohttp_session=session
        )
        http = await turns(service)
    tell(socket=socket, http=http)


asyncio.run(main(*sys.argv[1:]))
