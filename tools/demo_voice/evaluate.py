"""Stage 7: evaluation on held-out text, with every figure next to the teacher's.

Run: python evaluate.py codec --codec work/codec.pt --model kokoro.onnx --voices voices_ja.npz
     python evaluate.py tts [--layout streaming]    (all modes)
     python evaluate.py presets     (the page's first descriptions)
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
from phonemes import read_lines
from pitch import track_f0
from recognise import apart, hear, naturalness, rate
from speak import SPEAKERS, Mixture, Teacher, draw_mixture, finish, median_f0
from spectral import SpectralLoss
from train_codec import load


def spoken(args: argparse.Namespace, lines: list[int], voices: list[Mixture]) -> list[np.ndarray]:
    """Return the teacher's audio of held-out lines, each in its voice."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher, (_, ids), out = Teacher(args.model, args.voices, device), read_lines(args.held_out), []
    for at in range(0, len(lines), 64):
        part = voices[at : at + 64]
        said = teacher.say([ids[i] for i in lines[at : at + 64]], part)
        out += [finish(one, v.formant)[0].astype(np.float32) / 32768 for one, v in zip(said, part, strict=True)]
    return out


def teacher_set(args: argparse.Namespace) -> list[dict]:
    """Return the teacher's audio and recognised words of the held-out sentences per speaker, cached in `--cache`."""
    if args.cache.exists():
        return list(np.load(args.cache, allow_pickle=True))
    texts, _ = read_lines(args.held_out)
    asks = [(i, voice) for i in range(args.sentences) for voice in SPEAKERS.values()]
    said = spoken(args, [i for i, _ in asks], [voice for _, voice in asks])
    heard = hear(said, args.workers)
    out = [{"text": texts[i], "speaker": voice.speaker, "audio": audio, "heard": words,
            "f0": median_f0(track_f0(audio))}
           for (i, voice), audio, words in zip(asks, said, heard, strict=True)]  # fmt: skip
    np.save(args.cache, np.array(out, dtype=object), allow_pickle=True)
    return out


def opinion(audios: list[np.ndarray], most: int = 16) -> float:
    """Return the mean overall DNSMOS score of at most `count` waveforms."""
    chosen = audios[:: -(-len(audios) // most)]
    return float(np.mean([naturalness(audio)[2] for audio in chosen if len(audio)]))


@torch.no_grad()
def resynthesise(codec: torch.nn.Module, audio: np.ndarray) -> np.ndarray:
    device = next(codec.parameters()).device
    return codec.decode(codec.encode(torch.from_numpy(audio)[None].to(device)))[0].clamp(-1, 1).cpu().numpy()


def report_codec(args: argparse.Namespace) -> Iterator[tuple[str, dict]]:
    """Compare the codec's resynthesis with the teacher: words, opinion, F0, mel distance."""
    rows = teacher_set(args)
    codec, distance = load(args.codec, torch.device("cuda" if torch.cuda.is_available() else "cpu")), SpectralLoss()
    made = [resynthesise(codec, r["audio"]) for r in rows]
    heard = hear(made, args.workers)
    yield "all", compared(rows, made, heard)
    for name in SPEAKERS:
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        mel = [
            float(distance(torch.from_numpy(made[i])[None], torch.from_numpy(rows[i]["audio"])[None])[1]) for i in at
        ]
        yield name, one_speaker(rows, made, heard, at) | {"mel": float(np.mean(mel))}


def compared(rows: list[dict], made: list[np.ndarray], heard: list[str]) -> dict[str, float]:
    """Return word errors and opinion scores, next to the teacher's."""
    truths, teacher = [r["text"] for r in rows], [r["heard"] for r in rows]
    gap, error = apart(truths, teacher, heard)
    return {"teacher": rate(truths, teacher), "ours": rate(truths, heard), "gap": gap, "error": error, "n": len(rows),
            "teacher_mos": opinion([r["audio"] for r in rows]), "mos": opinion(made)}  # fmt: skip


def one_speaker(rows: list[dict], made: list[np.ndarray], heard: list[str], at: list[int]) -> dict[str, float]:
    """Return the figures of one speaker's rows `at`, and its F0 relative to the teacher's."""
    figures = compared([rows[i] for i in at], [made[i] for i in at], [heard[i] for i in at])
    f0 = np.median([median_f0(track_f0(made[i])) for i in at]) / np.median([rows[i]["f0"] for i in at])
    return {k: figures[k] for k in ("teacher", "ours", "teacher_mos", "mos")} | {"f0_ratio": float(f0)}


def timbre(audio: np.ndarray) -> np.ndarray:
    """Return a long-term spectral shape (log-mel mean and deviation of loud frames), independent of the model."""
    mel = MelFront()(torch.from_numpy(audio)[None])[0].numpy()
    loud = mel.mean(0) > mel.mean(0).mean()
    shape = mel[:100, loud]
    return np.concatenate((shape.mean(1) - shape.mean(), 0.5 * shape.std(1)))


class Candidate:
    """Trained voice with its codec, in one layout."""

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
        """Return (waveforms, flags of those that ended with EOS)."""
        audio, ended = [], []
        size = 480 if self.device.type == "cuda" else size  # A GPU generates hundreds in the time of one.
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


def report_tts(args: argparse.Namespace) -> Iterator[tuple[str, dict]]:
    """Measure the three modes end to end, by default with the shipped sampling settings."""
    rows, candidate = teacher_set(args), Candidate(args, args.lm)
    yield from judge_speakers(args, rows, candidate)
    lines = list(dict.fromkeys(r["text"] for r in rows))[:20]
    yield from judge_designs(args, lines, candidate)
    yield from judge_clones(args, candidate)


def judge_speakers(args: argparse.Namespace, rows: list[dict], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Compare the named speakers with their teachers on the same sentences."""
    made, ended = candidate.say([Ask(r["text"], r["speaker"]) for r in rows], seed=0)
    heard = hear(made, args.workers)
    long = np.array([len(m) / len(r["audio"]) for m, r in zip(made, rows, strict=True)])
    yield "custom_voice", compared(rows, made, heard) | {
        "ended": float(np.mean(ended)), "within_1.3": float(np.mean(long < 1.3)), "length": float(np.mean(long)),
    }  # fmt: skip
    for name in SPEAKERS:
        yield name, one_speaker(rows, made, heard, [i for i, r in enumerate(rows) if r["speaker"] == name])


def judge_designs(args: argparse.Namespace, lines: list[str], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure whether plain words for gender, pitch and pace are followed, and understood."""
    forms = ("A {g} with a {p} voice, speaking {s}.", "Speak {s} in a {p} {g} voice.")
    pace = {"slow": "slowly", "normal": "at a normal pace", "fast": "quickly"}
    cells = [(g, p, s) for g in ("woman", "man") for p in ("low", "medium", "high") for s in pace]
    asks = [Ask(t, instruct=forms[i % 2].format(g=g, p=p, s=pace[s])) for g, p, s in cells for i, t in enumerate(lines)]
    made, ended = candidate.say(asks, seed=7)
    yield "voice_design", {"ended": float(np.mean(ended)), "mos": opinion(made),
                           "ours": rate([a.text for a in asks[::9]], hear(made[::9], args.workers))}  # fmt: skip
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


def clone_set(args: argparse.Namespace) -> list[dict]:
    """Return audio of 20 unseen voices (a reference and four lines each) with transcripts, cached in `--clones`."""
    if args.clones.exists():
        return list(np.load(args.clones, allow_pickle=True))
    texts, _ = read_lines(args.held_out)
    lines, rng = range(len(texts) - 5, len(texts)), random.Random(4242)
    voices = [draw_mixture(rng) for _ in range(20)]
    said = spoken(args, [*lines] * 20, [voice for voice in voices for _ in lines])
    heard = hear(said, args.workers)
    out = [{"reference": said[5 * i], "others": said[5 * i + 1 : 5 * i + 5], "heard": heard[5 * i + 1 : 5 * i + 5],
            "texts": [texts[k] for k in lines]} for i in range(20)]  # fmt: skip
    np.save(args.clones, np.array(out, dtype=object), allow_pickle=True)
    return out


def judge_clones(args: argparse.Namespace, candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure clones of unseen voices: word errors, pitch, and the share whose nearest voice is the right one."""
    voices = clone_set(args)
    shapes = np.stack([timbre(one["reference"]) for one in voices])
    truth_f0 = [np.median([median_f0(track_f0(a)) for a in one["others"]]) for one in voices]
    truths = [text for one in voices for text in one["texts"][1:]]
    teacher = rate(truths, [heard for one in voices for heard in one["heard"]])
    for kind in ("x_vector", "icl"):
        asks = []
        for one in voices:
            code = candidate.codes(one["reference"]) if kind == "icl" else None
            asks += [Ask(t, reference=one["reference"], reference_text=one["texts"][0], reference_codes=code)
                     for t in one["texts"][1:]]  # fmt: skip
        made, ended = candidate.say(asks, seed=11)
        near, follow, best = [], [], []
        for i, one in enumerate(voices):
            mine = made[4 * i : 4 * i + 4]
            mean = np.mean([timbre(m) for m in mine if len(m) > 9600] or [shapes[0] * 0], 0)
            near.append(int(np.abs(shapes - mean).mean(1).argmin()) == i)
            best.append(int(np.abs(shapes - np.mean([timbre(o) for o in one["others"]], 0)).mean(1).argmin()) == i)
            follow.append(abs(np.median([median_f0(track_f0(m)) for m in mine]) / truth_f0[i] - 1) < 0.08)
        yield kind, {"teacher": teacher, "mos": opinion(made), "ours": rate(truths, hear(made, args.workers)),
                     "ended": float(np.mean(ended)), "f0_within_8": float(np.mean(follow)),
                     "nearest": float(np.mean(near)), "nearest_teacher": float(np.mean(best))}  # fmt: skip


def report_presets(args: argparse.Namespace) -> Iterator[tuple[str, dict]]:
    """Measure the page's first English descriptions for VoiceDesign, each on as many of the teachers' sentences."""
    presets = tomllib.loads((HERE.parents[1] / "presets" / "designs.toml").read_text())["design"][:5]
    lines = read_lines(args.held_out)[0][: args.sentences]
    asks = [Ask(line, instruct=preset["text"]) for preset in presets for line in lines]
    made, ended = Candidate(args, args.lm).say(asks, seed=13)
    heard = hear(made, args.workers)
    for i, preset in enumerate(presets):
        at = range(i * len(lines), (i + 1) * len(lines))
        f0 = [median_f0(track_f0(made[k])) for k in at]
        pace = [len(asks[k].text) / (len(made[k]) / 24000) for k in at]
        yield preset["name"], {"ours": rate(lines, [heard[k] for k in at]),
                               "ended": float(np.mean([ended[k] for k in at])), "f0": float(np.median(f0)),
                               "f0_low": min(f0), "f0_high": max(f0),
                               "letters_a_second": float(np.mean(pace))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    reports = {"codec": report_codec, "tts": report_tts, "presets": report_presets}
    parser.add_argument("what", choices=reports)
    parser.add_argument("--codec", type=Path, default=work / "codec.pt")
    parser.add_argument("--model", type=Path, default=work / "kokoro.onnx", help="the teacher, for what is not cached")
    parser.add_argument("--voices", type=Path, default=work / "voices_ja.npz")
    parser.add_argument("--held-out", type=Path, default=work / "held_out.npz")
    parser.add_argument("--cache", type=Path, default=work / "teacher.npy")
    parser.add_argument("--clones", type=Path, default=work / "clones.npy")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument(
        "--lm", type=Path, default=work / "lm.pt", help="a checkpoint, or the folder of an exported one"
    )
    parser.add_argument("--layout", choices=("non_streaming", "streaming"), default="non_streaming")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--temperature", type=float, default=0.6, help="of the talker; the published default is 0.9")
    parser.add_argument("--subtalker", type=float, default=0.4, help="of the code predictor")
    args = parser.parse_args()
    for name, figures in reports[args.what](args):
        print(name, json.dumps({k: round(x, 3) for k, x in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
