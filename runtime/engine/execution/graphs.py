"""Pool of a checkpoint's captured graphs, by kind of work and shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import ge
from typing import Any

from runtime.device import Device
from runtime.errors import SetUpError

log = logging.getLogger(__name__)

# Batch sizes of the captured decode graphs. Any other batch uses the next larger graph, so five rows use the graph for
# six rows.
DECODE_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)

Progress = Callable[[int, int], None]  # Arguments: number of captured graphs, total number.
Shape = tuple[int, ...]


class GraphKind(StrEnum):
    """Kind of work that a graph captures.

    The comment of each member lists the dimensions of a graph's shape.
    """

    DECODE = "decode steps"  # Shape: number of rows, span, sampling kind.
    DECODE_WITH_PROMPTS = "decode steps with prompts"  # Shape: number of rows, number of prompt pieces.
    PREFILL = "prefill chunks"  # Shape: number of prompts, positions per prompt.
    FIRST_FRAME = "first frames"  # Shape: number of rows, sampling kind.
    FOLLOWING_AUDIO = "audio after first frames"  # Shape: number of frames, number of rows.
    FIRST_AUDIO = "first audio"  # Shape: number of frames, number of rows.
    AUDIO = "audio"  # Shape: number of frames, number of rows.
    REFERENCE = "references"  # Shape: number of frames.
    REFERENCE_END = "ends of references"  # Shape: number of frames.


@dataclass(frozen=True, slots=True)
class Capture:
    """Description of a graph to capture: kind of work, shape, and capture function.

    The function `capture` returns the graph, or an object that owns the graph and its inputs.
    """

    work: GraphKind
    shape: Shape
    capture: Callable[[], Any]


class GraphPool:
    """Captured graphs by kind of work and shape.

    Work without a graph runs eagerly.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        # Graphs by kind of work and shape. The shapes of each kind are in ascending order.
        self._graphs: dict[GraphKind, dict[Shape, Any]] = {work: {} for work in GraphKind}

    def capture(self, captures: Iterable[Capture], progress: Progress = lambda done, of: None) -> None:
        """Capture graphs in the given order.

        The largest graph must be first, because later graphs can reuse its memory. If a capture fails, the error is
        logged, and the work runs without a graph.

        Raises:
            SetUpError: The checkpoint cannot be used on this device.
        """
        pending = list(captures)
        before, errors = self._device.free_bytes(), []
        for done, capture in enumerate(pending, 1):
            try:
                self._graphs[capture.work][capture.shape] = capture.capture()
            except SetUpError:
                raise
            except Exception as error:
                errors.append(f"{capture.work} {capture.shape}: {type(error).__name__}: {error}")
            progress(done, len(pending))
        self._graphs = {work: dict(sorted(graphs.items())) for work, graphs in self._graphs.items()}
        used_bytes = (before - self._device.free_bytes()) / 2**20
        log.info("%d graphs captured, %.0f MiB", len(pending) - len(errors), used_bytes)
        if errors:
            log.warning(
                "capture failed for %d of %d, which run without graphs: %s", len(errors), len(pending), errors[0]
            )

    def of(self, work: GraphKind) -> dict[Shape, Any]:
        """Return all graphs for a kind of work, by shape."""
        return self._graphs[work]

    def get(self, work: GraphKind, *shape: int) -> Any | None:
        """Return the graph for a kind of work and exactly this shape, or None."""
        return self._graphs[work].get(shape)

    def fitting(self, work: GraphKind, *least: int) -> tuple[Shape, Any | None]:
        """Return the smallest graph whose dimensions are all at least `least`, and its shape.

        Returns:
            Shape and graph, or `least` and None if there is no such graph.
        """
        for shape, graph in self._graphs[work].items():
            if all(map(ge, shape, least)):
                return shape, graph
        return least, None
