"""Child process of the aligners, which the parent kills if one hangs.

stdin: per request, one line of JSON (``samples``, ``rate``, ``text``, ``language``), then the float32 samples.
stdout: one line of JSON per response. The process ends with its parent, also during an alignment.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.shared.system import be_polite
from studio.aligning.fitting import MisfitError, fitted
from studio.aligning.plugin import Aligner, installed

POLITENESS = 10  # Nice value: live speech comes first.

Question = tuple[dict[str, Any], NDArray[np.float32]]


def main() -> None:
    """Process requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles it and closes the pipe.
    be_polite(POLITENESS)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Aligners may print; stdout carries only results.
    questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(questions,), name="questions", daemon=True).start()
    while True:
        asked, samples = questions.get()
        print(json.dumps(_answer(samples, asked["rate"], asked["text"], asked["language"])), file=answers, flush=True)


def _read(questions: queue.SimpleQueue[Question]) -> None:
    while line := sys.stdin.buffer.readline():
        asked = json.loads(line)
        questions.put((asked, np.frombuffer(sys.stdin.buffer.read(4 * asked["samples"]), "<f4")))
    os._exit(0)


def _answer(samples: NDArray[np.float32], rate: int, text: str, language: str | None) -> dict[str, Any]:
    """Return the first successful aligner's result and the errors of earlier ones, without any text."""
    faults: list[str] = []
    for name in _names():
        try:
            placed = _loaded(name)(samples, rate, text, language)
            if placed is not None:
                words = fitted(placed, text, len(samples) / rate)
                return {"by": name, "spans": words.spans, "start": words.start, "end": words.end, "faults": faults}
        except MisfitError as misfit:
            faults.append(f"{name}: {misfit}")
        except Exception as error:
            faults.append(f"{name}: {type(error).__name__}")
    return {"by": None, "faults": faults}


@cache
def _names() -> list[str]:
    return [name for name, _ in installed()]


@cache
def _loaded(name: str) -> Aligner:
    return dict(installed())[name]()


if __name__ == "__main__":
    main()
