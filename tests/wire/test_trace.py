"""Test that a short request passes through few files and few function calls."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from websockets.sync.client import connect

from runtime.engine.core import EngineCore
from runtime.engine.engine import Engine
from runtime.server.native.messages import PROTOCOL
from runtime.settings import EngineSettings, ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import running_server
from tests.support.timeouts import TEST_TIMEOUT_S

RUNTIME = str(Path(__file__).resolve().parents[2] / "runtime")
MAX_FILES = 45
MAX_HOPS = 25
ASIDE = ("Watchdog.", "ServerMetrics.")  # Tasks of the server that run at the same time as the request.


class Trace:
    """Profiler of the runtime's function calls in all threads, until the core gets a request.

    The trace starts with the next message. ``hops`` is the sum of the lengths of the longest call chains of all
    threads: the event loop's thread, the validation thread and the engine thread. Of the engine thread, only the
    commands are counted, because its other steps do not belong to the request.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.files: set[str] = set()
        self.functions: set[tuple[str, int]] = set()
        self.chains: dict[str, list[str]] = {}  # Longest call chain of each thread.
        # The validation waits for the end of the text, so that the traced calls do not depend on the timing.
        self.has_text_end = threading.Event()

    @property
    def hops(self) -> int:
        return sum(map(len, self.chains.values()))

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """Record a function call.

        This method is the profile function of every thread.
        """
        code = frame.f_code
        if not self.is_on or event != "call" or not code.co_filename.startswith(RUNTIME):
            return
        thread, chain = threading.current_thread().name, list(names_above(frame))
        if chain[-1].startswith(ASIDE) or (thread == "engine" and "Engine.run_commands" not in chain):
            return
        if code is Engine.finish_text.__code__:
            self.has_text_end.set()
        if code is Engine._accept.__code__:
            assert self.has_text_end.wait(TEST_TIMEOUT_S)
        self.files.add(code.co_filename)
        self.functions.add((code.co_filename, code.co_firstlineno))
        if len(chain) > len(self.chains.get(thread, ())):
            self.chains[thread] = chain
        if code is EngineCore.add_request.__code__:
            self.is_on = False


def names_above(frame: FrameType | None) -> Iterator[str]:
    """Yield the names of the runtime's functions on the stack, starting with the innermost."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(RUNTIME):
            yield frame.f_code.co_qualname
        frame = frame.f_back


@contextmanager
def following_all_threads() -> Iterator[Trace]:
    """Trace all threads that are started in the block, and yield the trace."""
    trace = Trace()
    threading.setprofile(trace.follow)
    try:
        yield trace
    finally:
        threading.setprofile(None)


@pytest.mark.skipif(sys.gettrace() is not None, reason="another tool follows the calls")
def test_native_request_runs_through_a_limited_number_of_files(folder_of: FolderOf) -> None:
    with (
        following_all_threads() as trace,
        running_server(
            folder_of("brief", "custom_voice"),
            engine=EngineSettings(threads=1, max_slots=2),
            server=ServerSettings(canary_s=0),
        ) as server,
    ):
        for is_measured in (False, True):  # The first request fills caches and is not measured.
            with connect(server.socket, subprotocols=[PROTOCOL]) as socket:  # type: ignore[list-item]
                assert json.loads(socket.recv())["type"] == "session.created"
                trace.is_on = is_measured
                for message in (
                    {"type": "session.config", "max_frames": 6},
                    {"type": "input.text", "text": "Hello."},
                    {"type": "input.done"},
                ):
                    socket.send(json.dumps(message))
                while "audio.done" not in str(socket.recv()):
                    pass
    assert not trace.is_on, "the request has reached the core"
    print(f"{len(trace.files)} files, {len(trace.functions)} functions, {trace.hops} hops")
    assert len(trace.files) <= MAX_FILES, "\n".join(sorted(trace.files))
    assert trace.hops <= MAX_HOPS, trace.chains
