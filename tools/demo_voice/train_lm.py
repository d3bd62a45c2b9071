"""Stage 4 of the voice training: talker, code predictor and speaker encoder.

Run: python train_lm.py --until work/end

Training starts with the first shards of speech, and later shards are added when they exist. The tokenizer skips
random merges (BPE dropout), which differ each time a text is tokenized. In config.toml, `streaming` is the fraction of
sequences in the streaming layout.

The speaker encoder is trained with the talker's loss: the speaker slot of the prompt has the x-vector of another
utterance of the same voice. Auxiliary heads predict F0, the factor of the formants and Kokoro's style from the
x-vector, so that the talker's loss does not ignore it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from codec_model import Codec
from config import CONFIG, WORK
from lm_model import Voice, read_voice
from prompts import CODEBOOKS, TALKER, Corpus, collate
from stage import Muon, Schedule, adamw, capture, parser_of, save, training_device
from store import LABEL_COUNT, STYLE_SIZE, Store
from text_vocabulary import TextVocabulary

LENGTH_MULTIPLE = 32  # Number of which the padded length of a sequence is a multiple.
WEIGHT_DECAY = 0.05  # Weight decay per step at a learning rate of 1.
MAX_SHARDS = 12  # Maximum number of shards that are encoded every 200 steps.
LOGGED = ("code0", "rest", "phone", "trait", "identity", *(f"c{k}" for k in range(1, CODEBOOKS)))


class Batches(IterableDataset):
    """Infinite iterable of training batches for the language model.

    All batches of the same width have the same shape, so that graphs can be captured. A batch has sequences of similar
    length, so that little padding is needed.
    """

    def __init__(self, vocabulary: TextVocabulary, positions: int) -> None:
        self.vocabulary, self.positions = vocabulary, positions

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        info = get_worker_info()
        seed = CONFIG["seed"] + (info.id if info else 0)
        rng, noise = random.Random(seed), np.random.default_rng(seed)
        corpus, waiting = Corpus(self.vocabulary), defaultdict(list)
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
        self.audio, self.device, is_cuda = audio, device, device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if is_cuda else None
        self.voice = Voice(vocabulary.rows).to(device)
        self.voice.speaker_encoder.prepare()
        if resume:
            self.voice.load_state_dict(read_voice(resume))
        heads = [nn.Linear(TALKER.hidden_size, size).to(device) for size in (4 * LABEL_COUNT, 2, STYLE_SIZE)]
        self.phone_head, self.traits, self.styles = heads
        self.modules = nn.ModuleList([self.voice, *heads])
        layers = [*self.voice.talker.model.layers, *self.voice.talker.code_predictor.model.layers]
        for layer in layers if is_cuda else ():
            layer.compile(dynamic=True)
        self.rate = torch.tensor(0.0, device=device)
        matrices = {w: None for layer in layers for w in layer.parameters() if w.ndim == 2}
        others = [w for w in self.modules.parameters() if w.requires_grad and w not in matrices]
        self.muon = Muon(matrices, self.rate, WEIGHT_DECAY)
        self.adam = adamw(others, self.rate, (0.9, 0.97), WEIGHT_DECAY)
        self.logged = torch.zeros(len(LOGGED), device=device)
        self.shapes: dict[tuple[int, ...], tuple[dict[str, Tensor], Callable[[], None]]] = {}

    def references(self, spans: Tensor) -> Tensor:
        """Return the x-vectors of random crops of the reference audio.

        `spans` has the start and length of each reference. References that are too short are repeated.
        """
        rows = (len(spans), 1)
        crop = ((1.5 + 2.5 * torch.rand(rows, device=self.device)) * 24000).long()
        start, size = spans[:, :1], spans[:, 1:].clamp(min=1)
        offset = (torch.rand(rows, device=self.device) * (size - crop).clamp(min=0)).long()
        inside = (offset + torch.arange(4 * 24000 // 256 * 256, device=self.device) % crop) % size
        return self.voice.x_vectors(self.audio[start + inside].float() / 32768.0)

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the total loss and a tensor of the individual losses.

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
        unlike = (self.styles(vectors.float()) - batch["styles"]).abs().mean(1)
        trait, identity = ((loss * known).sum() / known.sum().clamp(min=1) for loss in (gaps, unlike))
        states = voice.talker.model.run(x).flatten(0, 1)
        first, target = first.flatten(), target.flatten(0, 1)
        code0 = F.cross_entropy(voice.talker.codec_head(states).float(), first, ignore_index=-1)
        phone = F.cross_entropy(self.phone_head(states).float().reshape(-1, LABEL_COUNT), batch["phones"].flatten())
        count = (target[:, 0] >= 0).cumsum(0)  # Sampling with replacement gives a constant number of frames.
        drawn = (torch.rand(3072, device=self.device, dtype=torch.float64) * count[-1]).long() + 1
        frames = torch.searchsorted(count, drawn)
        wanted = target.index_select(0, frames)
        is_noise = torch.rand(wanted.shape, device=self.device) < CONFIG["lm"]["code_noise"]
        fed = torch.cat(
            (wanted[:, :1], torch.where(is_noise, torch.randint_like(wanted, TALKER.codes), wanted)[:, 1:]), 1
        )
        logits = voice.predictor_logits(states.index_select(0, frames), fed)
        rest = [F.cross_entropy(scores.float(), wanted[:, k + 1]) for k, scores in enumerate(logits)]
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
        shape = tuple(batch["text"].shape)
        if shape not in self.shapes:
            held = {k: t.to(self.device) for k, t in batch.items()}
            self.shapes[shape] = held, capture(partial(self._step, held), self.device, 3, self.pool)
        held, replay = self.shapes[shape]
        for name, tensor in batch.items():
            held[name].copy_(tensor, non_blocking=True)
        replay()


def listen(args: argparse.Namespace, device: torch.device) -> tuple[Store, Codec]:
    """Wait for a codec and for `--min-hours` of speech, and encode the speech."""
    store = Store(WORK / "shards", device, args.hours)
    while not args.codec.exists() or store.filled / 864e5 < args.min_hours:
        store.take(8)
        time.sleep(0.2)
    codec = Codec.load(args.codec, device)
    shutil.rmtree(WORK / "spoken", ignore_errors=True)
    (WORK / "spoken").mkdir()
    store.take()
    store.encode(codec, WORK / "spoken")
    return store, codec


def main() -> None:
    parser = parser_of(__doc__, WORK / "lm.pt", CONFIG["lm"]["lr"])
    parser.add_argument("--codec", type=Path, default=WORK / "codec.pt", help="codec of the codes, once it exists")
    parser.add_argument("--min-hours", type=float, default=0.05, help="hours of speech with which training begins")
    parser.add_argument("--loaders", type=int, default=8)
    parser.add_argument("--positions", type=int, default=CONFIG["lm"]["positions"])
    args, device = parser.parse_args(), training_device()
    (store, codec), vocabulary = listen(args, device), TextVocabulary.read(WORK)
    loader = iter(DataLoader(Batches(vocabulary, args.positions), batch_size=None,
                             num_workers=args.loaders, prefetch_factor=8 if args.loaders else None,
                             pin_memory=device.type == "cuda"))  # fmt: skip
    batch = next(loader)
    trainer = Trainer(vocabulary, store.audio, device, args.resume)
    schedule = Schedule(args, lowest=0.03)
    print(f"{store.filled / 864e5:.1f} hours, {schedule.seconds:.0f} s remain", flush=True)
    for rate in schedule.rates():
        trainer.step(batch, rate)
        batch = next(loader)
        if schedule.step % 200 == 0:
            store.take(MAX_SHARDS)
            store.encode(codec, WORK / "spoken")
        if schedule.step % 250 == 0:
            extra = f"{len(trainer.shapes)} shapes {store.filled / 864e5:.1f} hours"
            schedule.report(LOGGED, trainer.logged, extra)
        # The checkpoint is also written during the training, so that the next stages can start early.
        if schedule.step == 100 or schedule.step % 1500 == 0:
            save(trainer.voice.state_dict(), args.out)
    save(trainer.voice.state_dict(), args.out)
    print("done", schedule.step, flush=True)


if __name__ == "__main__":
    main()
