"""Common parts of the training stages: options, learning rate, optimizers, CUDA graphs."""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# Coefficients of the Newton-Schulz iteration, which increase small singular values as fast as possible.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS, MOMENTUM = 5, 0.95


def parser_of(description: str | None, out: Path, rate: float) -> argparse.ArgumentParser:
    """Return a command-line parser with the options that both training stages share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--rate", type=float, default=rate, help="peak learning rate")
    parser.add_argument("--hours", type=float, default=160, help="room for speech on the device")
    parser.add_argument("--until", type=Path, required=True, help="file with the Unix time at which training ends")
    parser.add_argument("--resume", type=Path, help="trained network or exported voice with which training begins")
    return parser


def training_device() -> torch.device:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def save(content: dict[str, Any], path: Path) -> None:
    """Write tensors and other values to a file, which is replaced atomically."""
    temporary = path.with_suffix(".tmp")
    torch.save(content, temporary)
    temporary.rename(path)


class Schedule:
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

    Its learning rate is the tensor `rate`, so that captured graphs use the current value.
    """
    return torch.optim.AdamW(weights, lr=rate, betas=betas, weight_decay=decay, capturable=rate.is_cuda, fused=True)


def orthogonal(x: Tensor) -> Tensor:
    """Return approximately orthogonalized matrices in bfloat16.

    The singular values are between about 0.7 and 1.2. Shape of input and output: [N, rows, columns].
    """
    a, b, c = COEFFICIENTS
    y = x.bfloat16()
    tall = y.shape[1] > y.shape[2]
    y = y.mT if tall else y
    y = y / (y.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(STEPS):
        gram = y @ y.mT
        y = a * y + (b * gram + c * gram @ gram) @ y
    return y.mT if tall else y


class Muon:
    """Muon, an optimizer that orthogonalizes the updates of weight matrices.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). The scale of the updates is
    from Liu et al., "Muon is scalable for LLM training" (2025), section 2.2. With this scale, Muon can use AdamW's
    learning rate and weight decay. We do not use torch.optim.Muon, because its learning rate is a Python number, which
    a captured graph cannot change, and because it updates one matrix at a time.
    """

    def __init__(self, weights: Iterable[nn.Parameter], rate: Tensor, decay: float) -> None:
        self.rate, self.decay = rate, decay
        self.groups: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for weight in weights:
            self.groups[weight.shape].append(weight)
        self.moving = {shape: torch.zeros(len(w), *shape, device=w[0].device) for shape, w in self.groups.items()}

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights with their gradients."""
        for shape, weights in self.groups.items():
            gradient, moving = torch.stack([w.grad for w in weights]), self.moving[shape]
            moving.lerp_(gradient, 1 - MOMENTUM)
            update = orthogonal(gradient.lerp(moving, MOMENTUM))
            update = update * (-0.2 * max(shape) ** 0.5 * self.rate)
            torch._foreach_mul_(weights, 1 - self.rate * self.decay)
            torch._foreach_add_(weights, list(update.to(weights[0].dtype).unbind()))


def capture(
    function: Callable[[], None], device: torch.device, warm: int = 8, pool: tuple[int, int] | None = None
) -> Callable[[], None]:
    """Capture a CUDA graph of `function` after `warm` calls, and return its replay function.

    On a CPU, `function` itself is returned. Graphs may share the memory pool `pool`.
    """
    if device.type != "cuda":
        return function
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # The mode is thread_local, because other threads may pin memory during the capture.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        function()
    return graph.replay
