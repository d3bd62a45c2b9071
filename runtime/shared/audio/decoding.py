"""Decoder of untrusted audio files.

Plain WAV is decoded in this process, and other formats in child processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import IO

import numpy as np

from runtime.errors import BadReferenceAudio, ReferenceTooLong
from runtime.shared.audio.decode_child import ANSWER_BYTES, CPU_S
from runtime.shared.audio.samples import DecodedAudio
from runtime.shared.audio.wav_reader import is_plain_wav, read_wav

TIMEOUT_S = 30.0  # Timeout in seconds of a child process, including its start on a busy machine.
POLL_INTERVAL_S = 0.25  # Interval in seconds between checks for the exit of a child process.
PIECE_BYTES = 2**18
MAX_PROCESSES = 2  # Maximum number of child processes, because each process may use its full memory limit.

COMMAND = (sys.executable, "-E", "-s", "-m", "runtime.shared.audio.decode_child")
# Working directory of the child processes. It allows them to import this package.
PACKAGE_ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {
    **{name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ},
    "OPENBLAS_NUM_THREADS": "1",  # One thread is used, because one thread per core would exceed the memory limit.
}

TOO_SLOW = f"it takes longer than {CPU_S} s to decode; send a shorter recording, or WAV"
CRASHED = "the decoder crashed on it; send it as WAV"

KILLED_RETURN_CODE = -9  # Return code of a process that was killed at the timeout or at its limit of CPU time.

_turn = threading.BoundedSemaphore(MAX_PROCESSES)


def decode(data: bytes, *, limit_s: float) -> DecodedAudio:
    """Decode an audio file of at most `limit_s` seconds to mono.

    The format is detected from the content.

    Raises:
        BadReferenceAudio: The data is not an audio file, or the format is not supported.
        ReferenceTooLong: The audio is longer than the limit.

    Thread: worker thread.
    """
    if is_plain_wav(data):
        return read_wav(data, limit_s=limit_s)
    with _turn:
        return _decode_in_child(data, limit_s, COMMAND)


def _decode_in_child(
    data: bytes, limit_s: float, command: tuple[str, ...], timeout_s: float = TIMEOUT_S
) -> DecodedAudio:
    head = json.dumps({"limit_s": limit_s}).encode() + b"\n"
    answer, status = run_child(command, head, data, timeout_s=timeout_s)
    return _understood(answer, if_none=TOO_SLOW if status == KILLED_RETURN_CODE else CRASHED)


def run_child(command: tuple[str, ...], *pieces: bytes, timeout_s: float = TIMEOUT_S) -> tuple[bytes, int]:
    """Run a process that reads untrusted input from stdin.

    Returns:
        Output and exit status of the process.

    Args:
        pieces: Pieces of the input, written to stdin in this order.

    Thread: worker thread.
    """
    with subprocess.Popen(  # noqa: S603  The command is constant.
        command,
        cwd=PACKAGE_ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        ended = threading.Event()
        alarm = threading.Thread(target=_kill_after, args=(child.kill, timeout_s, ended), daemon=True)
        giving = threading.Thread(target=_give, args=(child.stdin, pieces), daemon=True)
        alarm.start()
        giving.start()
        try:
            answer = _taken(child.stdout)
            if len(answer) <= ANSWER_BYTES:
                child.wait()
        finally:
            ended.set()
            child.kill()  # The child is still running if its output has exceeded the limit.
            giving.join()
            alarm.join()
    return answer, child.returncode


def _kill_after(kill: Callable[[], None], timeout_s: float, ended: threading.Event) -> None:
    """Kill the child after `timeout_s` seconds.

    Time is counted in polls, so that a suspended machine does not count.
    """
    for _ in range(ceil(timeout_s / POLL_INTERVAL_S)):
        if ended.wait(POLL_INTERVAL_S):
            return
    kill()


def _give(stdin: IO[bytes], pieces: tuple[bytes, ...]) -> None:
    try:
        with stdin:
            stdin.writelines(pieces)
    except OSError:  # The child has ended, or has refused the file without reading all of it.
        return


def _taken(stdout: IO[bytes]) -> bytes:
    """Read the output of the child in chunks.

    One large read would allocate the maximum size at once.
    """
    answer = bytearray()
    while len(answer) <= ANSWER_BYTES and (piece := stdout.read(PIECE_BYTES)):
        answer += piece
    return bytes(answer)


def _understood(answer: bytes, if_none: str) -> DecodedAudio:
    head, _, samples = answer.partition(b"\n")
    try:
        reply = json.loads(head)
        if "rate" in reply:
            # The samples are copied, because an array from `np.frombuffer` is read-only.
            return DecodedAudio(np.frombuffer(samples, np.float32).copy(), int(reply["rate"]))
        kind = ReferenceTooLong if reply["code"] == ReferenceTooLong.code else BadReferenceAudio
        refusal = kind(**reply["facts"])
    except (ValueError, TypeError, KeyError):
        raise BadReferenceAudio(why=if_none) from None
    raise refusal
