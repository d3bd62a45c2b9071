"""Tests for studio and runtime with a system date that jumps by hours and by a year.

The date of both processes changes repeatedly, but the monotonic clock stays correct.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.app import App, running_app
from tests.support.checkpoints import BRIEF, write_checkpoint
from tests.support.jumping_date import FILE, set_date_offset
from tests.support.keeping import pcm_of, save, visitor_client
from tests.support.speech_client import Take, same_sound, speak_text

DAY_S = 86_400.0
JUMPS_S = (DAY_S / 4, -DAY_S / 4, 366 * DAY_S, -30 * DAY_S, 0.0)
VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 40}
SOUND = pcm_of(0.5)


@contextmanager
def jumping(file: Path) -> Iterator[None]:
    """Change the offset of the system date in a file every 0.1 seconds."""
    ended = threading.Event()

    def jump() -> None:
        for seconds in itertools.cycle(JUMPS_S):
            set_date_offset(file, seconds)
            if ended.wait(0.1):
                return

    thread = threading.Thread(target=jump)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        set_date_offset(file, 0.0)


def heard(app: App) -> Take:
    url = f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"
    return asyncio.run(asyncio.wait_for(speak_text(url, "Good morning, the kettle is on.", **VOICE), 120))


def test_clock_jumps_affect_no_stream_no_stored_data_and_no_restart(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model", BRIEF, "custom_voice", seed=1)
    clock = tmp_path / "clock"
    set_date_offset(clock, 0.0)
    environment = {FILE: str(clock), "VOICEWRIGHT_DATA": str(tmp_path / "data"), "VOICEWRIGHT_VISITORS": "one"}
    with (
        (tmp_path / "log").open("w") as log,
        running_app(
            ["--model", str(tmp_path / "model")], log=log, module="tests.support.jumping_date", **environment
        ) as app,
        visitor_client(app.url) as client,
    ):
        assert b"tests.support.jumping_date" in Path(f"/proc/{app.runtime_pid}/cmdline").read_bytes()
        whole = heard(app)
        kept, binned = save(client, SOUND), save(client, SOUND)
        client.delete(f"/studio/takes/{binned['id']}").raise_for_status()
        set_date_offset(clock, 366 * DAY_S)
        late = save(client, SOUND)
        assert late["created_at"] - time.time() > 300 * DAY_S, "the studio's clock has not jumped"
        with jumping(clock):
            for _ in range(3):
                assert same_sound(heard(app).pcm, whole.pcm)
            os.kill(app.runtime_pid, signal.SIGKILL)
            _await_ready(client)
            assert same_sound(heard(app).pcm, whole.pcm)
        client.post(f"/studio/takes/{binned['id']}/restore").raise_for_status()
        assert {take["id"] for take in client.get("/studio/takes").json()["takes"]} == {
            take["id"] for take in (kept, binned, late)
        }
    assert "Traceback" not in Path(log.name).read_text()


def _await_ready(client: httpx.Client) -> None:
    """Wait until the runtime that replaces the killed runtime is ready."""
    end = time.monotonic() + 240
    gone = False
    while time.monotonic() < end:
        is_ready = client.get("/ready").status_code == httpx.codes.OK
        gone = gone or not is_ready
        if gone and is_ready:
            return
        time.sleep(0.02)
    raise AssertionError("the runtime did not come back")
