"""Stage 1 of the voice training: speech of Kokoro, in groups of eight lines of one voice.

Run: python speak.py --hours 60

The results are shards for `store.Store`. The phone labels are Kokoro's token ids (0: silence), placed with the
durations that Kokoro predicts. F0 is also Kokoro's prediction.
"""

from __future__ import annotations

import argparse
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.pitch import median_f0
from config import CONFIG, WORK
from kokoro_model import HOP_SAMPLES, Kokoro, read_weights
from phonemes import read_lines
from stage import save
from store import FRAME_SAMPLES, LABEL_SAMPLES, STYLE_SCALE, STYLE_SIZE

STYLES = CONFIG["styles"]  # Names of Kokoro's styles, keyed by gender.
TYPICAL_TOKENS = 60  # Number of token ids of an average line, which has little effect on Kokoro's styles.
# Number of ids at the start of the phoneme vocabulary without a sound: punctuation, padding and the space.
SILENT_ID_COUNT = 17


@dataclass(frozen=True)
class Mixture:
    """Voice as a mixture of Kokoro's styles, with factors for the pace, F0 and the formants.

    A random offset with the seed `offset` and the scale `spread` is added to the style vector, because mixtures without
    an offset span only 29 of its 256 dimensions.
    """

    gender: str
    styles: dict[str, float]
    offset: int = 0
    spread: float = 0.0
    pitch: float = 1.0
    formant: float = 1.0
    speed: float = 1.0
    kind: str = "mixed"
    speaker: str = ""


SPEAKERS = {name: Mixture(**values, kind="named", speaker=name) for name, values in CONFIG["speakers"].items()}


def draw_mixture(rng: random.Random) -> Mixture:
    """Draw a random mixture of one or two of Kokoro's styles, usually with a random offset.

    Both styles have the same gender.
    """
    gender = rng.choice(("female", "male"))
    first, second = rng.sample(STYLES[gender], 2)
    share = rng.choice((1.0, rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7)))
    styles = {first: share, second: 1 - share} if share < 1 else {first: 1.0}
    span = (0.76, 1.4) if gender == "female" else (0.8, 1.55)
    pitch = rng.choice((1.0, rng.uniform(*span), rng.uniform(*span)))
    formant = rng.choice((1.0, rng.uniform(0.87, 1.13), rng.uniform(0.87, 1.13)))
    spread = rng.choice((0.0, *(rng.uniform(0.5, 1.3) for _ in range(3))))
    pace = rng.choice((1.0, rng.uniform(0.76, 1.3)))
    return Mixture(gender, styles, rng.randrange(1 << 30), spread, pitch, formant, pace)


def draw_voice(rng: random.Random) -> Mixture:
    """Draw a random voice, whose kind has the probability that config.toml specifies.

    A styled voice is a named voice with a random change of its pace, its pitch or both.
    """
    share = CONFIG["synthesis"]["share"]
    kind = rng.choices(list(share), list(share.values()))[0]
    if kind == "mixed":
        return draw_mixture(rng)
    voice = rng.choice(list(SPEAKERS.values()))
    if kind == "named":
        return voice
    speed = rng.choice((rng.uniform(0.74, 0.82), 1.0, rng.uniform(1.18, 1.3)))
    pitch = rng.choice((rng.uniform(0.78, 0.87), 1.0, rng.uniform(1.14, 1.28)))
    if speed == pitch == 1.0:
        speed = rng.choice((0.77, 1.25))
    return replace(voice, pitch=voice.pitch * pitch, speed=voice.speed * speed, kind="styled")


def resampled(audio: np.ndarray, factor: float) -> np.ndarray:
    """Return audio that is `factor` times as fast, computed by spectral resampling."""
    if factor == 1.0:
        return audio
    count = round(len(audio) / factor)
    spectrum, bins = np.fft.rfft(audio), count // 2 + 1
    spectrum = np.pad(spectrum[:bins], (0, max(0, bins - len(spectrum))))
    return (np.fft.irfft(spectrum, count) * (count / len(audio))).astype(np.float32)


@dataclass(frozen=True)
class Utterance:
    """Generated speech of a line, with the durations and F0 that Kokoro predicted.

    Shapes: audio [600 T]; token ids and durations [N]; F0 in Hz [2 T].
    """

    audio: np.ndarray
    ids: np.ndarray
    durations: np.ndarray
    f0: np.ndarray


def finish(said: Utterance, formant: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return int16 audio, phone labels and F0 labels of an utterance, padded to codec frames.

    The audio is resampled to shift the formants, trimmed and normalized.
    """
    s, audio = CONFIG["synthesis"], resampled(said.audio, formant)
    loud = np.flatnonzero(np.abs(audio) > 0.02 * np.abs(audio).max())
    start = max(0, int(loud[0]) - round(s["lead"] * 24000)) // LABEL_SAMPLES * LABEL_SAMPLES
    stop = min(len(audio), int(loud[-1]) + round(s["tail"] * 24000))
    part = np.pad(audio[start:stop], (0, -(stop - start) % FRAME_SAMPLES))
    active = part[np.abs(part) > 0.02 * np.abs(part).max()]
    part = part * (s["rms"] / np.sqrt(np.square(active).mean()))
    part = part * min(1.0, 0.98 / np.abs(part).max())
    at = ((start + LABEL_SAMPLES // 2 + LABEL_SAMPLES * np.arange(len(part) // LABEL_SAMPLES)) * formant).astype(int)
    inside = at < len(said.audio)
    token = np.searchsorted(said.durations.cumsum(), at // HOP_SAMPLES, side="right").clip(max=len(said.ids) - 1)
    phones, f0 = said.ids[token], said.f0[(at // (HOP_SAMPLES // 2)).clip(max=len(said.f0) - 1)] * formant
    phones, f0 = phones * ((phones >= SILENT_ID_COUNT) & inside), f0 * ((f0 > 50) & inside)
    return (part * 32767).astype(np.int16), phones.astype(np.uint8), f0.astype(np.float16)


class Teacher:
    """Kokoro model and styles, which generate speech from phoneme ids in batches."""

    def __init__(self, model: Path, voices: Path, device: torch.device) -> None:
        self.device = device
        self.kokoro = Kokoro(read_weights(model), device)
        self.styles = {name: array[:, 0].astype(np.float32) for name, array in np.load(voices).items()}
        typical = np.stack([rows[TYPICAL_TOKENS] for rows in self.styles.values()])
        self.mean, self.deviation = typical.mean(0), typical.std(0)

    def style(self, voice: Mixture, tokens: int = TYPICAL_TOKENS) -> np.ndarray:
        """Return the style vector [256] for an utterance of `tokens` phoneme ids."""
        mixed = sum(weight * self.styles[name][min(tokens, 509)] for name, weight in voice.styles.items())
        noise = np.random.default_rng(voice.offset).standard_normal(STYLE_SIZE, np.float32)
        return mixed + voice.spread * self.deviation * noise

    def identity(self, voice: Mixture) -> Tensor:
        """Return the standardized style vector [256] of a voice, with the scale `STYLE_SCALE`."""
        standardized = (self.style(voice) - self.mean) / self.deviation
        return torch.from_numpy(np.rint(STYLE_SCALE * standardized).clip(-127, 127).astype(np.int8))

    def synthesize(self, lines: list[np.ndarray], voices: list[Mixture]) -> list[Utterance]:
        """Return the speech of text lines, before `finish` shifts the formants.

        Each line is an array of phoneme ids. The pace and F0 are chosen so that they are correct after the shift.
        """
        ids = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(line) for line in lines], batch_first=True)
        count = torch.tensor([len(line) for line in lines])
        vectors = np.stack([self.style(v, len(line) - 2) for v, line in zip(voices, lines, strict=True)])
        speed, pitch = torch.tensor([(v.speed / v.formant, v.pitch / v.formant) for v in voices]).unbind(1)
        inputs = (ids, count, torch.from_numpy(vectors).float(), speed, pitch)
        made = self.kokoro.generate(*(x.to(self.device) for x in inputs))
        audio, durations, f0, frames = (x.cpu().numpy() for x in made)
        return [Utterance(audio[i, : HOP_SAMPLES * n], line, durations[i, : len(line)], f0[i, : 2 * n])
                for i, (line, n) in enumerate(zip(lines, frames, strict=True))]  # fmt: skip


def write_shard(
    path: Path, texts: list[str], said: list[Utterance], voices: list[Mixture], identities: list[Tensor]
) -> int:
    """Write utterances and labels to the file of a shard, and return the number of samples."""
    # Omit silent audio, and audio that contains NaN after an overflow.
    audible = [i for i, one in enumerate(said) if np.abs(one.audio).max() > 0.01]
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda i: finish(said[i], voices[i].formant), audible))
    rows, at = [], 0
    for i, (audio, _, f0) in zip(audible, parts, strict=True):
        voice = voices[i]
        rows.append({"text": texts[i], "start": at, "length": len(audio), "kind": voice.kind, "speaker": voice.speaker,
                     "group": f"{path.stem}.{i // CONFIG['synthesis']['group']}", "gender": voice.gender,
                     "style": identities[i], "stretch": round(1 / voice.speed, 3), "formant": round(voice.formant, 3),
                     "f0": round(median_f0(f0), 1)})  # fmt: skip
        at += len(audio)
    arrays = (torch.from_numpy(np.concatenate(each)) for each in zip(*parts, strict=True))
    save({"rows": rows, **dict(zip(("audio", "phones", "f0"), arrays, strict=True))}, path)
    return at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=60)
    parser.add_argument("--batch", type=int, default=96, help="utterances, a multiple of the group")
    args = parser.parse_args()
    out, group = WORK / "shards", CONFIG["synthesis"]["group"]
    out.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher = Teacher(WORK / "kokoro.onnx", WORK / "voices.npz", device)
    texts, ids = read_lines(WORK / "lines.npz")
    rng, made, number, began, writing = random.Random(CONFIG["seed"]), 0, 0, time.monotonic(), []
    with ThreadPoolExecutor(4) as pool:
        while made < args.hours * 3600 * 24000:
            # A batch has lines of similar length, so that little padding is needed.
            near = sorted(rng.sample(range(len(texts)), 8 * args.batch), key=lambda i: len(ids[i]))
            first = rng.randrange(7 * args.batch + 1)
            chosen = near[first : first + args.batch]
            rng.shuffle(chosen)
            voices = [voice for _ in range(args.batch // group) for voice in [draw_voice(rng)] * group]
            said = teacher.synthesize([ids[i] for i in chosen], voices)
            identities, lines = [teacher.identity(voice) for voice in voices], [texts[i] for i in chosen]
            writing.append(pool.submit(write_shard, out / f"k_{number:05d}.pt", lines, said, voices, identities))
            number += 1
            while writing and (len(writing) > 6 or writing[0].done()):
                made += writing.pop(0).result()
            if number % 20 == 0:
                print(f"{number} shards, {made / 864e5:.2f} hours, {time.monotonic() - began:.0f} s", flush=True)
        made += sum(w.result() for w in writing)
    print(f"{made / 864e5:.2f} hours in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
