"""What the engine chose, beside what it could have: the frame in one graph or in three, read late or at once.

    python -m benchmarks.choices --model FOLDER --batches 1,8,32,64 --json FILE

``apart``: the code predictor has a graph of its own between those of the talker and of what follows it, as they would
be if each network were captured by itself. ``waits``: every frame's codes are copied to the host and waited for before
the next is launched; otherwise the next one is launched first, as in service. Frames are of one prompt, at 100
positions, the same in every variant, and the codes have to be the same too. On a device without graphs only ``waits``
and its opposite are compared.

Code2Wav one request by one against batches: `python -m benchmarks.suite closed --arm batched --arm
alone:VOICEWRIGHT_SOUND_BATCH=1`, in every mode (`VOICEWRIGHT_BASE_SOUND_BATCH` and so on for one).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.arguments import parser_of, settings_of_checkpoint, several
from benchmarks.parts import Parts, synchronize
from benchmarks.report import tell
from runtime.device.cuda import PRIORITIES, CudaDevice
from runtime.device.interface import Graph, Stream
from runtime.engine.model_runner import FrameResult
from runtime.model.code_predictor import CodePredictor

CONTEXT, WARM_UPS = 100, 5
Row = dict[str, Any]


class Pieces(Graph[Tensor]):
    """Graphs that are replayed one behind the other."""

    def __init__(self, graphs: list[torch.cuda.CUDAGraph], result: Tensor) -> None:
        self._graphs = graphs
        self.result = result

    def replay(self) -> None:
        for graph in self._graphs:
            graph.replay()


@contextmanager
def captured_apart() -> Iterator[None]:
    """Engines that start within have frames of three graphs: up to the code predictor's passes, these, and the rest."""
    pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(priority=PRIORITIES[Stream.FRAMES])  # type: ignore[no-untyped-call]
    whole, predict = CudaDevice.capture, CodePredictor.predict
    graphs: list[torch.cuda.CUDAGraph] = []

    def begin() -> None:
        graphs.append(torch.cuda.CUDAGraph())
        graphs[-1].capture_begin(pool, capture_error_mode="thread_local")

    def cut(self: CodePredictor, *arguments: Any) -> None:
        graphs[-1].capture_end()
        begin()
        predict(self, *arguments)
        graphs[-1].capture_end()
        begin()

    def capture(self: CudaDevice, work: Callable[[], Any], of: Stream) -> Graph[Any]:
        if of is not Stream.FRAMES:
            return whole(self, work, of)
        graphs.clear()
        with torch.cuda.stream(stream):
            work()
            stream.synchronize()
            with patch.object(CodePredictor, "predict", cut):
                begin()
                result = work()
                graphs[-1].capture_end()
        synchronize()
        return Pieces(list(graphs), result)

    with patch.object(CudaDevice, "capture", capture):
        yield


def frames(parts: Parts, batch: int, counted: int, *, waits: bool) -> tuple[float, NDArray[np.int64]]:
    """Milliseconds of a frame, and the codes of the last. Shapes: codes [batch, Q]."""
    slots = parts.begin(batch, CONTEXT)
    for _ in range(WARM_UPS):
        parts.launch(slots)()
    before: Callable[[], FrameResult] | None = None
    began = time.perf_counter()
    for _ in range(counted):
        launched = parts.launch(slots)
        if waits:
            launched()
        elif before is not None:
            before()
        before = launched
    assert before is not None
    codes = before().codes
    synchronize()
    spent = 1000 * (time.perf_counter() - began) / counted
    parts.end(slots)
    return spent, codes


def main() -> int:
    """Measure every variant twice, in the order A B … B A; a line a variant, and all of them as JSON."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batches", type=several(int), default=(1, 8, 32, 64))
    parser.add_argument("--frames", type=int, default=100, help="counted of each variant, twice")
    parser.add_argument("--length", type=int, default=700, help="positions of a slot")
    arguments = parser.parse_args()
    settings = settings_of_checkpoint(arguments.model, max(arguments.batches), arguments.length)
    opened = {"one graph": Parts(settings, tell)}
    if opened["one graph"].core.device.holds_graphs:
        with captured_apart():
            opened["apart"] = Parts(settings, tell)
    variants = [(name, waits) for name in opened for waits in (False, True)]
    rows: list[Row] = []
    for batch in arguments.batches:
        spent: dict[tuple[str, bool], list[float]] = {variant: [] for variant in variants}
        codes: list[NDArray[np.int64]] = []
        for name, waits in [*variants, *reversed(variants)]:
            took, made = frames(opened[name], batch, arguments.frames, waits=waits)
            spent[name, waits].append(took)
            codes.append(made)
        same = all(np.array_equal(made, codes[0]) for made in codes)
        for (name, waits), taken in spent.items():
            rows.append(
                {
                    "batch": batch,
                    "graphs": name,
                    "waits": waits,
                    "frame_ms": round(statistics.mean(taken), 3),
                    "runs_ms": [round(one, 3) for one in taken],
                    "same_codes": same,
                }
            )
            print(rows[-1], flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["same_codes"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
