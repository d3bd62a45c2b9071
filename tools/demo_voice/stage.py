"""Common parts of the training stages: options, learning rate, and CUDA graphs."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn


def parser_of(description: str | None, out: Path, rate: float) -> argparse.ArgumentParser:
    """Return a command-line parser with the options that both training stages share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--rate", type=float, default=rate, help="peak learning rate")
    parser.add_argument("--hours", type=float, default=160, help="room for speech on the device")
    parser.add_argument("--until", type=Path, required=True, help="file with the Unix time at which training ends")
    parser.add_argument("--resume", type=Path, help="checkpoint with which training begins")
    return parser


def training_device() -> torch.device:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Course:
    """Steps and learning rate of a training stage.

    The learning rate is constant for the share `flat` of the training time, and then decays.
    """

    def __init__(self, args: argparse.Namespace, lowest: float, flat: float = 0.0) -> None:
        self.peak, self.lowest, self.flat = args.rate, lowest, flat
        self.start = time.time()
        self.seconds = max(1.0, float(args.until.read_text()) - self.start)
        self.step = 0  # Number of steps so far.

    def rates(self, until: float = 1.0) -> Iterator[float]:
        """Yield the learning rate of each step until the share `until` of the time has passed."""
        while (share := (time.time() - self.start) / self.seconds) < until:
            fall = min(1.0, max(0.0, (share - self.flat) / (1 - self.flat)))
            decay = self.lowest + (1 - self.lowest) * 0.5 * (1 + math.cos(math.pi * fall))
            self.step += 1
            yield self.peak * min(1.0, self.step / 300) * decay

    def report(self, names: Iterable[str], values: Tensor, extra: str) -> None:
        """Print the logged losses, and exit if the first loss is not finite."""
        figures, gone = zip(names, values.tolist(), strict=True), time.time() - self.start
        losses = " ".join(f"{name} {value:.3f}" for name, value in figures)
        print(f"{gone:6.1f}s step {self.step} {self.step / gone:.1f}/s {losses} {extra}", flush=True)
        if not values[0].isfinite():
            raise SystemExit("the loss is not finite")


def adamw(weights: Iterable[nn.Parameter], rate: Tensor, betas: tuple[float, float], decay: float) -> torch.optim.AdamW:
    """Return an AdamW optimizer.

    On CUDA, its learning rate is the tensor `rate`, so that captured graphs use the current value.
    """
    cuda = rate.is_cuda
    return torch.optim.AdamW(weights, lr=rate if cuda else 1e-4, betas=betas, weight_decay=decay, capturable=cuda,
                             fused=cuda)  # fmt: skip


def set_rate(optimiser: torch.optim.AdamW, rate: Tensor, value: float) -> None:
    rate.fill_(value)
    for group in optimiser.param_groups if not rate.is_cuda else ():
        group["lr"] = value


def capture(
    function: Callable[[], None], device: torch.device, warm: int = 8, pool: tuple[int, int] | None = None
) -> Callable[[], None]:
    """Capture a CUDA graph of `function`, and return a function that replays the graph.

    On a CPU, `function` itself is returned. Graphs may share the memory pool `pool`.
    """
    if device.type != "cuda":
        return function
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Other threads may pin memory during the capture.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        function()
    return graph.replay
