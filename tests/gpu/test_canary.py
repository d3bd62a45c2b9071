"""Tests for the canary (periodic test request) on a GPU: its codes are always the same."""

from __future__ import annotations

import asyncio
import time

import pytest

from runtime.settings import EngineSettings, ServerSettings
from tests.conftest import FolderOf
from tests.support.cuda import needs_gpu
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import speak_text

pytestmark = needs_gpu

DEVICE = "cuda"
MIN_ROUNDS = 100
WITHIN_S = 120.0


def canaries(server: RunningServer) -> int:
    """Return the number of canary requests with the expected result.

    The server exits after a canary request with another result.
    """
    name = 'voicewright_canaries_total{outcome="same"} '
    return int(sum(float(line.removeprefix(name)) for line in server.metrics().splitlines() if line.startswith(name)))


@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
def test_canary_audio_is_reproducible(folder_of: FolderOf, mode: str) -> None:
    settings = EngineSettings(device=DEVICE, max_slots=4)
    with running_server(folder_of("tiny", mode), engine=settings, server=ServerSettings(canary_s=0.001)) as server:
        company, late = 0, time.monotonic() + WITHIN_S
        while (rounds := canaries(server)) < MIN_ROUNDS:
            assert server.exit_status is None, "it was not the same"
            assert time.monotonic() < late, rounds
            # Earlier data of other requests in slots and caches must have no effect.
            if mode != "base" and rounds > 10 * company:
                company += 1
                asyncio.run(speak_text(server.socket, "Now.", task_type=mode, max_frames=5, instructions="Slowly."))
            time.sleep(0.01)
