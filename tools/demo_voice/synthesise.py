"""Stage 1: make the teacher's speech, in groups of utterances that share one voice.

Run: python synthesise.py --hours 150 --workers 15
Each worker writes shards (audio int16, phones and F0 at the label rate, one JSON of rows) and
stops when the hours are reached, the clock runs out, or a file `stop` appears beside the shards.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from dataclasses import asdict, dataclass
from multiprocessing import Process
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from config import CONFIG, HERE
from teachers import PHONES, UNKNOWN_PHONE, Espeak, Flite, Speech
from text import corpus

SAMPLES_PER_FRAME = 1920
FEMALE_VARIANTS = ("f1", "f2", "f3", "f4", "f5", "Annie", "steph", "belinda", "linda", "aunty", "anika")
MALE_VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "max", "john", "david", "edward", "adam",
                 "caleb", "michael".capitalize(), "Lee", "iven", "paul", "rob", "travis")  # fmt: skip
HELD_OUT_VARIANTS = ("f4", "m7", "john", "steph")  # never heard in training: cloning is judged on them
ACCENTS = ("en-us", "en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland")


@dataclass(frozen=True)
class Voice:
    """One way to speak: who, how high, how fast, and what one may call it."""

    engine: str
    name: str
    gender: str
    f0_shift: float = 1.0
    formant: float = 1.0
    stretch: float = 1.0
    pitch: int = 50
    speaker: str = ""
    styled: bool = False


@dataclass(frozen=True)
class Row:
    """One utterance of a shard. Units: samples at 24 kHz, Hz."""

    text: str
    start: int
    length: int
    group: str
    kind: str
    speaker: str
    gender: str
    stretch: float
    f0: float
    formant: float
    voice: str


def median_f0(f0: np.ndarray) -> float:
    """Return the median of the voiced labels, 0 when there is none."""
    voiced = f0[f0 > 0]
    return float(np.median(voiced)) if len(voiced) > 3 else 0.0


def track_f0(audio: np.ndarray, low: float = 55.0, high: float = 420.0) -> np.ndarray:
    """Return F0 in Hz at 50 labels a second, 0 where unvoiced, by normalised autocorrelation at 8 kHz."""
    small = audio[: len(audio) // 3 * 3].reshape(-1, 3).mean(1)
    hop, window = 160, 480
    count = len(audio) // 480
    padded = np.pad(small, (window // 2 - hop // 2, window))
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop][:count]
    taper = np.hanning(window)
    spectrum = np.abs(np.fft.rfft((frames - frames.mean(1, keepdims=True)) * taper, 1024)) ** 2
    base = np.fft.irfft(np.abs(np.fft.rfft(taper, 1024)) ** 2)[:256]
    auto = np.fft.irfft(spectrum)[:, :256]
    energy = auto[:, 0]
    auto = auto / (energy[:, None] + 1e-9) / (base / base[0])
    first, last = int(8000 / high), int(8000 / low)
    area = auto[:, first : last + 1]
    # the first strong peak, not the highest: an octave down is as high in clean speech
    inner = (area[:, 1:-1] > area[:, :-2]) & (area[:, 1:-1] >= area[:, 2:])
    strong = inner & (area[:, 1:-1] > 0.9 * area.max(1, keepdims=True))
    lag = np.where(strong.any(1), strong.argmax(1) + 1, area.argmax(1)) + first
    rows = np.arange(len(lag))
    left, mid, right = (auto[rows, np.clip(lag + k, 0, 255)] for k in (-1, 0, 1))
    bend = left - 2 * mid + right
    shift = np.where(np.abs(bend) > 1e-6, 0.5 * (left - right) / np.where(bend == 0, 1, bend), 0).clip(-0.5, 0.5)
    loud = energy > 0.02 * np.percentile(energy, 95)
    return np.where((mid > 0.55) & loud, 8000 / (lag + shift), 0).astype(np.float32)


class Studio:
    """One worker's teachers and the way from a line of text to finished samples and labels."""

    def __init__(self, debs: Path) -> None:
        libraries = debs / "usr/lib/x86_64-linux-gnu"
        self.flite = Flite(libraries)
        self.espeak = Espeak(libraries)
        self.settings = CONFIG["synthesis"]

    def record(self, text: str, voice: Voice, stretch: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (audio float32 24 kHz, phones uint8, F0 float32), the labels at 50 Hz."""
        if voice.engine == "flite":
            # a formant factor shortens the sound as well, so the teacher speaks slower by as much
            speech = self.flite.say(text, voice.name, voice.f0_shift, stretch * voice.formant)
        else:
            speech = self.espeak.say(text, voice.name, voice.pitch, int(165 / stretch))
        return self.finish(speech, voice.formant)

    def finish(self, speech: Speech, formant: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rate = self.settings["sample_rate"]
        ratio = rate / speech.rate / formant
        audio = resample_poly(speech.samples, round(ratio * 200), 200).astype(np.float32)
        ends = np.array([end / formant for _, end in speech.phones] or [0.0])
        names = [PHONES.index(p) if p in PHONES else 0 for p, _ in speech.phones]
        loud = np.flatnonzero(np.abs(audio) > 0.02 * np.abs(audio).max() + 1e-4)
        if len(loud) == 0:
            raise ValueError("silence")
        start = max(0, loud[0] - int(self.settings["lead"] * rate))
        stop = min(len(audio), loud[-1] + int(self.settings["tail"] * rate))
        lead = max(0, int(self.settings["lead"] * rate) - loud[0])
        audio = np.pad(audio[start:stop], (lead, 0))
        audio = np.pad(audio, (0, -len(audio) % SAMPLES_PER_FRAME))
        active = np.abs(audio) > 0.02 * np.abs(audio).max()
        audio = audio * (self.settings["rms"] / (np.sqrt((audio[active] ** 2).mean()) + 1e-6))
        audio = audio * min(1.0, 0.98 / np.abs(audio).max())
        times = (np.arange(len(audio) // 480) + 0.5) / self.settings["label_rate"] + (start - lead) / rate
        if names:
            at = np.searchsorted(ends, times).clip(0, len(names) - 1)
            phones = np.where((times < 0) | (times > ends[-1]), 0, np.array(names)[at]).astype(np.uint8)
        else:
            phones = np.full(len(times), UNKNOWN_PHONE, np.uint8)
        return audio, phones, track_f0(audio)


def named_voices() -> dict[str, Voice]:
    """Return the shipped speakers in their default settings."""
    return {
        name: Voice("flite", s["voice"], s["gender"], s["f0_shift"], s["formant"], speaker=name)
        for name, s in CONFIG["speakers"].items()
    }


def styled(voice: Voice, rng: random.Random) -> Voice:
    """Return a named voice with another pace or pitch."""
    stretch = rng.choice((rng.uniform(0.70, 0.82), 1.0, rng.uniform(1.28, 1.5)))
    shift = rng.choice((rng.uniform(0.70, 0.80), 1.0, rng.uniform(1.25, 1.40)))
    if stretch == 1.0 and shift == 1.0:
        stretch = rng.choice((0.76, 1.38))
    if voice.name == "rms":  # its F0 cannot be set, so pitch moves with the formants
        factor = 1.0 if shift == 1.0 else (0.90 if shift < 1 else 1.12)
        return Voice(**{**asdict(voice), "formant": voice.formant * factor, "stretch": stretch, "styled": True})
    return Voice(**{**asdict(voice), "f0_shift": voice.f0_shift * shift, "stretch": stretch, "styled": True})


def random_flite(rng: random.Random) -> Voice:
    """Return an invented voice: a flite voice with its own pitch and formants."""
    name = rng.choice(("slt", "slt", "slt", "awb", "awb", "rms", "rms"))
    formant = round(rng.choice((1.0, rng.uniform(0.88, 1.16))) / 0.02) * 0.02
    span = {"slt": (0.72, 1.48), "awb": (0.62, 1.45), "rms": (1.0, 1.0)}[name]
    shift = float(np.exp(rng.uniform(np.log(span[0]), np.log(span[1]))))
    gender = "female" if name == "slt" else "male"
    if (name == "slt" and formant < 0.9) or (name != "slt" and formant > 1.13):
        formant = 1.0
    stretch = rng.choice((1.0, rng.uniform(0.72, 1.45), rng.uniform(0.72, 1.45)))
    return Voice("flite", name, gender, shift, formant, stretch)


def random_espeak(rng: random.Random, held_out: bool = False) -> Voice:
    """Return one of espeak-ng's variants with a random pitch."""
    gender = rng.choice(("female", "male"))
    variants = FEMALE_VARIANTS if gender == "female" else MALE_VARIANTS
    variant = rng.choice([v for v in variants if (v in HELD_OUT_VARIANTS) == held_out])
    name = f"{rng.choice(ACCENTS)}+{variant}"
    return Voice("espeak", name, gender, stretch=rng.uniform(0.8, 1.3), pitch=rng.randint(25, 75))


def next_voice(rng: random.Random) -> tuple[str, Voice]:
    """Draw a kind by its share and a voice of that kind."""
    share = CONFIG["synthesis"]["share"]
    kind = rng.choices(list(share), list(share.values()))[0]
    if kind in ("named", "styled"):
        weights = [s["weight"] for s in CONFIG["speakers"].values()]
        voice = rng.choices(list(named_voices().values()), weights)[0]
        return kind, (voice if kind == "named" else styled(voice, rng))
    return kind, (random_flite(rng) if kind == "flite" else random_espeak(rng))


class Shard:
    """Audio, labels and rows of one file set, written at once when it is full."""

    def __init__(self) -> None:
        self.audio: list[np.ndarray] = []
        self.phones: list[np.ndarray] = []
        self.f0: list[np.ndarray] = []
        self.rows: list[Row] = []
        self.samples = 0

    def add(self, text: str, kind: str, group: str, voice: Voice, stretch: float, parts: tuple) -> None:
        audio, phones, f0 = parts
        self.rows.append(Row(text, self.samples, len(audio), group, kind, voice.speaker, voice.gender,
                             round(stretch, 3), round(median_f0(f0), 1), round(voice.formant, 3),
                             f"{voice.engine}:{voice.name}"))  # fmt: skip
        self.audio.append((audio * 32767).astype(np.int16))
        self.phones.append(phones)
        self.f0.append(f0.astype(np.float16))
        self.samples += len(audio)

    def write(self, stem: Path) -> None:
        for name, parts in (("audio", self.audio), ("phones", self.phones), ("f0", self.f0)):
            np.save(stem.with_name(f"{stem.name}.{name}.npy"), np.concatenate(parts))
        temporary = stem.with_name(f"{stem.name}.tmp")
        temporary.write_text(json.dumps([asdict(r) for r in self.rows]))
        os.replace(temporary, stem.with_name(f"{stem.name}.json"))  # the JSON says the shard is whole


def work(worker: int, workers: int, debs: Path, out: Path, hours: float, seconds: float) -> None:
    """Speak this worker's part of the corpus, over and over with other voices, until told to stop."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    began, text = time.monotonic(), CONFIG["text"]
    lines, _ = corpus(debs, CONFIG["seed"], text["max_chars"], text["held_out"])
    lines, rng, studio = lines[worker::workers], random.Random(CONFIG["seed"] + worker), Studio(debs)
    budget, made, number, at, group = hours * 3600 * 24000 / workers, 0, 0, 0, 0
    while made < budget and time.monotonic() - began < seconds and not (out / "stop").exists():
        shard, limit = Shard(), (90 if number < 2 else 600) * 24000  # small first shards: training starts early
        while shard.samples < limit and time.monotonic() - began < seconds:
            kind, voice = next_voice(rng)
            group += 1
            for _ in range(CONFIG["synthesis"]["group"]):
                line, at = lines[at % len(lines)], at + 1
                stretch = voice.stretch * (1.0 if kind in ("named", "styled") else rng.uniform(0.96, 1.04))
                try:
                    parts = studio.record(line, voice, stretch)
                except ValueError:
                    continue
                if len(parts[0]) <= 14 * 24000:
                    shard.add(line, kind, f"{worker}.{group}", voice, stretch, parts)
        shard.write(out / f"w{worker:02d}_{number:04d}")
        made, number = made + shard.samples, number + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=150)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--debs", type=Path, default=HERE / CONFIG["paths"]["debs"])
    parser.add_argument("--out", type=Path, default=HERE / CONFIG["paths"]["work"] / "shards")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = [Process(target=work, args=(i, args.workers, args.debs, args.out, args.hours, args.seconds))
            for i in range(args.workers)]  # fmt: skip
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if any(job.exitcode for job in jobs):
        raise SystemExit("a worker failed: its traceback stands above")


if __name__ == "__main__":
    main()
