"""Function that starts app.py with its runtime on a free port, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
START_S = 240.0  # Timeout of a start in seconds. Importing torch and gradio is slow on a busy machine.
STOP_S = 60.0
HURRY_S = 2.0
READY = re.compile(r"Voicewright is ready at (http://\S+)")


@dataclass(frozen=True)
class App:
    """Running app.py process that has printed its URL."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]

    @property
    def runtime_pid(self) -> int:
        """Return the process ID of the runtime, which may have sibling processes."""
        children = [child for task in Path(f"/proc/{self.process.pid}/task").iterdir() for child in _children(task)]
        words = {child: Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in children}
        (runtime,) = [child for child, said in words.items() if b"runtime" in said and b"--check" not in said]
        return int(runtime)


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


@contextmanager
def running_app(
    arguments: Sequence[str], *, log: IO[str] | None = None, instant: bool = False, module: str = "", **variables: str
) -> Iterator[App]:
    """Start app.py, and yield it when it has printed its URL.

    On exit, the process is stopped with SIGINT.

    Args:
        arguments: Command-line arguments.
        log: File for the standard error of the process, or None to inherit it.
        instant: True to use a runtime that generates audio instantly.
        module: Python module to run instead of app.py, or an empty string.
        variables: Additional environment variables.
    """
    module = module or ("tests.support.instant_app" if instant else "")
    start = ["-m", module] if module else ["app.py"]
    command = [sys.executable, *start, "--port", "0", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "VOICEWRIGHT_THREADS": "1", **variables}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        assert process.stdout is not None
        late = threading.Timer(START_S, process.kill)
        late.start()
        try:
            url = _url(process.stdout)
            late.cancel()
            yield App(url, process)
        finally:
            late.cancel()
            if not _ended(process, HURRY_S):
                # Before the process ends, it finishes the speech that is in progress.
                assert _ended(process, STOP_S), "it did not end"


def _ended(process: subprocess.Popen[str], within_s: float) -> bool:
    """Send SIGINT if the process runs, and return True if it ends within `within_s` seconds."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def _url(output: IO[str]) -> str:
    for line in output:
        if said := READY.match(line):
            return said[1]
    raise AssertionError("app.py ended without having been ready; see its standard error above")
