"""Tests for the HAProxy process: a program that does not behave like HAProxy is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from runtime.cluster import haproxy
from runtime.cluster.haproxy import HAProxy
from runtime.errors import InvalidSetting
from runtime.settings import ClusterSettings, Settings

SILENT = "import time; time.sleep(600)"
MUTE = """
import pathlib, socket, sys, time
with socket.socket(socket.AF_UNIX) as admin:
    admin.bind(str(pathlib.Path(sys.argv[-1]).with_name("admin.sock")))
    admin.listen()
    time.sleep(600)
"""


def in_place_of_haproxy(folder: Path, words: str) -> HAProxy:
    program = folder / "program"
    program.write_text(f"#!{sys.executable} -IS\n{words}\n")
    program.chmod(0o700)
    return HAProxy(Settings(cluster=ClusterSettings(haproxy=str(program))), folder, view_port=9)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("words", [SILENT, MUTE], ids=["no socket", "no answer"])
async def test_haproxy_without_a_working_admin_socket_is_killed(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haproxy, "START_TIMEOUT_S", 0.7)
    started = in_place_of_haproxy(tmp_path, words)
    with pytest.raises(InvalidSetting, match="admin socket"):
        await started.start()
    assert started.pid
    assert not is_there(started.pid)


async def test_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    started = in_place_of_haproxy(tmp_path, SILENT)

    starting = asyncio.create_task(started.start())
    while not started.pid:  # noqa: ASYNC110  A process has no event for it.
        await asyncio.sleep(0.01)
    assert is_there(started.pid)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_there(started.pid)
