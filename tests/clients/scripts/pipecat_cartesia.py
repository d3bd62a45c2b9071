"""Client script for Pipecat's Cartesia service: two utterances on one WebSocket."""

from __future__ import annotations

import asyncio
import sys

from heard import sound, tell
from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame, TTSTextFrame
from pipecat.services.cartesia.tts import CartesiaTTSService
from pipecat.tests.utils import run_test

START_S = 30.0


async def main(base: str) -> None:
    settings = CartesiaTTSService.Settings(voice="clara", model="sonic-3.6")
    url = base.replace("http", "ws", 1) + "/tts/websocket"
    service = CartesiaTTSService(api_key="none", url=url, settings=settings, sample_rate=24000)
    turns = [TTSSpeakFrame("The kettle is on."), TTSSpeakFrame("The boat comes back in the evening.")]
    down, up = await run_test(service, frames_to_send=turns, start_timeout=START_S)
    pcm = b"".join(frame.audio for frame in down if isinstance(frame, TTSAudioRawFrame))
    tell(
        **sound(pcm),
        stops=sum(isinstance(frame, TTSStoppedFrame) for frame in down),
        words=[frame.text for frame in down if isinstance(frame, TTSTextFrame)],
        errors=[frame.error for frame in up if isinstance(frame, ErrorFrame)],
    )


asyncio.run(main(*sys.argv[1:]))
