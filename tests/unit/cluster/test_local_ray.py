"""Tests for the local Ray: one retry at the start, error messages and shutdown."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.cluster import local_ray
from runtime.cluster.local_ray import logs_folder, start_ray, stop_ray
from runtime.errors import InvalidSetting

TIMED_OUT = "The current node timed out during startup.\nThis could happen because some of the raylet failed."


class Ray(SimpleNamespace):
    """Fake module `ray` with the function `init`.

    Each call of `init` calls the next function of ``starts``.
    """

    def __init__(self, *starts: Any) -> None:
        super().__init__(starts=list(starts), given=[], shutdowns=0, serve=SimpleNamespace(shutdown=lambda: None))
        self._private = SimpleNamespace(utils=SimpleNamespace(get_dashboard_dependency_error=lambda: None))

    def init(self, **given: Any) -> None:
        self.given.append(given)
        self.starts.pop(0)()

    def shutdown(self) -> None:
        self.shutdowns += 1
        print("(raylet) Task ServeController.graceful_shutdown failed.", file=sys.stderr)


def install(monkeypatch: pytest.MonkeyPatch, ray: Ray) -> Ray:
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    return ray


def fail() -> None:
    raise RuntimeError(TIMED_OUT)


def test_failed_ray_start_is_retried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = install(monkeypatch, Ray(fail, lambda: None))
    start_ray(None, "voicewright")
    assert len(ray.given) == 2
    assert ray.shutdowns == 1
    assert ray.given[1]["include_dashboard"] is False
    # A level above ERROR hides Ray's error about the missing dashboard, after which Ray continues.
    assert ray.given[1]["logging_level"] > logging.ERROR
    assert isinstance(ray._private.utils.get_dashboard_dependency_error(), ImportError)


def test_second_failed_start_error_contains_the_log_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/var/ray-files")
    install(monkeypatch, Ray(fail, fail))
    with pytest.raises(InvalidSetting) as refused:
        start_ray(None, "voicewright")
    assert str(refused.value).count("\n") == 0
    assert "The current node timed out during startup" in str(refused.value)
    assert str(logs_folder()) == "/var/ray-files/ray/session_latest/logs"
    assert str(logs_folder()) in str(refused.value)


def test_hanging_ray_start_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ray, "START_TIMEOUT_S", 1)
    ray = install(monkeypatch, Ray(lambda: time.sleep(60), lambda: None))
    began = time.monotonic()
    start_ray(None, "voicewright")
    assert len(ray.given) == 2
    assert time.monotonic() - began < 30


def test_processes_left_by_a_failed_start_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test uses a separate process, so that all its child processes belong to Ray."""
    program = """
import subprocess, sys, types
from runtime.cluster.local_ray import start_ray
left = []
def init(**given):
    if not left:
        left.append(subprocess.Popen(["sleep", "60"]))
        raise RuntimeError("no")
private = types.SimpleNamespace(utils=types.SimpleNamespace())
sys.modules["ray"] = types.SimpleNamespace(init=init, shutdown=lambda: None, _private=private)
start_ray(None, "voicewright")
print(left[0].wait(timeout=20))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert ended.stdout == "-9\n"


def test_connection_to_a_running_ray_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = install(monkeypatch, Ray(fail))
    with pytest.raises(InvalidSetting):
        start_ray("192.0.2.1:6379", "voicewright")
    assert len(ray.given) == 1


@pytest.mark.parametrize(("drain_s", "is_hurried"), [(0.0, False), (600.0, True)])
def test_ray_shutdown_prints_no_output_and_returns_after_the_drain_timeout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], drain_s: float, is_hurried: bool
) -> None:
    monkeypatch.setattr(local_ray, "STOP_MARGIN_S", 0.3)
    ray = install(monkeypatch, Ray())
    forever, second_signal = threading.Event(), threading.Event()
    ray.serve.shutdown = forever.wait
    if is_hurried:
        second_signal.set()
    began = time.monotonic()
    stop_ray(drain_s, second_signal)
    forever.set()
    assert time.monotonic() - began < 20
    assert ray.shutdowns == 1
    assert capfd.readouterr().err == ""
