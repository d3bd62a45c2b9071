"""Test of the messages for an operator who stops the studio during requests."""

from __future__ import annotations

import asyncio

import pytest

from studio import server
from studio.relay.draining import Drain
from studio.runtimes.given_runtime import GivenRuntime

AT_ONCE_S = 0.1


@pytest.mark.parametrize(
    ("lasts_s", "said"),
    [
        (None, ""),
        (0.3 * AT_ONCE_S, ""),
        (5 * AT_ONCE_S, "Finishing running speech, 60 s at most; press Ctrl-C again to end at once.\n"),
    ],
)
async def test_only_a_long_drain_is_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], lasts_s: float | None, said: str
) -> None:
    monkeypatch.setattr(server, "DRAIN_LOG_DELAY_S", AT_ONCE_S)

    drain = Drain()

    async def passage(seconds: float) -> None:
        with drain.count_as_open():
            await asyncio.sleep(seconds)

    passing = None if lasts_s is None else asyncio.create_task(passage(lasts_s))
    await asyncio.sleep(0)
    await server._drain(drain, GivenRuntime("http://127.0.0.1:9"), 60, asyncio.Event())
    if passing is not None:
        await passing
    assert capfd.readouterr().out == said
