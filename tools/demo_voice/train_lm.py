"""Stage 4: train talker, code predictor and speaker encoder together on the codes.

Run: python train_lm.py --seconds 600
The speaker encoder learns from the talker's own loss: its x-vector of another utterance of the same voice is what
the speaker slot holds. A small head that reads pitch and formants from it keeps it from being ignored.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from config import CONFIG, HERE
from lm_model import MelFront, Voice
from prompts import Corpus, collate
from teachers import PHONES
from vocabulary import CODES


class Batches(IterableDataset):
    """Endless batches of sequences of like length, at most `positions` padded positions each."""

    def __init__(self, corpus: Corpus, positions: int, seed: int) -> None:
        self.corpus = corpus
        self.positions = positions
        self.seed = seed

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        info = get_worker_info()
        seed = self.seed + (info.id if info else 0)
        rng, noise = random.Random(seed), np.random.default_rng(seed)
        while True:
            pool = [self.corpus.sequence(rng.randrange(len(self.corpus.rows)), rng) for _ in range(1024)]
            pool.sort(key=lambda p: len(p["prompt"].text) + len(p["frames"]))
            batches, part = [], []
            for item in pool:
                width = len(item["prompt"].text) + len(item["frames"])
                if part and width * (len(part) + 1) > self.positions:
                    batches.append(part)
                    part = []
                part.append(item)
            rng.shuffle(batches)
            for part in batches:
                yield {k: torch.from_numpy(a) for k, a in collate(part, self.corpus, noise).items()}


class Trainer:
    def __init__(self, corpus: Corpus, audio: Tensor, device: torch.device, resume: Path | None) -> None:
        torch.manual_seed(CONFIG["seed"] + 1)
        self.c = CONFIG["lm"]
        self.device = device
        self.audio = audio
        self.corpus = corpus
        self.books = CONFIG["codec"]["codebooks"]
        self.voice = Voice(self.c, self.books).to(device)
        self.mel = MelFront().to(device)
        if resume:
            self.voice.load_state_dict(torch.load(resume, map_location=device, weights_only=True)["voice"])
        hidden = self.c["hidden"]
        self.phone_head = nn.Linear(hidden, 4 * len(PHONES)).to(device)
        self.traits = nn.Linear(hidden, 1).to(device)
        self.modules = nn.ModuleList([self.voice, self.phone_head, self.traits])
        self.optimiser = torch.optim.AdamW(self.modules.parameters(), lr=1e-3, betas=(0.9, 0.97), weight_decay=0.05,
                                           fused=device.type == "cuda")  # fmt: skip

    def references(self, spans: Tensor, which: Tensor) -> Tensor:
        """Return x-vectors of crops of one random length; an utterance that is too short repeats itself."""
        length = int(random.uniform(1.5, 4.0) * 24000) // 256 * 256
        start, size = spans[which, 0], spans[which, 1]
        room = (size - length).clamp(min=0)
        offset = (torch.rand(len(which), device=self.device) * room).long()
        inside = (offset[:, None] + torch.arange(length, device=self.device)) % size[:, None]
        return self.voice.speaker_encoder(self.mel(self.audio[start[:, None] + inside].float() / 32768.0))

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        voice = self.voice
        text, codec, codes, first, target = (batch[k] for k in ("text", "codec", "codes", "first", "target"))
        x = voice.text(text.clamp(min=0)) * (text >= 0)[..., None]
        x = x + voice.talker.model.codec_embedding(codec.clamp(min=0)) * (codec >= 0)[..., None]
        x = x + voice.frames(codes.clamp(min=0)) * (codes[..., :1] >= 0)
        which = (batch["slots"] >= 0).nonzero()[:, 0]
        trait = x.new_zeros(())
        if len(which):
            vectors = self.references(batch["spans"], which).to(x.dtype)
            x = x.index_put((which, batch["slots"][which]), vectors, accumulate=True)
            pitch = batch["pitch"][which]
            known = (pitch > 0).float()
            guess = self.traits(vectors.float())[:, 0]
            trait = ((guess - 3 * torch.log(pitch.clamp(min=50) / 150)).abs() * known).sum() / known.sum().clamp(min=1)
        hidden = voice.talker.model.run(x)
        at = (first >= 0).nonzero(as_tuple=True)
        states = hidden[at]
        code0 = F.cross_entropy(voice.talker.codec_head(states).float(), first[at])
        phone = F.cross_entropy(self.phone_head(states).float().reshape(-1, len(PHONES)), batch["phones"][at].flatten())
        frames = (target[at][:, 0] >= 0).nonzero()[:, 0]
        frames = frames[torch.randperm(len(frames), device=self.device)[:3072]]
        wanted = target[at][frames]
        fed = torch.where(torch.rand(wanted.shape, device=self.device) < self.c["code_noise"],
                          torch.randint_like(wanted, CODES), wanted)  # fmt: skip
        fed[:, 0] = wanted[:, 0]
        rest = [
            F.cross_entropy(logits.float(), wanted[:, k + 1])
            for k, logits in enumerate(voice.predictor_logits(states[frames], fed))
        ]
        rest_mean = torch.stack(rest).mean()
        total = code0 + rest_mean + 0.2 * phone + 0.1 * trait
        return total, torch.stack((code0, rest_mean, phone, trait, *rest)).detach()

    def step(self, batch: dict[str, Tensor], rate: float) -> Tensor:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            total, parts = self.loss(batch)
        self.optimiser.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.modules.parameters(), 1.0)
        self.optimiser.step()
        return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--work", type=Path, default=work)
    parser.add_argument("--out", type=Path, default=work / "lm.pt")
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--loaders", type=int, default=8)
    parser.add_argument("--positions", type=int, default=CONFIG["lm"]["positions"])
    parser.add_argument("--every", type=int, default=250)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    began = time.monotonic()
    rows = json.loads((args.work / "rows.json").read_text())
    corpus = Corpus(rows, np.load(args.work / "codes.npy"), np.load(args.work / "phones.npy"))
    by_start = {r["start"]: corpus.group_pitch[r["group"]] for r in corpus.rows}
    loader = iter(DataLoader(Batches(corpus, args.positions, CONFIG["seed"]), batch_size=None, num_workers=args.loaders,
                             prefetch_factor=8 if args.loaders else None))  # fmt: skip
    batch = next(loader)  # the loaders fork before anything touches the device
    audio = torch.from_numpy(np.load(args.work / "audio.npy")).to(device)
    trainer = Trainer(corpus, audio, device, args.resume)
    start, step, peak = time.monotonic(), 0, CONFIG["lm"]["lr"]
    print(f"{len(corpus.rows)} rows, ready after {start - began:.1f} s", flush=True)
    sums = torch.zeros(4 + trainer.books - 1, device=device)
    while (share := (time.monotonic() - start) / args.seconds) < 1:
        batch["pitch"] = torch.tensor([by_start.get(int(s), 0.0) for s in batch["spans"][:, 0]])
        ready = {k: a.to(device, non_blocking=True) for k, a in batch.items()}
        rate = peak * min(1.0, (step + 1) / 300) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * share)))
        sums += trainer.step(ready, rate)
        step += 1
        batch = next(loader)
        if step % args.every == 0:
            names = ["code0", "rest", "phone", "trait", *(f"c{k}" for k in range(1, trainer.books))]
            values = (sums / args.every).tolist()
            gone = time.monotonic() - start
            figures = " ".join(f"{n} {x:.3f}" for n, x in zip(names, values, strict=True))
            print(f"{gone:6.1f}s step {step} {step / gone:.1f}/s {figures}", flush=True)
            sums.zero_()
        if step % 1500 == 0:
            torch.save({"voice": trainer.voice.state_dict()}, args.out.with_suffix(".tmp"))
            args.out.with_suffix(".tmp").rename(args.out)
    torch.save({"voice": trainer.voice.state_dict()}, args.out)
    print("done", step, flush=True)


if __name__ == "__main__":
    main()
