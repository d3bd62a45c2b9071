"""Stage 7: measure against the teacher on held-out text. Every figure is written beside the teacher's own.

Run: python evaluate.py codec --codec work/codec.pt --sentences 100
     python evaluate.py tts [--layout streaming] [--old ../../assets/demo-voice]    (all modes)
     python evaluate.py presets     (the page's first descriptions)
     python evaluate.py teachers    (what the others are compared with, ahead of them)
"""

from __future__ import annotations

import argparse
import json
import random
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from checkpoints import load_voice
from config import CONFIG, HERE
from generate import Ask, Sampling, generate
from lm_model import MelFront
from recognise import apart, hear, rate
from spectral import SpectralLoss
from synthesise import Studio, Voice, median_f0, named_voices, random_espeak, random_flite, track_f0
from text import corpus
from train_codec import load


def teacher_set(debs: Path, sentences: int, cache: Path) -> list[dict]:
    """Speak the held-out sentences with every named speaker; kept in `cache`."""
    if cache.exists():
        return list(np.load(cache, allow_pickle=True))
    studio, text = Studio(debs), CONFIG["text"]
    _, held = corpus(debs, CONFIG["seed"], text["max_chars"], text["held_out"])
    out = []
    for line in held[:sentences]:
        for name, voice in named_voices().items():
            audio, _, f0 = studio.record(line, voice, 1.0)
            out.append({"text": line, "speaker": name, "audio": audio, "f0": median_f0(f0)})
    np.save(cache, np.array(out, dtype=object), allow_pickle=True)
    return out


def teacher_heard(rows: list[dict], cache: Path, workers: int) -> list[str]:
    """Return what is heard in the teachers' own sound; kept in `cache` beside it."""
    if "heard" not in rows[0]:
        for row, heard in zip(rows, hear([r["audio"] for r in rows], workers), strict=True):
            row["heard"] = heard
        np.save(cache, np.array(rows, dtype=object), allow_pickle=True)
    return [r["heard"] for r in rows]


@torch.no_grad()
def resynthesise(codec: torch.nn.Module, audio: np.ndarray) -> np.ndarray:
    device = next(codec.parameters()).device
    return codec.decode(codec.encode(torch.from_numpy(audio)[None].to(device)))[0].clamp(-1, 1).cpu().numpy()


def report_codec(args: argparse.Namespace, _: Path) -> Iterator[tuple[str, dict]]:
    """Compare the codec's resynthesis with the teacher: WER, F0, mel distance."""
    rows = teacher_set(args.debs, args.sentences, args.cache)
    codec, distance = load(args.codec, torch.device("cuda" if torch.cuda.is_available() else "cpu")), SpectralLoss()
    made = [resynthesise(codec, r["audio"]) for r in rows]
    truths = [r["text"] for r in rows]
    teacher, ours = teacher_heard(rows, args.cache, args.workers), hear(made, args.workers)
    gap, error = apart(truths, teacher, ours)
    yield "all", {"teacher": rate(truths, teacher), "codec": rate(truths, ours), "gap": gap, "error": error,
                  "n": len(rows)}  # fmt: skip
    for name in named_voices():
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        f0 = [median_f0(track_f0(made[i])) / rows[i]["f0"] for i in at]
        mel = [
            float(distance(torch.from_numpy(made[i])[None], torch.from_numpy(rows[i]["audio"])[None])[1]) for i in at
        ]
        yield name, {"teacher": rate([truths[i] for i in at], [teacher[i] for i in at]),
                     "codec": rate([truths[i] for i in at], [ours[i] for i in at]),
                     "f0_ratio": float(np.median(f0)), "mel": float(np.mean(mel))}  # fmt: skip


def clone_voices(count: int = 20) -> list[Voice]:
    """Return voices that training never drew: other seeds of flite's space, and the held-out espeak variants."""
    rng = random.Random(4242)
    return [random_espeak(rng, held_out=True) if i % 4 == 3 else random_flite(rng) for i in range(count)]


def timbre(audio: np.ndarray) -> np.ndarray:
    """Return a long-term spectral shape (log-mel mean and deviation of loud frames): no part of the model."""
    mel = MelFront()(torch.from_numpy(audio)[None])[0].numpy()
    loud = mel.mean(0) > mel.mean(0).mean()
    shape = mel[:100, loud]
    return np.concatenate((shape.mean(1) - shape.mean(), 0.5 * shape.std(1)))


class Candidate:
    """A trained voice with the codec that its codes are for, speaking in one layout."""

    def __init__(self, args: argparse.Namespace, path: Path) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.codec = load(args.codec, self.device)
        self.voice, self.vocabulary = load_voice(path, self.device)
        self.streaming = args.layout == "streaming"
        self.sampling = Sampling(args.temperature, args.subtalker)

    def codes(self, audio: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.codec.encode(torch.from_numpy(audio)[None].to(self.device))[0].cpu().numpy()

    def say(self, asks: list[Ask], seed: int, size: int = 60) -> tuple[list[np.ndarray], list[bool]]:
        """Return (waveforms, stopped by themselves)."""
        audio, ended = [], []
        size = 480 if self.device.type == "cuda" else size  # a card makes hundreds in the time of one
        asks = [replace(ask, streaming=self.streaming) for ask in asks]
        for at in range(0, len(asks), size):
            sampling = replace(self.sampling, seed=seed + at)
            for code, done in generate(self.voice, self.vocabulary, asks[at : at + size], sampling):
                made = torch.zeros(1920)
                if len(code):
                    with torch.no_grad():
                        made = self.codec.decode(torch.from_numpy(code).to(self.device)[None])[0]
                audio.append(made.clamp(-1, 1).cpu().numpy())
                ended.append(done)
        return audio, ended


def report_tts(args: argparse.Namespace, path: Path) -> Iterator[tuple[str, dict]]:
    """Measure the three modes end to end, by default with the sampling that is shipped."""
    rows, candidate = teacher_set(args.debs, args.sentences, args.cache), Candidate(args, path)
    yield from judge_speakers(args, rows, candidate)
    lines = list(dict.fromkeys(r["text"] for r in rows))[:20]
    yield from judge_designs(args, lines, candidate)
    yield from judge_clones(args, lines, candidate)


def judge_speakers(args: argparse.Namespace, rows: list[dict], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Compare the named speakers with their teachers on the same sentences."""
    made, ended = candidate.say([Ask(r["text"], r["speaker"]) for r in rows], seed=0)
    truths = [r["text"] for r in rows]
    teacher, ours = teacher_heard(rows, args.cache, args.workers), hear(made, args.workers)
    long = [len(m) / len(r["audio"]) for m, r in zip(made, rows, strict=True)]
    gap, error = apart(truths, teacher, ours)
    yield "custom_voice", {"teacher": rate(truths, teacher), "tts": rate(truths, ours), "gap": gap, "error": error,
                           "n": len(rows), "ended": float(np.mean(ended)),
                           "within_1.3": float(np.mean(np.array(long) < 1.3)),
                           "length": float(np.mean(long))}  # fmt: skip
    for name in named_voices():
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        yield name, {"teacher": rate([truths[i] for i in at], [teacher[i] for i in at]),
                     "tts": rate([truths[i] for i in at], [ours[i] for i in at]),
                     "f0_ratio": float(np.median([median_f0(track_f0(made[i])) for i in at])
                                       / np.median([rows[i]["f0"] for i in at]))}  # fmt: skip


def judge_designs(args: argparse.Namespace, lines: list[str], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure whether plain words for gender, pitch and pace are followed, and understood."""
    forms = ("A {g} with a {p} voice, speaking {s}.", "Speak {s} in a {p} {g} voice.")
    pace = {"slow": "slowly", "normal": "at a normal pace", "fast": "quickly"}
    cells = [(g, p, s) for g in ("woman", "man") for p in ("low", "medium", "high") for s in pace]
    asks = [Ask(t, instruct=forms[i % 2].format(g=g, p=p, s=pace[s])) for g, p, s in cells for i, t in enumerate(lines)]
    made, ended = candidate.say(asks, seed=7)
    yield "voice_design", {"ended": float(np.mean(ended)),
                           "tts": rate([a.text for a in asks[::9]], hear(made[::9], args.workers))}  # fmt: skip
    f0 = np.array([median_f0(track_f0(m)) for m in made]).reshape(2, 3, 3, len(lines))
    span = np.array([len(a.text) / (len(m) / 24000) for a, m in zip(asks, made, strict=True)]).reshape(
        2, 3, 3, len(lines)
    )
    yield "design_f0", {f"{g}_{p}": float(np.median(f0[i, j]))
                        for i, g in enumerate(("woman", "man"))
                        for j, p in enumerate(("low", "medium", "high"))}  # fmt: skip
    yield "design_pace", {s: float(np.mean(span[:, :, k])) for k, s in enumerate(pace)}
    yield "design_order", {"pitch": float(np.mean((f0[:, 0] < f0[:, 1]) & (f0[:, 1] < f0[:, 2]))),
                           "speed": float(np.mean((span[:, :, 0] < span[:, :, 1]) & (span[:, :, 1] < span[:, :, 2]))),
                           "gender": float(np.mean(f0[0, 1] > f0[1, 1]))}  # fmt: skip


REFERENCE = "The old man walked slowly down to the river and sat on a stone."


def clone_set(args: argparse.Namespace, lines: list[str]) -> list[dict]:
    """Let each unseen voice speak the reference and four of the lines; kept in `--clones`, with what is heard."""
    if args.clones.exists():
        return list(np.load(args.clones, allow_pickle=True))
    studio, out = Studio(args.debs), []
    for voice in clone_voices():
        said = [studio.record(text, voice, voice.stretch)[0] for text in (REFERENCE, *lines[:4])]
        out.append({"reference": said[0], "others": said[1:], "texts": lines[:4]})
    heard = iter(hear([audio for one in out for audio in one["others"]], args.workers))
    for one in out:
        one["heard"] = [next(heard) for _ in one["others"]]
    np.save(args.clones, np.array(out, dtype=object), allow_pickle=True)
    return out


def judge_clones(args: argparse.Namespace, lines: list[str], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure clones of unseen voices: words, pitch, and whether the nearest voice is the right one."""
    voices = clone_set(args, lines)
    shapes = np.stack([timbre(one["reference"]) for one in voices])
    truth_f0 = [np.median([median_f0(track_f0(a)) for a in one["others"]]) for one in voices]
    truths = [text for one in voices for text in one["texts"]]
    teacher = rate(truths, [heard for one in voices for heard in one["heard"]])
    for kind in ("x_vector", "icl"):
        asks = []
        for one in voices:
            code = candidate.codes(one["reference"]) if kind == "icl" else None
            asks += [Ask(t, reference=one["reference"], reference_text=REFERENCE, reference_codes=code)
                     for t in one["texts"]]  # fmt: skip
        made, ended = candidate.say(asks, seed=11)
        near, follow, best = [], [], []
        for i, one in enumerate(voices):
            mine = made[i * len(one["texts"]) : (i + 1) * len(one["texts"])]
            mean = np.mean([timbre(m) for m in mine if len(m) > 9600] or [shapes[0] * 0], 0)
            near.append(int(np.abs(shapes - mean).mean(1).argmin()) == i)
            best.append(int(np.abs(shapes - np.mean([timbre(o) for o in one["others"]], 0)).mean(1).argmin()) == i)
            follow.append(abs(np.median([median_f0(track_f0(m)) for m in mine]) / truth_f0[i] - 1) < 0.08)
        yield kind, {"teacher": teacher, "tts": rate(truths, hear(made, args.workers)),
                     "ended": float(np.mean(ended)), "f0_within_8": float(np.mean(follow)),
                     "nearest": float(np.mean(near)), "nearest_teacher": float(np.mean(best))}  # fmt: skip


def report_presets(args: argparse.Namespace, path: Path) -> Iterator[tuple[str, dict]]:
    """Measure the page's first English descriptions for VoiceDesign, each on as many of the teachers' sentences."""
    presets = tomllib.loads((HERE.parents[1] / "presets" / "designs.toml").read_text())["design"][:5]
    lines = list(dict.fromkeys(r["text"] for r in teacher_set(args.debs, args.sentences, args.cache)))[: args.sentences]
    asks = [Ask(line, instruct=preset["text"]) for preset in presets for line in lines]
    made, ended = Candidate(args, path).say(asks, seed=13)
    heard = hear(made, args.workers)
    for i, preset in enumerate(presets):
        at = range(i * len(lines), (i + 1) * len(lines))
        f0 = [median_f0(track_f0(made[k])) for k in at]
        pace = [len(asks[k].text) / (len(made[k]) / 24000) for k in at]
        yield preset["name"], {"tts": rate(lines, [heard[k] for k in at]),
                               "ended": float(np.mean([ended[k] for k in at])), "f0": float(np.median(f0)),
                               "f0_low": min(f0), "f0_high": max(f0),
                               "letters_a_second": float(np.mean(pace))}  # fmt: skip


def report_teachers(args: argparse.Namespace, _: Path) -> Iterator[tuple[str, dict]]:
    """Let the teachers speak what the others are compared with, and listen to it; both are kept."""
    rows = teacher_set(args.debs, args.sentences, args.cache)
    truths = [r["text"] for r in rows]
    yield "teachers", {"teacher": rate(truths, teacher_heard(rows, args.cache, args.workers)), "n": len(rows)}
    clones = clone_set(args, list(dict.fromkeys(truths))[:20])
    truths = [text for one in clones for text in one["texts"]]
    yield "clones", {"teacher": rate(truths, [h for one in clones for h in one["heard"]]), "n": len(truths)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    reports = {"codec": report_codec, "tts": report_tts, "presets": report_presets, "teachers": report_teachers}
    parser.add_argument("what", choices=reports)
    parser.add_argument("--codec", type=Path, default=work / "codec.pt")
    parser.add_argument("--debs", type=Path, default=HERE / CONFIG["paths"]["debs"])
    parser.add_argument("--cache", type=Path, default=work / "teacher.npy")
    parser.add_argument("--clones", type=Path, default=work / "clones.npy")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument(
        "--lm", type=Path, default=work / "lm.pt", help="a checkpoint, or the folder of an exported one"
    )
    parser.add_argument("--old", type=Path, help="another one of the same codec, judged after it on the same sound")
    parser.add_argument("--layout", choices=("non_streaming", "streaming"), default="non_streaming")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--temperature", type=float, default=0.6, help="of the talker; the published default is 0.9")
    parser.add_argument("--subtalker", type=float, default=0.6, help="of the code predictor")
    args = parser.parse_args()
    for prefix, path in (("", args.lm), *((("old ", args.old),) if args.old else ())):
        for name, figures in reports[args.what](args, path):
            print(f"{prefix}{name}", json.dumps({k: round(x, 3) for k, x in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
