"""Measurement of a runtime that runs out of memory in one request while others continue."""

from __future__ import annotations

import asyncio
import base64
import resource
from pathlib import Path

from benchmarks.common.servers import BenchRuntime
from tests.proof.crowd import at_rest
from tests.support.audio_files import audio_file
from tests.support.signals import voice
from tests.support.speech_client import Take, speak_text, talk

NEIGHBOURS = 3
SHORT_S, LONG_S = 1.0, 55.0  # Durations of the reference audio in seconds.
ROOM_BYTES = 8 * 2**20
ANY = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def _config(seconds: float, seed: int) -> dict[str, object]:
    sound = base64.b64encode(audio_file(voice(seconds, seed))).decode()
    return {"task_type": "base", "ref_audio": sound, "ref_text": "Words.", "seed": seed, "max_frames": 150}


async def short_of_memory(runtime: BenchRuntime, times: int) -> str:
    """Repeatedly send a request that needs too much memory, and return a summary.

    Raises:
        AssertionError: The audio of another stream changed, a later request with the same voice failed, or a resource
            was not released.
    """
    alone = [(await speak_text(runtime.stream, "Hello.", **_config(SHORT_S, seed))).pcm for seed in range(NEIGHBOURS)]
    failed = sum([await _fail_once(runtime, alone) for _ in range(times)])
    take = await speak_text(runtime.stream, "Hello.", **_config(LONG_S, 9))
    assert take.end["type"] == "audio.done", take.end
    after = await at_rest(runtime)
    assert not after.busy, "a slot or a session is left"
    return (
        f"{failed} of {times} requests for which torch got no memory broke alone; {NEIGHBOURS * times} streams beside "
        f"them whole to the bit; {after.busy} slots or sessions left"
    )


async def _fail_once(runtime: BenchRuntime, alone: list[bytes]) -> bool:
    """Send a request that needs too much memory, and return True if the request failed.

    The other requests must finish.
    """
    speaking = asyncio.Semaphore(0)

    async def neighbour(seed: int) -> Take:
        async with talk(runtime.stream, **_config(SHORT_S, seed)) as session:
            await session.send_text("Hello.")
            await session.receive_until("audio.start")
            speaking.release()
            return await session.receive_take()

    running = [asyncio.create_task(neighbour(seed)) for seed in range(NEIGHBOURS)]
    for _ in running:
        await speaking.acquire()
    async with talk(runtime.stream, **_config(LONG_S, 9)) as session:
        limit = _address_space(runtime.pid) + ROOM_BYTES
        resource.prlimit(runtime.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        try:
            await session.send_text("Hello.")
            take = await session.receive_take()
        finally:
            resource.prlimit(runtime.pid, resource.RLIMIT_AS, ANY)
    heard = await asyncio.gather(*running)
    assert [each.pcm for each in heard] == alone, "a neighbour said something else"
    return take.end.get("code") == "generation_failed"


def _address_space(pid: int) -> int:
    """Return the size of the address space of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
