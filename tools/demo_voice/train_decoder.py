"""Stage 5: fine-tune Code2Wav against a multi-resolution STFT discriminator, encoder and books frozen.

Run: python train_decoder.py --seconds 400   (may run beside stage 4)
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from codec_model import Snake
from config import CONFIG, HERE
from judges import Judges
from spectral import SpectralLoss
from train_codec import capture, load, save


class Trainer:
    def __init__(self, work: Path, codec_path: Path, device: torch.device) -> None:
        torch.manual_seed(CONFIG["seed"] + 2)
        self.g = CONFIG["gan"]
        self.device = device
        self.codec = load(codec_path, device)
        self.tables = self.codec.quantizer.tables.detach()
        self.audio = torch.from_numpy(np.load(work / "audio.npy")).to(device)
        self.codes = torch.from_numpy(np.load(work / "codes.npy")).to(device)
        self.judges = Judges().to(device)
        self.spectral = SpectralLoss().to(device)
        q = self.codec.quantizer
        self.parameters = [*self.codec.decoder.parameters(), *q.first_out.parameters(), *q.rest_out.parameters()]
        cuda = device.type == "cuda"
        self.rate = torch.tensor(0.0, device=device)
        self.made_by, self.judged_by = (
            torch.optim.AdamW(
                p, lr=self.rate if cuda else 1e-4, betas=(0.8, 0.99), weight_decay=0.0, capturable=cuda, fused=cuda
            )
            for p in (self.parameters, list(self.judges.parameters()))
        )
        self.logged = torch.zeros(5, device=device)
        self.strength = torch.tensor(0.0, device=device)

    def crops(self, batch: int, frames: int) -> tuple[Tensor, Tensor]:
        start = (torch.rand(batch, dtype=torch.float64, device=self.device) * (len(self.codes) - frames)).long()
        codes = self.codes[start[:, None] + torch.arange(frames, device=self.device)].long()
        audio = self.audio[start[:, None] * 1920 + torch.arange(frames * 1920, device=self.device)]
        return codes, audio.float() / 32768.0

    def decode(self, codes: Tensor) -> Tensor:
        q = self.codec.quantizer
        parts = [F.embedding(codes[..., k], self.tables[k]) for k in range(q.books)]
        return self.codec.decoder(q.combine(parts[0], torch.stack(parts[1:]).sum(0)))

    def step(self, frames: int, batch: int) -> None:
        codes, audio = self.crops(batch, frames)
        made = self.decode(codes)
        self.judged_by.zero_grad(set_to_none=False)
        judge_loss = self.judges.own_loss(made, audio)
        judge_loss.backward()
        self.judged_by.step()
        spec, mel = self.spectral(made, audio)
        adversarial, feature = self.judges.told(made, audio)
        total = self.g["spectral"] * spec + self.strength * (
            self.g["adversarial"] * adversarial + self.g["feature"] * feature
        )
        self.made_by.zero_grad(set_to_none=False)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 4.0, foreach=True)
        self.made_by.step()
        self.logged.lerp_(torch.stack((spec, mel, adversarial, feature, judge_loss)).detach(), 0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--work", type=Path, default=work)
    parser.add_argument("--codec", type=Path, default=work / "codec.pt")
    parser.add_argument("--out", type=Path, default=work / "codec_tuned.pt")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    if device.type == "cuda":
        from snake_kernel import snake

        Snake.function = staticmethod(snake)
    trainer, g = Trainer(args.work, args.codec, device), CONFIG["gan"]
    trainer.codec.train()
    frames, batch = g["frames"], 2 if args.small else g["batch"]
    replay = capture(lambda: trainer.step(frames, batch), device)
    start, step = time.monotonic(), 0
    while (share := (time.monotonic() - start) / args.seconds) < 1:
        trainer.rate.fill_(g["lr"] * min(1.0, (step + 1) / 200) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share))))
        trainer.strength.fill_(min(1.0, step / 1000))  # the judges learn a little before they are heard
        replay()
        step += 1
        if step % 50 == 0 and device.type == "cuda":
            torch.cuda.synchronize()
        if step % 500 == 0 or args.small:
            spec, mel, adversarial, feature, judge = trainer.logged.tolist()
            gone = time.monotonic() - start
            print(f"{gone:6.1f}s step {step} {step / gone:.1f}/s spec {spec:.3f} mel {mel:.3f} adv {adversarial:.3f} "
                  f"feature {feature:.3f} judge {judge:.3f}", flush=True)  # fmt: skip
            if not math.isfinite(spec):
                raise SystemExit("the loss is not finite")
        if step % 3000 == 0:
            save(trainer.codec, args.out, step=step)
    save(trainer.codec, args.out, step=step)
    print("done", step, flush=True)


if __name__ == "__main__":
    main()
