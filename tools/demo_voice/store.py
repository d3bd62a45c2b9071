"""Storage of training audio with labels in device tensors, and of its codes in files."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from codec_model import SIZES, Codec

LABEL_SAMPLES, FRAME_SAMPLES = 480, 1920  # Number of samples per phone label (50 per second), and per codec frame.
LABEL_COUNT = 178  # Number of phone labels, which are token ids of the teacher.
STYLE_SIZE = 256  # Number of dimensions of the teacher's style vectors.
STYLE_SCALE = 24  # Int8 value that stands for one standard deviation.


def pack_style(style: np.ndarray) -> str:
    """Convert a standardized style vector [256] to int8 values in base64."""
    return b64encode(np.rint(STYLE_SCALE * style).clip(-127, 127).astype(np.int8)).decode()


def unpack_style(text: str) -> np.ndarray:
    """Decode a style vector [256] that `pack_style` has encoded."""
    return np.frombuffer(b64decode(text), np.int8) / STYLE_SCALE


class Store:
    """Audio (int16) and labels of all shards that were read, in tensors on the device.

    `steps` is the number of labels that were read. It is a device tensor, so that captured graphs use shards that are
    added while training runs.
    """

    def __init__(self, folder: Path, device: torch.device, hours: float) -> None:
        self.folder, self.device = folder, device
        labels = int(hours * 3600 * 24000) // LABEL_SAMPLES
        self.audio = torch.zeros(labels * LABEL_SAMPLES, dtype=torch.int16, device=device)
        self.phones = torch.zeros(labels, dtype=torch.uint8, device=device)
        self.f0 = torch.zeros(labels, dtype=torch.float16, device=device)
        self.steps = torch.zeros((), dtype=torch.float64, device=device)
        self.rows: list[dict] = []
        self.filled = 0
        self._seen: set[str] = set()

    def take(self, limit: int = 1_000_000) -> int:
        """Read up to `limit` new shards of audio and labels, and return the number of shards."""
        fresh = sorted(p for p in self.folder.glob("*.json") if p.name not in self._seen)[:limit]
        for path in fresh:
            self._seen.add(path.name)
            audio, phones, f0 = (np.load(path.with_name(f"{path.stem}.{k}.npy")) for k in ("audio", "phones", "f0"))
            start, first = self.filled, self.filled // LABEL_SAMPLES
            if start + len(audio) > len(self.audio):
                continue
            for tensor, at, part in ((self.audio, start, audio), (self.phones, first, phones), (self.f0, first, f0)):
                tensor[at : at + len(part)] = torch.from_numpy(part).to(self.device)
            self.rows += [{**row, "start": row["start"] + start} for row in json.loads(path.read_text())]
            self.filled += len(audio)
            self.steps.fill_(self.filled // LABEL_SAMPLES)
        return len(fresh)

    def crops(self, batch: int, frames: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return random crops of F codec frames: audio [B, 1920 F], phones [B, 4 F], F0 [B, 4 F].

        A CUDA graph can capture this function.
        """
        room = self.steps - 4 * frames
        start = (torch.rand(batch, dtype=torch.float64, device=self.device) * room).long()[:, None]
        labels = start + torch.arange(4 * frames, device=self.device)
        samples = start * LABEL_SAMPLES + torch.arange(FRAME_SAMPLES * frames, device=self.device)
        return self.audio[samples].float() / 32768.0, self.phones[labels].long(), self.f0[labels].float()

    @torch.no_grad()
    def encode(self, codec: Codec, rows: list[dict]) -> np.ndarray:
        """Return the codes [frames, K] of the utterances in `rows`.

        The rows must be consecutive in the store.
        """
        base, end = rows[0]["start"] // FRAME_SAMPLES, (rows[-1]["start"] + rows[-1]["length"]) // FRAME_SAMPLES
        codes = np.zeros((end - base, SIZES.code2wav.num_quantizers), np.int16)
        rows, batch = sorted(rows, key=lambda r: r["length"]), 64 if self.device.type == "cuda" else 4
        for at in range(0, len(rows), batch):
            part = rows[at : at + batch]
            start = torch.tensor([r["start"] for r in part], device=self.device)[:, None]
            index = (start + torch.arange(part[-1]["length"], device=self.device)).clamp(max=len(self.audio) - 1)
            made = codec.encode(self.audio[index].float() / 32768.0).to(torch.int16).cpu().numpy()
            for row, code in zip(part, made, strict=True):
                first, count = row["start"] // FRAME_SAMPLES - base, row["length"] // FRAME_SAMPLES
                codes[first : first + count] = code[:count]
        return codes


class Spoken:
    """Encoded training data for train_lm.py, which grows while new speech is generated.

    Each call of `take` writes new files with codes, phones and descriptions of the utterances. `prompts.Corpus` reads
    them in other processes.
    """

    def __init__(self, store: Store, codec: Codec, folder: Path) -> None:
        self.store, self.codec, self.folder = store, codec, folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.times = self.rows = 0

    def take(self, shards: int = 1_000_000) -> None:
        """Read and encode up to `shards` new shards, and write their data to files."""
        self.store.take(shards)
        fresh = self.store.rows[self.rows :]
        if not fresh:
            return
        first, last = fresh[0]["start"] // LABEL_SAMPLES, (fresh[-1]["start"] + fresh[-1]["length"]) // LABEL_SAMPLES
        np.save(self.folder / f"codes_{self.times}.npy", self.store.encode(self.codec, fresh))
        np.save(self.folder / f"phones_{self.times}.npy", self.store.phones[first:last].cpu().numpy())
        temporary = self.folder / "rows.tmp"
        temporary.write_text(json.dumps(fresh))
        # This file is written last, because its existence shows that the other files are complete.
        temporary.rename(self.folder / f"rows_{self.times}.json")
        self.rows += len(fresh)
        self.times += 1
