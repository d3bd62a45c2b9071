"""Decoder of untrusted audio files.

Plain WAV is decoded in this process, and other formats in child processes.
"""

from __future__ import annotations

import json
import sys
import threading

import numpy as np

from runtime.errors import BadReferenceAudio, ReferenceTooLong
from runtime.shared.audio.decode_child import ANSWER_BYTES, CPU_S
from runtime.shared.audio.samples import DecodedAudio
from runtime.shared.audio.wav_reader import is_plain_wav, read_wav
from runtime.shared.child import run_child_blocking

TIMEOUT_S = 30.0  # Timeout in seconds of a child process, including its start on a busy machine.
MAX_PROCESSES = 2  # Maximum number of child processes, because each process may use its full memory limit.

COMMAND = (sys.executable, "-E", "-s", "-m", "runtime.shared.audio.decode_child")

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
    answer, status = run_child_blocking(command, head, data, timeout_s=timeout_s, max_output_bytes=ANSWER_BYTES)
    return _understood(answer, if_none=TOO_SLOW if status == KILLED_RETURN_CODE else CRASHED)


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
