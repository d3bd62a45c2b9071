"""Encode the audio of the store to codes, which are training data for the language model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import torch

from config import CONFIG
from store import Store


@torch.no_grad()
def encode_rows(store: Store, codec: torch.nn.Module, rows: list[dict]) -> np.ndarray:
    """Return the codes [frames, K] of consecutive utterances in the store."""
    seconds = 480.0 if store.device.type == "cuda" else 20.0  # Number of seconds of audio per batch.
    base, end = rows[0]["start"] // 1920, (rows[-1]["start"] + rows[-1]["length"]) // 1920
    codes = np.zeros((end - base, CONFIG["codec"]["codebooks"]), np.int16)
    rows, at = sorted(rows, key=lambda r: r["length"]), 0
    while at < len(rows):
        take = max(1, int(seconds * 24000 / (rows[min(at + 64, len(rows) - 1)]["length"])))
        part = rows[at : at + take]
        at += len(part)
        longest = max(r["length"] for r in part)
        start = torch.tensor([r["start"] for r in part], device=store.device)
        index = (start[:, None] + torch.arange(longest, device=store.device)).clamp(max=len(store.audio) - 1)
        made = codec.encode(store.audio[index].float() / 32768.0).to(torch.int16).cpu().numpy()
        for row, code in zip(part, made, strict=True):
            first, count = row["start"] // 1920 - base, row["length"] // 1920
            codes[first : first + count] = code[:count]
    return codes


class Spoken:
    """Encoded training data of stage 4, which grows while new shards arrive.

    Each call of `take` writes new files of codes, phones and rows, which `prompts.Corpus` reads in other processes.
    """

    def __init__(self, store: Store, codec: torch.nn.Module, folder: Path) -> None:
        self.store = store
        self.codec = codec
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.times = 0
        self.rows = 0

    def take(self, shards: int = 1_000_000) -> None:
        """Read up to `shards` new shards, and write their codes, phones and rows to files."""
        self.store.take(shards)
        fresh = self.store.rows[self.rows :]
        if not fresh:
            return
        first, last = fresh[0]["start"] // 480, (fresh[-1]["start"] + fresh[-1]["length"]) // 480
        np.save(self.folder / f"codes_{self.times}.npy", encode_rows(self.store, self.codec, fresh))
        np.save(self.folder / f"phones_{self.times}.npy", self.store.phones[first:last].cpu().numpy())
        temporary = self.folder / "rows.tmp"
        temporary.write_text(json.dumps(fresh))
        # This file is written last, because its existence shows that the other files are complete.
        temporary.rename(self.folder / f"rows_{self.times}.json")
        self.rows += len(fresh)
        self.times += 1
