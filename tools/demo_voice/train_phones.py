"""Stage 2a: train the listener of the codec (phone_net.py) on the teachers' labels.

Run: python train_phones.py --seconds 60   (may start beside stage 1)
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from config import CONFIG, HERE
from phone_net import MELS, PhoneNet
from store import Store
from teachers import UNKNOWN_PHONE
from train_codec import capture


def spoiled(audio: Tensor) -> Tensor:
    """Return the sound at another loudness and under noise, so that no single detail decides."""
    rows = (audio.shape[0], 1)
    gain = torch.exp(0.5 * torch.randn(rows, device=audio.device))
    noise = torch.exp(torch.rand(rows, device=audio.device) * 4.5 - 8.5) * torch.randn_like(audio)
    return gain * audio + noise


def banded(batch: int, steps: int, device: torch.device) -> Tensor:
    """Return a mask [B, mels, T] that hides one band of each row."""
    start = torch.rand(batch, 1, 1, device=device) * MELS
    width = torch.rand(batch, 1, 1, device=device) * 10
    at = torch.arange(MELS, device=device)[None, :, None]
    return 1.0 - ((at >= start) & (at < start + width)).float().expand(-1, -1, steps)


def main() -> None:
    work = HERE / CONFIG["paths"]["work"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hours", type=float, default=60)
    parser.add_argument("--shards", type=Path, default=work / "shards")
    parser.add_argument("--out", type=Path, default=work / "phones.pt")
    parser.add_argument("--small", action="store_true", help="tiny batches, for trying it out on a CPU")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(CONFIG["seed"] + 3)
    store, cuda = Store(args.shards, device, args.hours), device.type == "cuda"
    while not store.take(64) or (store.filled < 24000 * 60 and not args.small):
        time.sleep(0.5)
    net = PhoneNet().to(device)
    rate = torch.tensor(0.0, device=device)
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate if cuda else 1e-3, weight_decay=0.02, capturable=cuda,
                                  fused=cuda)  # fmt: skip
    batch, frames = (2, 16) if args.small else (64, 24)
    logged = torch.zeros(2, device=device)

    def step() -> None:
        audio, phones, _ = store.crops(batch, frames)
        with torch.autocast(device.type, torch.bfloat16, enabled=cuda, cache_enabled=False):
            scores = net.features(spoiled(audio), banded(batch, frames * 8, device))[-1].float()
        known = phones != UNKNOWN_PHONE
        loss = F.cross_entropy(scores, torch.where(known, phones, -100), reduction="sum") / known.sum().clamp(min=1)
        right = ((scores.argmax(1) == phones) & known).sum() / known.sum().clamp(min=1)
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
        optimiser.step()
        logged.lerp_(torch.stack((loss, right)).detach(), 0.02)

    replay, start, count = capture(step, device), time.monotonic(), 0
    while (share := (time.monotonic() - start) / args.seconds) < 1:
        now = 2e-3 * min(1.0, (count + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
        rate.fill_(now)
        for group in optimiser.param_groups if not cuda else ():
            group["lr"] = now
        replay()
        count += 1
        if count % 50 == 0:
            store.take(2)
            if cuda:
                torch.cuda.synchronize()
        if count % 500 == 0 or args.small:
            print(f"{time.monotonic() - start:6.1f}s step {count} loss {logged[0]:.3f} right {logged[1]:.3f} "
                  f"hours {store.filled / 864e5:.1f}", flush=True)  # fmt: skip
    temporary = args.out.with_suffix(".tmp")  # whole or not at all: the codec may be waiting for it
    torch.save(net.state_dict(), temporary)
    temporary.rename(args.out)
    print("done", count, flush=True)


if __name__ == "__main__":
    main()
