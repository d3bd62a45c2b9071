"""Stage 3: turn every shard into codes with the trained speech tokenizer.

Run: python encode.py
Writes codes.npy [frames, K], phones.npy (4 a frame), audio stays in the shards; rows.json holds frame offsets.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from config import CONFIG, HERE
from store import Store
from train_codec import load


@torch.no_grad()
def encode_all(store: Store, codec: torch.nn.Module, seconds: float = 480.0) -> np.ndarray:
    """Return the codes of every row, laid out as the store's audio is. `seconds` bounds one batch."""
    codes = np.zeros((store.filled // 1920, CONFIG["codec"]["codebooks"]), np.int16)
    rows = sorted(store.rows, key=lambda r: r["length"])
    at = 0
    while at < len(rows):
        take = max(1, int(seconds * 24000 / (rows[min(at + 64, len(rows) - 1)]["length"])))
        part = rows[at : at + take]
        at += len(part)
        longest = max(r["length"] for r in part)
        start = torch.tensor([r["start"] for r in part], device=store.device)
        index = (start[:, None] + torch.arange(longest, device=store.device)).clamp(max=len(store.audio) - 1)
        made = codec.encode(store.audio[index].float() / 32768.0).to(torch.int16).cpu().numpy()
        for row, code in zip(part, made, strict=True):
            first, count = row["start"] // 1920, row["length"] // 1920
            codes[first : first + count] = code[:count]
    return codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    parser.add_argument("--shards", type=Path, default=work / "shards")
    parser.add_argument("--codec", type=Path, default=work / "codec.pt")
    parser.add_argument("--out", type=Path, default=work)
    parser.add_argument("--hours", type=float, default=160)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    began = time.monotonic()
    store = Store(args.shards, device, args.hours)
    store.take()
    print(f"{store.filled / 864e5:.1f} hours read in {time.monotonic() - began:.1f} s", flush=True)
    np.save(
        args.out / "codes.npy", encode_all(store, load(args.codec, device), 480.0 if device.type == "cuda" else 20.0)
    )
    np.save(args.out / "phones.npy", store.phones[: store.filled // 480].cpu().numpy())
    np.save(args.out / "audio.npy", store.audio[: store.filled].cpu().numpy())
    (args.out / "rows.json").write_text(json.dumps(store.rows))
    print(f"encoded in {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
