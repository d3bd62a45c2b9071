"""Stage 2 of the voice training: the speech tokenizer, trained with CUDA graphs.

Run: python train_codec.py --until work/codec_end

All networks are trained, first on short and then on longer random crops of audio. With `--frozen` (stage 5), only the
decoder is trained, with discriminators. The BatchNorm is kept until the export (export.py folds it). Without the
BatchNorm, the latents grow from 1 to 50 and change faster than the codebooks can follow.
"""

from __future__ import annotations

import math
import time
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from codec_model import Codec, Snake, causal_conv
from config import CONFIG, WORK
from runtime.model.speaker_encoder import slaney_filters
from stage import Schedule, adamw, capture, parser_of, save, training_device
from store import FRAME_SAMPLES, LABEL_COUNT, Store

LOGGED = ("spec", "mel", "phone", "f0", "voiced", "commit", "used", "centre", "feature", "read")

# Pairs of an STFT size and the number of mel bands at this size.
SIZES = ((128, 12), (256, 24), (512, 40), (1024, 80), (2048, 80), (4096, 128))

# STFT sizes and band limits in Hz of the discriminators. Half of them read only low frequencies: the phases of the low
# harmonics affect the quality most, but they have few bins in a whole spectrum.
BANDS = ((2048, 12000), (1024, 12000), (512, 12000), (2048, 2000), (1024, 2000), (512, 3000))


def stft(x: Tensor, window: Tensor) -> Tensor:
    size = len(window)
    return torch.stft(x, size, size // 4, window=window, center=True, pad_mode="constant", return_complex=True)


class SpectralLoss(nn.Module):
    """L1 loss of the log-mels and log-magnitudes of waveforms [B, N] at six STFT sizes."""

    def __init__(self) -> None:
        super().__init__()
        for size, mels in SIZES:
            window = torch.hann_window(size)
            self.register_buffer(f"window{size}", window / window.square().sum().sqrt())
            bank = torch.from_numpy(slaney_filters(mels, 24000, size // 2 + 1)).float().T
            self.register_buffer(f"bank{size}", bank / bank.sum(1, keepdim=True).clamp(min=1e-6))

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the L1 distance of the log-mels with an FFT size of 1024."""
        total, mel1024 = made.new_zeros(()), made.new_zeros(())
        for size, _ in SIZES:
            window, bank = getattr(self, f"window{size}"), getattr(self, f"bank{size}")
            spectra = stft(true, window), stft(made, window)
            t, m = (torch.sqrt(s.real.square() + s.imag.square() + 1e-9) for s in spectra)
            mel = ((bank @ m + 1e-4).log() - (bank @ t + 1e-4).log()).abs().mean()
            lin = ((m + 1e-4).log() - (t + 1e-4).log()).abs().mean()
            total = total + mel + (0.5 if size >= 2048 else 0.3) * lin
            mel1024 = mel.detach() if size == 1024 else mel1024
        return total / len(SIZES), mel1024


class Discriminator(nn.Module):
    """Discriminator that reads the bins of a complex STFT up to `limit_hz`.

    The forward pass returns the features of all layers. The features of the last layer are the scores.
    """

    def __init__(self, size: int, limit_hz: int, channels: int = 32) -> None:
        super().__init__()
        self.bins = size * limit_hz // 24000 + 1
        self.register_buffer("window", torch.hann_window(size) / math.sqrt(size * 0.375))
        # Input channels, kernel width and stride of each convolution.
        shapes = (2, 9, 1), (channels, 9, 2), (channels, 9, 2), (channels, 3, 1)
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(n, channels, (3, k), (1, s), padding=(1, k // 2)))
            for n, k, s in shapes
        )
        self.score = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Tensor) -> list[Tensor]:
        s = stft(x, self.window)[:, : self.bins]
        y = torch.stack((s.real, s.imag), 1).transpose(2, 3) * 3
        features = []
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda, cache_enabled=False):
            for layer in self.layers:
                y = F.leaky_relu(layer(y), 0.2)
                features.append(y)
            return [*features, self.score(y).float()]


class Discriminators(nn.ModuleList):
    """Discriminators of complex STFTs, trained with least-squares losses."""

    def __init__(self) -> None:
        super().__init__(Discriminator(size, limit_hz) for size, limit_hz in BANDS)

    def own_loss(self, made: Tensor, true: Tensor) -> Tensor:
        """Return the loss with which the discriminators are trained.

        The target is 1 for real audio and 0 for generated audio. No gradient reaches the generated audio.
        """
        losses = [(1 - each(true)[-1]).square().mean() + each(made.detach())[-1].square().mean() for each in self]
        return torch.stack(losses).mean()

    def adversarial_losses(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Return the adversarial loss and the feature-matching loss of generated audio.

        The feature-matching loss is the relative distance between the discriminators' features of generated and real
        audio.
        """
        adversarial, feature = made.new_zeros(()), made.new_zeros(())
        for each in self:
            with torch.no_grad():
                *wanted, _ = each(true)
            *got, score = each(made)
            adversarial = adversarial + (1 - score).square().mean() / len(self)
            pairs = zip(got, wanted, strict=True)
            gaps = [(g - w).abs().mean() / w.abs().mean().clamp(min=1e-4) for g, w in pairs]
            feature = feature + sum(gaps) / (len(gaps) * len(self))
        return adversarial, feature


class Trainer:
    """Trainer of the speech tokenizer: networks, auxiliary heads and optimizers."""

    def __init__(self, store: Store, device: torch.device, frozen: bool) -> None:
        torch.manual_seed(CONFIG["seed"])
        # With `frozen`, only the decoder is trained. The encoder and the codebooks are then constant.
        self.store, self.device, self.frozen = store, device, frozen
        self.codec = Codec().to(device)
        dim, labels = self.codec.quantizer.dim, 4 * LABEL_COUNT
        # Heads for auxiliary losses: phones from codebook 0, F0 from codebooks 1 and 2, and phones from all codebooks.
        self.phone_head = nn.Linear(dim, labels)
        self.f0_head = nn.Sequential(nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, 8))
        self.read_head = nn.Sequential(causal_conv(2 * dim, 256, 3), nn.GELU(), causal_conv(256, labels, 1))
        self.heads = nn.ModuleList((self.phone_head, self.f0_head, self.read_head)).to(device)
        self.spectral = SpectralLoss().to(device)
        if frozen:
            for constant in (self.codec.encoder, self.codec.quantizer.input_proj, self.heads):
                constant.requires_grad_(False)
        self.parameters = [p for p in (*self.codec.parameters(), *self.heads.parameters()) if p.requires_grad]
        self.discriminators = Discriminators().to(device)
        self.rate, self.decay, self.strength = (torch.tensor(x, device=device) for x in (0.0, 0.97, 0.0))
        self.optimiser = adamw(self.parameters, self.rate, (0.8, 0.99), 0.01)
        self.discriminator_optimiser = adamw(self.discriminators.parameters(), self.rate, (0.8, 0.99), 0.0)
        self.logged = torch.zeros(len(LOGGED), device=device)

    def train_discriminators(self, made: Tensor, audio: Tensor, frames: int) -> tuple[Tensor, Tensor]:
        """Train the discriminators, and return the adversarial and feature-matching losses.

        Only a random section of each crop is used, because the discriminators are expensive.
        """
        length = FRAME_SAMPLES * min(frames, CONFIG["gan"]["frames"])
        start = (torch.rand(len(made), 1, device=self.device) * (audio.shape[1] - length + 1)).long()
        part = start + torch.arange(length, device=self.device)
        heard, true = made.gather(1, part), audio.gather(1, part)
        self.discriminator_optimiser.zero_grad(set_to_none=False)
        self.discriminators.own_loss(heard, true).backward()
        self.discriminator_optimiser.step()
        self.discriminators.requires_grad_(False)
        losses = self.discriminators.adversarial_losses(heard, true)
        self.discriminators.requires_grad_(True)
        return losses

    def losses(self, frames: int, batch: int) -> Tensor:
        audio, phones, f0 = self.store.crops(batch, frames)
        codec, q, c, g = self.codec, self.codec.quantizer, CONFIG["codec"], CONFIG["gan"]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            latent = codec.encoder(audio)
        raw, y = q.project(latent)
        codes, rows, targets = q.nearest(y, q.tables)
        if not self.frozen:
            q.learn(codes, targets, self.decay)
        coded = torch.cat((rows[0], rows[1:].sum(0)), -1)
        commit = F.mse_loss(y, coded) * q.active
        through = (y + q.active * (coded - y).detach()).unflatten(0, (batch, frames))
        first, rest = through.split(q.dim, -1)
        made = codec.decoder(q.combine(first, rest))
        spec, mel = self.spectral(made, audio)
        # Codebook 0 predicts phones, and codebooks 1 and 2 predict F0. The gradients of these losses reach the encoder.
        phone = F.cross_entropy(self.phone_head(first).reshape(-1, LABEL_COUNT), phones.flatten())
        scores = self.read_head(through.transpose(1, 2))
        scores = scores.unflatten(1, (LABEL_COUNT, 4)).transpose(2, 3).flatten(2)  # Shape: [B, labels, 4 F].
        read = F.cross_entropy(scores, phones)
        tail = y[:, q.dim :]
        early = (tail + q.active * (rows[1] + rows[2] - tail).detach()).unflatten(0, (batch, frames))
        pitch, voiced = self.f0_head(early).reshape(batch, 4 * frames, 2).unbind(-1)
        is_voiced = (f0 > 0).float()
        log_f0 = torch.log(f0.clamp(min=50) / 150) * 2
        pitch_loss = ((pitch - log_f0).abs() * is_voiced).sum() / is_voiced.sum().clamp(min=1)
        voice_loss = F.binary_cross_entropy_with_logits(voiced, is_voiced)
        centre = (raw.mean(0).square() / (raw.var(0) + 1e-5)).mean()
        adversarial, feature = self.train_discriminators(made, audio, frames) if self.frozen else made.new_zeros(2)
        total = (spec + self.strength * (g["adversarial"] * adversarial + g["feature"] * feature) / g["spectral"]
                 + c["commit_weight"] * commit + c["phone_weight"] * phone + c["read_weight"] * read
                 + c["f0_weight"] * (pitch_loss + 0.3 * voice_loss) + 0.05 * centre)  # fmt: skip
        used = (q.usage[:2] > 0.2 * q.usage[:2].mean()).float().mean()
        now = torch.stack((spec, mel, phone, pitch_loss, voice_loss, commit, used, centre, feature, read)).detach()
        self.logged.lerp_(now, 0.02)
        return total

    def step(self, frames: int, batch: int) -> None:
        self.optimiser.zero_grad(set_to_none=False)
        self.losses(frames, batch).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 2.0, foreach=True)
        self.optimiser.step()

    @torch.no_grad()
    def start_books(self, frames: int, batch: int) -> None:
        """Initialize the codebooks by k-means on encoded crops, and enable quantization."""
        rounds = max(4, 12000 // (frames * batch)) if self.device.type == "cuda" else 4
        crops = (self.store.crops(batch, frames)[0] for _ in range(rounds))
        q = self.codec.quantizer
        q.initialise(torch.cat([q.project(self.codec.encoder(audio))[1] for audio in crops]))


def main() -> None:
    parser = parser_of(__doc__, WORK / "codec.pt", CONFIG["codec"]["lr"])
    parser.add_argument("--frozen", action="store_true", help="train only the decoder, with the codes of --resume")
    args, device = parser.parse_args(), training_device()
    is_cuda, c = device.type == "cuda", CONFIG["codec"]
    torch.backends.cudnn.benchmark = True
    if is_cuda:
        from snake_kernel import SnakeFunction

        Snake.kernel = SnakeFunction.apply
    store = Store(WORK / "shards", device, args.hours)
    while not store.take(200):
        time.sleep(0.5)
    trainer = Trainer(store, device, args.frozen)
    codec, q = trainer.codec, trainer.codec.quantizer
    if args.resume:
        codec.load_state_dict(Codec.load(args.resume, device).state_dict())
    if not args.frozen:
        q.active.zero_()
    q.norm.train(not args.frozen)
    # On a CPU, a few steps with tiny batches only test the stage.
    vq_start, log_steps, first_save = (c["vq_start"], 500, 1000) if is_cuda else (3, 1, 5)
    schedule = Schedule(args, lowest=0.04, flat=0.35)
    for number, phase in enumerate(c["decoder_phases" if args.frozen else "phases"]):
        frames, batch = phase["frames"], phase["batch"] if is_cuda else 2
        if number > 0:
            trainer.decay.fill_(0.995)
        replay = capture(partial(trainer.step, frames, batch), device)
        print(f"phase {number}: {frames} frames x {batch}", flush=True)
        for rate in schedule.rates(phase["until"]):
            trainer.rate.fill_(rate)
            # The weight of the adversarial loss grows over 1000 steps, because the discriminators start untrained.
            trainer.strength.fill_(min(1.0, (schedule.step - 1) / 1000))
            replay()
            if not args.frozen and schedule.step == vq_start:
                trainer.start_books(frames, batch)
            if schedule.step == 4 * c["vq_start"] and number == 0:
                trainer.decay.fill_(0.99)
            if schedule.step % 50 == 0:
                store.take(4)
                if is_cuda:
                    torch.cuda.synchronize()
            if schedule.step % log_steps == 0:
                schedule.report(LOGGED, trainer.logged, f"hours {store.filled / 864e5:.1f}")
            # The checkpoint is also written during the training, so that the next stages can start early.
            if schedule.step % 3000 == 0 or schedule.step == first_save:
                save(codec.state_dict(), args.out)
    save(codec.state_dict(), args.out)
    print("done", schedule.step, flush=True)


if __name__ == "__main__":
    main()
