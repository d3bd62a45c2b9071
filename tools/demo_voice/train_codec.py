"""Stage 2: train the speech tokenizer on random crops, with CUDA graphs.

Run: python train_codec.py --seconds 840

The first phase trains all networks on short crops, and later phases use longer crops. Phases with `judges` use
discriminators. The BatchNorm is kept until the export (export.py folds it). Without the BatchNorm, the latents grow
from 1 to 50 and change faster than the codebooks can follow.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from codec_model import Codec, Heads, Snake
from config import CONFIG, HERE
from judges import Judges
from restore import read_speech, without_books
from spectral import SpectralLoss
from store import LABEL_COUNT, Store


class Trainer:
    """Trainer of the speech tokenizer: networks, auxiliary heads and optimizers."""

    def __init__(self, store: Store, device: torch.device, frozen: bool = False) -> None:
        torch.manual_seed(CONFIG["seed"])
        self.c = CONFIG["codec"]
        self.store = store
        self.device = device
        self.codec = Codec(self.c).to(device)
        self.heads = Heads(self.c, LABEL_COUNT).to(device)
        self.spectral = SpectralLoss().to(device)
        self.rate = torch.tensor(0.0, device=device)
        self.frozen = frozen  # True if only the decoder is trained. The encoder and the codebooks are then constant.
        if frozen:
            self.codec.encoder.requires_grad_(False)
            self.codec.quantizer.input_proj.requires_grad_(False)
            self.heads.requires_grad_(False)
        self.parameters = [p for p in (*self.codec.parameters(), *self.heads.parameters()) if p.requires_grad]
        cuda = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(self.parameters, lr=self.rate if cuda else 1e-3, betas=(0.8, 0.99),
                                           weight_decay=0.01, capturable=cuda, fused=cuda)  # fmt: skip
        self.decay = torch.tensor(0.97, device=device)
        self.logged = torch.zeros(10, device=device)
        self.judges = Judges().to(device)
        self.judged_by = torch.optim.AdamW(self.judges.parameters(), lr=self.rate if cuda else 1e-4, betas=(0.8, 0.99),
                                           weight_decay=0.0, capturable=cuda, fused=cuda)  # fmt: skip
        self.strength = torch.tensor(0.0, device=device)  # Weight of the adversarial and feature-matching losses.

    def losses(self, frames: int, batch: int, judged: bool) -> Tensor:
        audio, phones, f0 = self.store.crops(batch, frames)
        codec, q = self.codec, self.codec.quantizer
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            latent = codec.encoder(audio)
        raw = q.input_proj(latent.float()).transpose(1, 2).flatten(0, 1)
        y = raw if q.folded else q.norm(raw)
        codes, rows, targets = q.nearest(y, q.tables)
        if codec.training and not self.frozen:
            q.learn(codes, targets, self.decay, 0.08)
        coded = torch.cat((rows[0], rows[1:].sum(0)), -1)
        commit = F.mse_loss(y, coded) * q.active
        through = y + q.active * (coded - y).detach()
        first, rest = through.unflatten(0, (batch, frames)).split(q.dim, -1)
        made = codec.decoder(q.combine(first, rest))
        spec, mel = self.spectral(made, audio)
        # Codebook 0 predicts phones, and codebooks 1 and 2 predict F0. The gradients of these losses reach the encoder.
        phone = F.cross_entropy(self.heads.phone(first).reshape(-1, LABEL_COUNT), phones.flatten())
        scores = self.heads.read(through.unflatten(0, (batch, frames)).transpose(1, 2))
        scores = scores.unflatten(1, (LABEL_COUNT, 4)).transpose(2, 3).flatten(2)  # [B, labels, 4 F]
        read = F.cross_entropy(scores, phones)
        early = rows[1] + rows[2]
        tail = y[:, q.dim :]
        early = (tail + q.active * (early - tail).detach()).unflatten(0, (batch, frames))
        pitch, voiced = self.heads.f0(early).reshape(batch, 4 * frames, 2).unbind(-1)
        is_voiced = (f0 > 0).float()
        log_f0 = torch.log(f0.clamp(min=50) / 150) * 2
        pitch_loss = ((pitch - log_f0).abs() * is_voiced).sum() / is_voiced.sum().clamp(min=1)
        voice_loss = F.binary_cross_entropy_with_logits(voiced, is_voiced)
        centre = (raw.mean(0).square() / (raw.var(0) + 1e-5)).mean()
        adversarial_loss, feature = made.new_zeros(()), made.new_zeros(())
        g = CONFIG["gan"]
        if judged:
            # Only a part of each crop is used, because the discriminators are expensive.
            length = 1920 * min(frames, g["frames"])
            start = (torch.rand(batch, 1, device=self.device) * (audio.shape[1] - length + 1)).long()
            part = start + torch.arange(length, device=self.device)
            heard, true = made.gather(1, part), audio.gather(1, part)
            self.judged_by.zero_grad(set_to_none=False)
            self.judges.own_loss(heard, true).backward()
            self.judged_by.step()
            self.judges.requires_grad_(False)
            adversarial_loss, feature = self.judges.adversarial_losses(heard, true)
            self.judges.requires_grad_(True)
        total = (spec + self.strength * (g["adversarial"] * adversarial_loss + g["feature"] * feature) / g["spectral"]
                 + self.c["commit_weight"] * commit + self.c["phone_weight"] * phone
                 + self.c["read_weight"] * read
                 + self.c["f0_weight"] * (pitch_loss + 0.3 * voice_loss) + 0.05 * centre)  # fmt: skip
        used = (q.usage[:2] > 0.2 * q.usage[:2].mean()).float().mean()
        now = torch.stack((spec, mel, phone, pitch_loss, voice_loss, commit, used, centre, feature, read)).detach()
        self.logged.lerp_(now, 0.02)
        return total

    def step(self, frames: int, batch: int, judged: bool) -> None:
        self.optimiser.zero_grad(set_to_none=False)
        self.losses(frames, batch, judged).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 2.0, foreach=True)
        self.optimiser.step()

    @torch.no_grad()
    def start_books(self, frames: int, batch: int) -> None:
        """Initialize the codebooks by k-means on latents of new crops, and enable quantization."""
        seen = []
        for _ in range(max(4, 12000 // (frames * batch)) if self.device.type == "cuda" else 4):
            audio, _, _ = self.store.crops(batch, frames)
            seen.append(self.codec.quantizer.project(self.codec.encoder(audio)))
        self.codec.quantizer.initialise(torch.cat(seen))


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


def save(codec: Codec, path: Path, **extra: float) -> None:
    """Write the codec and the values `extra` to a file atomically."""
    temporary = path.with_suffix(".tmp")
    torch.save({"codec": codec.state_dict(), "folded": codec.quantizer.folded, **extra}, temporary)
    temporary.rename(path)


def load(path: Path, device: torch.device) -> Codec:
    """Return the codec from a file that `save` has written, in evaluation mode."""
    state = torch.load(path, map_location=device, weights_only=True)
    codec = Codec(CONFIG["codec"]).to(device)
    codec.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state["codec"].items()})
    codec.quantizer.folded = state["folded"]
    return codec.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=840)
    parser.add_argument("--hours", type=float, default=160, help="room for speech on the device")
    parser.add_argument("--shards", type=Path, default=HERE / CONFIG["paths"]["work"] / "shards")
    parser.add_argument("--out", type=Path, default=HERE / CONFIG["paths"]["work"] / "codec.pt")
    parser.add_argument("--resume", type=Path)
    parser.add_argument(
        "--warm", type=Path, help="an export to begin with, except its books; the other sizes are the same"
    )
    parser.add_argument("--rate", type=float, default=CONFIG["codec"]["lr"], help="peak learning rate")
    parser.add_argument("--until", type=Path, help="a file with the time (seconds since 1970) at which training ends")
    parser.add_argument("--frozen", action="store_true", help="the codes stay as they are: only the decoder learns")
    parser.add_argument("--small", action="store_true", help="tiny batches, for trying it out on a CPU")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    if device.type == "cuda":
        from snake_kernel import snake

        Snake.function = staticmethod(snake)
    store = Store(args.shards, device, args.hours)
    began = time.monotonic()
    while not store.take(200) or (store.filled < 24000 * 60 and not args.small):
        time.sleep(0.5)
    if args.until:
        args.seconds = max(1.0, float(args.until.read_text()) - time.time())
    trainer, start = Trainer(store, device, args.frozen), time.monotonic()
    print(f"waited {start - began:.1f} s for speech", flush=True)
    if args.resume:
        trainer.codec.load_state_dict(load(args.resume, device).state_dict())
        trainer.codec.quantizer.folded = torch.load(args.resume, map_location="cpu", weights_only=True)["folded"]
    elif args.warm:
        trainer.codec.load_state_dict(trainer.codec.state_dict() | without_books(read_speech(args.warm)))
    trainer.codec.train()
    trainer.codec.quantizer.norm.train(not args.frozen)
    step, opened, c = 0, None, CONFIG["codec"]
    for number, phase in enumerate(c["decoder_phases" if args.frozen else "phases"]):
        frames, batch = (phase["frames"], 2 if args.small else phase["batch"])
        if number > 0:
            trainer.decay.fill_(0.995)
        judged = phase.get("judges", False)
        replay = capture(lambda f=frames, b=batch, j=judged: trainer.step(f, b, j), device)
        opened = step if judged and opened is None else opened
        print(f"phase {number}: {frames} frames x {batch}, captured at {time.monotonic() - start:.0f} s", flush=True)
        while True:
            share = (time.monotonic() - start) / args.seconds
            if share >= phase["until"]:
                break
            flat = 0.35  # The learning rate is constant until this fraction of the stage, and then decays as a cosine.
            fall = max(0.0, (share - flat) / (1 - flat))
            rate = (
                args.rate * min(1.0, (step + 1) / 300) * (0.04 + 0.96 * 0.5 * (1 + math.cos(math.pi * min(1.0, fall))))
            )
            trainer.rate.fill_(rate)
            if opened is not None:
                # The weight of the adversarial loss grows over 1000 steps, because the discriminators start untrained.
                trainer.strength.fill_(min(1.0, (step - opened) / 1000))
            for group in trainer.optimiser.param_groups if device.type != "cuda" else ():
                group["lr"] = rate
            replay()
            step += 1
            if not args.resume and step == (3 if args.small else c["vq_start"]):
                trainer.start_books(frames, batch)
            if step == 4 * c["vq_start"] and number == 0:
                trainer.decay.fill_(0.99)
            if step % 50 == 0:
                store.take(4)
                if device.type == "cuda":
                    torch.cuda.synchronize()
            if step % 500 == 0 or args.small:
                logged = trainer.logged.tolist()
                spec, mel, phone, pitch, voiced, commit, used, centre, adversarial_loss, read = logged
                gone = time.monotonic() - start
                print(f"{gone:6.1f}s step {step} {step / gone:.1f}/s spec {spec:.3f} mel {mel:.3f} "
                      f"phone {phone:.2f} f0 {pitch:.3f} voiced {voiced:.3f} commit {commit:.3f} used {used:.2f} "
                      f"centre {centre:.2f} adversarial {adversarial_loss:.3f} read {read:.2f} "
                      f"hours {store.filled / 864e5:.1f} lr {rate:.1e}", flush=True)  # fmt: skip
                if not math.isfinite(spec):
                    raise SystemExit("the loss is not finite")
            # An early checkpoint lets the next stages start.
            if step % 3000 == 0 or step == (5 if args.small else 1000):
                save(trainer.codec, args.out, step=step)
    save(trainer.codec, args.out, step=step)
    print("done", step, flush=True)


if __name__ == "__main__":
    main()
