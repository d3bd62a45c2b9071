"""Stage 4: train the talker, the code predictor and the speaker encoder on the codes.

Run: python train_lm.py --seconds 600

Training starts with the first shards of speech, and later shards are added when they exist. The tokenizer skips random
merges each time. In config.toml, `streaming` is the fraction of sequences in the streaming layout.

The speaker encoder is trained with the talker's loss: the speaker slot of the prompt has the x-vector of another
utterance of the same voice. Auxiliary heads predict F0, the factor of the formants and Kokoro's style from the
x-vector, so that the talker's loss does not ignore it.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from checkpoints import new_voice, read_voice, save_voice
from config import CONFIG, HERE
from muon import Muon
from prompts import Corpus, collate
from store import LABEL_COUNT, STYLE_SIZE, Spoken, Store
from text_vocabulary import TextVocabulary
from train_codec import capture, load
from vocabulary import CODES

LENGTH_MULTIPLE = 32  # The padded length of a sequence is a multiple of this number.
WEIGHT_DECAY = 0.05  # Weight decay per step at a learning rate of 1.
MAX_SHARDS = 12  # Maximum number of shards that are encoded every 200 steps.


class Batches(IterableDataset):
    """Infinite iterable of training batches.

    All batches of the same width have the same shape, so that graphs can be captured. A batch has sequences of similar
    length, so that little padding is needed.
    """

    def __init__(self, spoken: Path, vocabulary: TextVocabulary, positions: int, seed: int) -> None:
        self.spoken = spoken
        self.vocabulary = vocabulary
        self.positions = positions
        self.seed = seed

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        info = get_worker_info()
        seed = self.seed + (info.id if info else 0)
        rng, noise = random.Random(seed), np.random.default_rng(seed)
        corpus, waiting = Corpus(self.spoken, self.vocabulary), defaultdict(list)
        while True:
            item = corpus.sequence(rng.randrange(len(corpus.rows)), rng)
            width = -(-(len(item["prompt"].text) + len(item["frames"])) // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
            if width > CONFIG["lm"]["widest"]:
                continue
            waiting[width].append(item)
            if len(waiting[width]) * width >= self.positions - width:
                parts = waiting.pop(width)
                yield {k: torch.from_numpy(a) for k, a in collate(parts, width, corpus, noise).items()}
                corpus.refresh()


class Trainer:
    def __init__(self, vocabulary: TextVocabulary, audio: Tensor, device: torch.device, resume: Path | None) -> None:
        torch.manual_seed(CONFIG["seed"] + 1)
        self.c = CONFIG["lm"]
        self.device = device
        self.audio = audio
        self.eager = device.type != "cuda"
        self.pool = None if self.eager else torch.cuda.graph_pool_handle()
        self.books = CONFIG["codec"]["codebooks"]
        self.voice = new_voice(vocabulary).to(device)
        self.voice.speaker_encoder.prepare()
        if resume:
            self.voice.load_state_dict(read_voice(resume)[0])
        hidden = self.c["hidden"]
        self.phone_head = nn.Linear(hidden, 4 * LABEL_COUNT).to(device)
        self.traits = nn.Linear(hidden, 2).to(device)
        self.styles = nn.Linear(hidden, STYLE_SIZE).to(device)
        self.modules = nn.ModuleList([self.voice, self.phone_head, self.traits, self.styles])
        layers = [*self.voice.talker.model.layers, *self.voice.talker.code_predictor.model.layers]
        for layer in () if self.eager else layers:
            layer.compile(dynamic=True)
        cuda = device.type == "cuda"
        self.rate = torch.tensor(0.0, device=device)
        matrices = {w: None for layer in layers for w in layer.parameters() if w.ndim == 2}
        others = [w for w in self.modules.parameters() if w.requires_grad and w not in matrices]
        self.muon = Muon(matrices, self.rate, WEIGHT_DECAY)
        self.adam = torch.optim.AdamW(others, lr=self.rate if cuda else 1e-3, betas=(0.9, 0.97),
                                      weight_decay=WEIGHT_DECAY, capturable=cuda, fused=cuda)  # fmt: skip
        self.logged = torch.zeros(5 + self.books - 1, device=device)
        self.shapes: dict[tuple[int, ...], tuple[dict[str, Tensor], Callable[[], None]]] = {}

    def references(self, spans: Tensor) -> Tensor:
        """Return the x-vectors of random crops of the reference audio.

        `spans` has the start and length of each audio. Audio that is too short is repeated.
        """
        rows = (len(spans), 1)
        crop = ((1.5 + 2.5 * torch.rand(rows, device=self.device)) * 24000).long()
        start, size = spans[:, :1], spans[:, 1:].clamp(min=1)
        offset = (torch.rand(rows, device=self.device) * (size - crop).clamp(min=0)).long()
        inside = (offset + torch.arange(4 * 24000 // 256 * 256, device=self.device) % crop) % size
        return self.voice.x_vectors(self.audio[start + inside].float() / 32768.0)

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the total loss and a tensor of the single losses.

        No shape depends on values of the batch, so that a graph can be captured.
        """
        voice = self.voice
        text, codec, codes, first, target = (batch[k] for k in ("text", "codec", "codes", "first", "target"))
        x = voice.text(text.clamp(min=0)) * (text >= 0)[..., None]
        x = x + voice.talker.model.codec_embedding(codec.clamp(min=0)) * (codec >= 0)[..., None]
        x = x + voice.frames(codes.clamp(min=0)) * (codes[..., :1] >= 0)
        vectors, slots = self.references(batch["spans"]).to(x.dtype), batch["slots"]
        at_slot = torch.arange(x.shape[1], device=self.device) == slots[:, None]  # A slot of -1 matches no position.
        x = x + at_slot[..., None] * vectors[:, None]
        known = ((slots >= 0) & (batch["pitch"] > 0)).float()
        traits = torch.stack((3 * torch.log(batch["pitch"].clamp(min=50) / 150), 10 * torch.log(batch["formant"])), 1)
        gaps = (self.traits(vectors.float()) - traits).abs().sum(1)
        trait = (gaps * known).sum() / known.sum().clamp(min=1)
        unlike = (self.styles(vectors.float()) - batch["styles"]).abs().mean(1)
        identity = (unlike * known).sum() / known.sum().clamp(min=1)
        states = voice.talker.model.run(x).flatten(0, 1)
        first, target = first.flatten(), target.flatten(0, 1)
        code0 = F.cross_entropy(voice.talker.codec_head(states).float(), first, ignore_index=-1)
        phone = F.cross_entropy(self.phone_head(states).float().reshape(-1, LABEL_COUNT), batch["phones"].flatten())
        count = (target[:, 0] >= 0).cumsum(0)  # Sampling with replacement gives a constant number of frames.
        drawn = (torch.rand(3072, device=self.device, dtype=torch.float64) * count[-1]).long() + 1
        frames = torch.searchsorted(count, drawn)
        wanted = target.index_select(0, frames)
        fed = torch.where(torch.rand(wanted.shape, device=self.device) < self.c["code_noise"],
                          torch.randint_like(wanted, CODES), wanted)  # fmt: skip
        fed = torch.cat((wanted[:, :1], fed[:, 1:]), 1)
        rest = [
            F.cross_entropy(logits.float(), wanted[:, k + 1])
            for k, logits in enumerate(voice.predictor_logits(states.index_select(0, frames), fed))
        ]
        rest_mean = torch.stack(rest).mean()
        total = code0 + rest_mean + 0.2 * phone + 0.1 * trait + 0.3 * identity
        return total, torch.stack((code0, rest_mean, phone, trait, identity, *rest)).detach()

    def _step(self, batch: dict[str, Tensor]) -> None:
        self.modules.zero_grad(set_to_none=False)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            total, parts = self.loss(batch)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.modules.parameters(), 1.0, foreach=True)
        self.adam.step()
        self.muon.step()
        self.logged.lerp_(parts, 0.01)

    def step(self, batch: dict[str, Tensor], rate: float) -> None:
        """Train on one batch with the learning rate `rate`.

        On CUDA, the captured graph of the batch's shape is replayed.
        """
        self.rate.fill_(rate)
        for group in self.adam.param_groups if self.device.type != "cuda" else ():
            group["lr"] = rate
        shape = tuple(batch["text"].shape)
        if shape not in self.shapes:
            held = {k: t.to(self.device) for k, t in batch.items()}
            once = functools.partial(self._step, held)
            self.shapes[shape] = held, once if self.eager else capture(once, self.device, 3, self.pool)
        held, replay = self.shapes[shape]
        for name, tensor in batch.items():
            held[name].copy_(tensor, non_blocking=True)
        replay()


def listen(args: argparse.Namespace, device: torch.device) -> Spoken:
    """Wait for a codec and `--min-hours` of speech, and return the speech encoded so far."""
    store = Store(args.shards, device, args.hours)
    while not args.codec.exists():
        store.take(8)
        time.sleep(0.2)
    spoken = Spoken(store, load(args.codec, device), args.work / "spoken")
    spoken.take()
    while store.filled / 864e5 < args.min_hours:
        spoken.take()
        time.sleep(0.2)
    return spoken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--work", type=Path, default=work)
    parser.add_argument("--out", type=Path, default=work / "lm.pt")
    parser.add_argument("--resume", type=Path, help="a checkpoint or the folder of an export, with the same pieces")
    parser.add_argument("--merges", type=Path, default=work / "merges.txt", help="of the text vocabulary")
    parser.add_argument("--codec", type=Path, default=work / "codec.pt", help="encodes the shards, once it is there")
    parser.add_argument("--shards", type=Path, default=work / "shards")
    parser.add_argument("--hours", type=float, default=160, help="room for speech on the device")
    parser.add_argument("--min-hours", type=float, default=0.05, help="of speech, to begin with")
    parser.add_argument("--until", type=Path, help="a file with the time (seconds since 1970) at which training ends")
    parser.add_argument("--rate", type=float, default=CONFIG["lm"]["lr"], help="the highest")
    parser.add_argument("--loaders", type=int, default=8)
    parser.add_argument("--positions", type=int, default=CONFIG["lm"]["positions"])
    parser.add_argument("--every", type=int, default=250)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    began = time.monotonic()
    spoken, vocabulary = listen(args, device), TextVocabulary.read(args.merges)
    batches = Batches(spoken.folder, vocabulary, args.positions, CONFIG["seed"])
    loader = iter(DataLoader(batches, batch_size=None, num_workers=args.loaders,
                             prefetch_factor=8 if args.loaders else None,
                             pin_memory=device.type == "cuda"))  # fmt: skip
    batch = next(loader)
    trainer = Trainer(vocabulary, spoken.store.audio, device, args.resume)
    if args.until:
        args.seconds = max(1.0, float(args.until.read_text()) - time.time())
    start, step = time.monotonic(), 0
    print(f"{spoken.rows} rows, ready after {start - began:.1f} s, {args.seconds:.0f} s to go", flush=True)
    while (share := (time.monotonic() - start) / args.seconds) < 1:
        rate = args.rate * min(1.0, (step + 1) / 300) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * share)))
        trainer.step(batch, rate)
        step += 1
        batch = next(loader)
        if step % 200 == 0:
            spoken.take(MAX_SHARDS)
        if step % args.every == 0:
            names = ["code0", "rest", "phone", "trait", "identity", *(f"c{k}" for k in range(1, trainer.books))]
            gone, values = time.monotonic() - start, trainer.logged.tolist()
            figures = " ".join(f"{n} {x:.3f}" for n, x in zip(names, values, strict=True))
            print(f"{gone:6.1f}s step {step} {step / gone:.1f}/s {len(trainer.shapes)} shapes "
                  f"{spoken.store.filled / 864e5:.1f} hours {figures}", flush=True)  # fmt: skip
            if not math.isfinite(values[0]):
                raise SystemExit("the loss is not finite")
        # An early checkpoint lets the next stages start.
        if step == 100 or step % 1500 == 0:
            save_voice(trainer.voice.state_dict(), vocabulary, args.out)
    save_voice(trainer.voice.state_dict(), vocabulary, args.out)
    print("done", step, flush=True)


if __name__ == "__main__":
    main()
