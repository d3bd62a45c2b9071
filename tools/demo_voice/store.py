"""Store of training audio and labels in device tensors, for random crops.

New shards are added while training runs.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

LABEL_SAMPLES = 480  # Samples per phone label: 50 labels per second.
LABEL_COUNT = 178  # Phone labels are token ids of the teacher.
STYLE_SIZE = 256  # Number of dimensions of the teacher's style vectors.
STYLE_SCALE = 24  # Int8 value that stands for one standard deviation.


def pack_style(style: np.ndarray) -> str:
    """Convert a standardized style vector [256] to int8 values in base64."""
    return b64encode(np.rint(STYLE_SCALE * style).clip(-127, 127).astype(np.int8)).decode()


def unpack_style(text: str) -> np.ndarray:
    """Return the style vector [256] from a result of `pack_style`."""
    return np.frombuffer(b64decode(text), np.int8) / STYLE_SCALE


class Store:
    """Device tensors with the int16 audio and the labels of all shards that were read.

    `steps` is the number of labels that were read. This number is a device tensor, so that captured graphs use new
    shards.
    """

    def __init__(self, folder: Path, device: torch.device, hours: float) -> None:
        self.folder = folder
        self.device = device
        capacity = int(hours * 3600 * 24000) // LABEL_SAMPLES * LABEL_SAMPLES
        self.audio = torch.zeros(capacity, dtype=torch.int16, device=device)
        self.phones = torch.zeros(capacity // LABEL_SAMPLES, dtype=torch.uint8, device=device)
        self.f0 = torch.zeros(capacity // LABEL_SAMPLES, dtype=torch.float16, device=device)
        self.steps = torch.zeros((), dtype=torch.float64, device=device)
        self.rows: list[dict] = []
        self.filled = 0
        self._seen: set[str] = set()

    def take(self, limit: int = 1_000_000) -> int:
        """Read up to `limit` new shards, and return their number."""
        fresh = sorted(p for p in self.folder.glob("*.json") if p.name not in self._seen)[:limit]
        for path in fresh:
            self._seen.add(path.name)
            parts = {k: np.load(path.with_name(f"{path.stem}.{k}.npy")) for k in ("audio", "phones", "f0")}
            if self.filled + len(parts["audio"]) > len(self.audio):
                continue
            at, n = self.filled, len(parts["audio"])
            self.audio[at : at + n] = torch.from_numpy(parts["audio"]).to(self.device)
            self.phones[at // LABEL_SAMPLES : (at + n) // LABEL_SAMPLES] = torch.from_numpy(parts["phones"]).to(
                self.device
            )
            self.f0[at // LABEL_SAMPLES : (at + n) // LABEL_SAMPLES] = torch.from_numpy(parts["f0"]).to(self.device)
            for row in json.loads(path.read_text()):
                self.rows.append({**row, "start": row["start"] + at})
            self.filled += n
            self.steps.fill_(self.filled // LABEL_SAMPLES)
        return len(fresh)

    def crops(self, batch: int, frames: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return random crops: audio [B, 1920 F], phones [B, 4 F], F0 [B, 4 F].

        A CUDA graph can capture this function.
        """
        room = self.steps - 4 * frames
        start = (torch.rand(batch, dtype=torch.float64, device=self.device) * room).long()
        labels = start[:, None] + torch.arange(4 * frames, device=self.device)
        samples = start[:, None] * LABEL_SAMPLES + torch.arange(1920 * frames, device=self.device)
        return self.audio[samples].float() / 32768.0, self.phones[labels].long(), self.f0[labels].float()
