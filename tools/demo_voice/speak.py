"""Make Kokoro's speech in groups of eight utterances that share one voice, as shards that `store.Store` reads.

Run: python speak.py --model kokoro.onnx --voices voices_ja.npz --lines work/lines.npz --hours 60
Phone labels are Kokoro's token ids (0: silence), from its predicted durations; F0 is what its predictor drew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from config import CONFIG, HERE
from kokoro_model import HOP, Kokoro, Spoken, read_weights

FEMALE = ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro")
LABEL, FRAME = 480, 1920  # Samples of a label and of a codec frame.
SILENT_IDS = 17  # Token ids below are punctuation, padding and the space.


@dataclass(frozen=True)
class Mixture:
    """A voice: weights of Kokoro's styles, pace and a factor on the predicted F0."""

    gender: str
    weights: dict[str, float]
    speed: float
    pitch: float


def draw_voice(rng: random.Random) -> Mixture:
    """Draw a mixture of two styles; the male one dominates male voices."""
    gender = rng.choice(("female", "male"))
    second = rng.choice(FEMALE)
    first = rng.choice(FEMALE) if gender == "female" else "jm_kumo"
    share = rng.uniform(0.5, 1.0) if gender == "female" else rng.uniform(0.7, 1.0)
    weights = {first: 1.0} if first == second else {first: share, second: 1 - share}
    span = (0.75, 1.15) if gender == "female" else (0.7, 1.25)
    return Mixture(gender, weights, rng.choice((1.0, rng.uniform(0.75, 1.4))), rng.choice((1.0, rng.uniform(*span))))


def style(voice: Mixture, styles: dict[str, np.ndarray], tokens: int) -> np.ndarray:
    """Return the style vector [256] of an utterance of `tokens` ids."""
    return sum(w * styles[name][min(tokens, 509), 0] for name, w in voice.weights.items())


def finish(out: Spoken, ids: Tensor, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (int16 audio, phone labels, F0 labels) of one utterance: silence cut, levelled, padded to codec frames."""
    s, count = CONFIG["synthesis"], int(out.frames[row]) * HOP
    audio = out.audio[row, :count]
    loud = (audio.abs() > 0.02 * audio.abs().max()).nonzero()[:, 0]
    start = max(0, int(loud[0]) - round(s["lead"] * 24000)) // LABEL * LABEL
    stop = min(count, int(loud[-1]) + round(s["tail"] * 24000))
    part = audio[start:stop]
    part = torch.nn.functional.pad(part, (0, -len(part) % FRAME))
    active = part[part.abs() > 0.02 * part.abs().max()]
    part = part * (s["rms"] / active.square().mean().sqrt())
    part = part * min(1.0, 0.98 / float(part.abs().max()))
    at = start + LABEL // 2 + LABEL * torch.arange(len(part) // LABEL, device=audio.device)
    token = torch.searchsorted(out.durations[row].cumsum(0), at // HOP, right=True).clamp(max=ids.shape[1] - 1)
    phones, f0 = ids[row, token], out.f0[row, (at // (HOP // 2)).clamp(max=2 * int(out.frames[row]) - 1)]
    phones = phones * ((phones >= SILENT_IDS) & (at < count))
    f0 = f0 * ((f0 > 50) & (at < count))
    return ((part * 32767).short().cpu().numpy(), phones.to(torch.uint8).cpu().numpy(), f0.half().cpu().numpy())


def write_shard(stem: Path, parts: list[tuple[np.ndarray, ...]], rows: list[dict]) -> None:
    for name, arrays in zip(("audio", "phones", "f0"), zip(*parts, strict=True), strict=True):
        np.save(stem.with_name(f"{stem.name}.{name}.npy"), np.concatenate(arrays))
    temporary = stem.with_name(f"{stem.name}.tmp")
    temporary.write_text(json.dumps(rows))
    os.replace(temporary, stem.with_name(f"{stem.name}.json"))  # Readers take a shard once its JSON exists.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    for name in ("model", "voices"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--lines", type=Path, default=work / "lines.npz")
    parser.add_argument("--out", type=Path, default=work / "shards")
    parser.add_argument("--hours", type=float, default=60)
    parser.add_argument("--batch", type=int, default=128, help="utterances, a multiple of the group")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    kokoro = Kokoro(read_weights(args.model), compiled=cuda).to(device).eval()
    styles, data = dict(np.load(args.voices)), np.load(args.lines)
    texts, lengths, all_ids = bytes(data["text"]).decode().split("\n"), data["lengths"], data["ids"].astype(np.int64)
    starts = lengths.cumsum() - lengths
    rng, group = random.Random(CONFIG["seed"]), CONFIG["synthesis"]["group"]
    made, number, began = 0, 0, time.monotonic()
    while made < args.hours * 3600 * 24000:
        near = rng.sample(range(len(texts)), 8 * args.batch)  # Lines of like length make a batch with little padding.
        near.sort(key=lambda i: lengths[i])
        first = rng.randrange(7 * args.batch + 1)
        chosen = near[first : first + args.batch]
        rng.shuffle(chosen)
        voices = [draw_voice(rng) for _ in range(args.batch // group)]
        each = [voices[i // group] for i in range(args.batch)]
        count = torch.tensor(lengths[chosen].astype(np.int64))
        ids = torch.zeros(args.batch, int(count.max()), dtype=torch.long)
        for i, line in enumerate(chosen):
            ids[i, : count[i]] = torch.from_numpy(all_ids[starts[line] : starts[line] + lengths[line]])
        vectors = np.stack([style(v, styles, int(n) - 2) for v, n in zip(each, count, strict=True)])
        ids, count, vectors = ids.to(device), count.to(device), torch.from_numpy(vectors).float().to(device)
        speed, pitch = (torch.tensor([getattr(v, k) for v in each], device=device) for k in ("speed", "pitch"))
        out = kokoro(ids, count, vectors, speed, pitch)
        parts, rows, at = [], [], 0
        for i, line in enumerate(chosen):
            part = finish(out, ids, i)
            voiced = part[2][part[2] > 0].astype(np.float32)
            rows.append({"text": texts[line], "start": at, "length": len(part[0]), "group": f"{number}.{i // group}",
                         "kind": "mixed", "speaker": "", "gender": each[i].gender,
                         "stretch": round(1 / each[i].speed, 3), "formant": 1.0,
                         "f0": round(float(np.median(voiced)), 1) if len(voiced) > 3 else 0.0,
                         "voice": json.dumps(each[i].weights)})  # fmt: skip
            parts.append(part)
            at += len(part[0])
        write_shard(args.out / f"k_{number:05d}", parts, rows)
        made, number = made + at, number + 1
    print(f"{made / 864e5:.2f} hours in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
