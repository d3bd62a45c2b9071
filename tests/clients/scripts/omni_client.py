"""Client script that sends the same messages as the clients of vLLM-Omni 0.30."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from heard import sound, tell
from websockets.asyncio.client import connect

TEXT = "The kettle is on, and the boat comes back in the evening."


async def session(base: str, config: dict[str, Any], *texts: str) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Generate one utterance from these texts.

    Returns:
        The received JSON messages, and the audio of each sentence.
    """
    url = base.replace("http", "ws", 1) + "/v1/audio/speech/stream"
    said: list[dict[str, Any]] = []
    sounds: list[bytes] = []
    async with connect(url, max_size=None) as socket:
        await socket.send(json.dumps({"type": "session.config", **config}))
        for text in texts:
            await socket.send(json.dumps({"type": "input.text", "text": text}))
        await socket.send(json.dumps({"type": "input.done"}))
        while not said or said[-1]["type"] not in {"session.done", "error"}:
            message = await socket.recv()
            if isinstance(message, bytes):
                sounds[-1] += message
                continue
            said.append(json.loads(message))
            if said[-1]["type"] == "audio.start":
                sounds.append(b"")
        await socket.send(json.dumps({"type": "session.close"}))
    return said, sounds


async def main(base: str) -> None:
    voice = {"speaker": "clara", "task_type": "CustomVoice", "language": "English", "seed": 7}
    beside = {"non_streaming_mode": False}  # Default layout of streamed text input.
    streamed, (pcm,) = await session(base, {**voice, **beside, "response_format": "pcm", "stream_audio": True}, TEXT)
    newer, (again,) = await session(
        base, {**voice, "response_format": "pcm", "streaming_mode": "token_level"}, TEXT[:20], TEXT[20:]
    )
    whole, files = await session(base, {**voice, "split_granularity": "sentence"}, "One is here. ", "Two is here.")
    tell(
        streamed={**sound(pcm), "said": streamed},
        newer={**sound(again), "said": newer},
        sentences={
            "said": whole,
            "heads": [file[:4].decode("latin-1") for file in files],
            "bytes": list(map(len, files)),
        },
    )


asyncio.run(main(*sys.argv[1:]))
