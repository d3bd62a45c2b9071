"""Event sinks that collect the output of an in-process engine, and comparison of outputs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Broken, Finished, Refused, SpeechEvent, SpeechRequest

END_TIMEOUT_S = 1800  # Timeout of an utterance in seconds, because large checkpoints are slow on a CPU.


class CodesAndPcm(NamedTuple):
    """Output of one utterance: codec codes [F, Q] (F frames, Q codebooks) and PCM samples."""

    codes: NDArray[np.int64]
    samples: NDArray[np.int16]


@dataclass(slots=True)
class Listener:
    """Event sink that collects the audio and the final event of one request."""

    sent: float = field(default_factory=time.perf_counter)
    first: float = 0.0
    chunks: list[AudioChunk] = field(default_factory=list)
    end: Finished | Broken | Refused | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def result(self) -> CodesAndPcm:
        codes = np.concatenate([chunk.codes for chunk in self.chunks]) if self.chunks else np.empty((0, 0), np.int64)
        return CodesAndPcm(codes, np.frombuffer(b"".join(chunk.pcm for chunk in self.chunks), np.int16))

    @property
    def ttfa_ms(self) -> float:
        return 1000 * (self.first - self.sent)

    def __call__(self, event: SpeechEvent) -> None:
        if isinstance(event, AudioChunk):
            self.first = self.first or time.perf_counter()
            self.chunks.append(event)
        elif isinstance(event, Finished | Broken | Refused):
            self.end = event
            self.ended.set()


def speak_all(engine: Engine, requests: Sequence[SpeechRequest]) -> tuple[list[Listener], float]:
    """Run requests concurrently on an in-process engine, and wait until all have ended.

    Returns:
        One listener per request, and the seconds until the last request has ended.

    Raises:
        SystemExit: A request did not end within the timeout.
    """
    began, listeners = time.perf_counter(), []
    for request in requests:
        listeners.append(Listener())
        engine.submit(request, listeners[-1])
    for listener in listeners:
        if not listener.ended.wait(END_TIMEOUT_S):
            sys.exit(f"no end within {END_TIMEOUT_S} s")
    return listeners, time.perf_counter() - began


def first_difference(result: CodesAndPcm, other: CodesAndPcm) -> int | None:
    """Return the index of the first frame whose codes differ, or None if all codes are equal.

    If one utterance is shorter and all of its frames are equal, the result is its number of frames.
    """
    shared = min(len(result.codes), len(other.codes))
    differing = np.flatnonzero((result.codes[:shared] != other.codes[:shared]).any(axis=1))
    return int(differing[0]) if len(differing) else shared if len(result.codes) != len(other.codes) else None
