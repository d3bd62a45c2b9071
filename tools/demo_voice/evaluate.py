"""Stage 7: measure against the teacher on held-out text. Every figure is written beside the teacher's own.

Run: python evaluate.py codec --codec work/codec.pt --sentences 100
     python evaluate.py tts (all modes)      python evaluate.py presets (the page's first descriptions)
"""

from __future__ import annotations

import argparse
import json
import random
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from config import CONFIG, HERE
from generate import Ask, Sampling, generate
from lm_model import MelFront
from lm_model import Voice as Speaker
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


def report_codec(args: argparse.Namespace) -> dict:
    """Compare the codec's resynthesis with the teacher: WER, F0, mel distance."""
    rows = teacher_set(args.debs, args.sentences, args.cache)
    codec, distance = load(args.codec, torch.device("cuda" if torch.cuda.is_available() else "cpu")), SpectralLoss()
    made = [resynthesise(codec, r["audio"]) for r in rows]
    truths = [r["text"] for r in rows]
    teacher, ours = teacher_heard(rows, args.cache, args.workers), hear(made, args.workers)
    gap, error = apart(truths, teacher, ours)
    table = {"all": {"teacher": rate(truths, teacher), "codec": rate(truths, ours), "gap": gap, "error": error,
                     "n": len(rows)}}  # fmt: skip
    for name in named_voices():
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        f0 = [median_f0(track_f0(made[i])) / rows[i]["f0"] for i in at]
        mel = [
            float(distance(torch.from_numpy(made[i])[None], torch.from_numpy(rows[i]["audio"])[None])[1]) for i in at
        ]
        table[name] = {"teacher": rate([truths[i] for i in at], [teacher[i] for i in at]),
                       "codec": rate([truths[i] for i in at], [ours[i] for i in at]),
                       "f0_ratio": float(np.median(f0)), "mel": float(np.mean(mel))}  # fmt: skip
    return table


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


def say_all(
    voice: Speaker, codec: torch.nn.Module, asks: list[Ask], sampling: Sampling, size: int = 60
) -> tuple[list, list, list]:
    """Return (waveforms, stopped by themselves, codes)."""
    device, audio, ended, codes = next(voice.parameters()).device, [], [], []
    size = 480 if device.type == "cuda" else size  # a card makes hundreds in the time of one
    for at in range(0, len(asks), size):
        for code, done in generate(voice, asks[at : at + size], replace(sampling, seed=sampling.seed + at)):
            with torch.no_grad():
                wave = codec.decode(torch.from_numpy(code).to(device)[None])[0] if len(code) else torch.zeros(1920)
            audio.append(wave.clamp(-1, 1).cpu().numpy())
            ended.append(done)
            codes.append(code)
    return audio, ended, codes


def report_tts(args: argparse.Namespace) -> dict:
    """Measure the three modes end to end, by default with the sampling that is shipped."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = teacher_set(args.debs, args.sentences, args.cache)
    codec = load(args.codec, device)
    voice = Speaker(CONFIG["lm"], CONFIG["codec"]["codebooks"]).to(device).eval()
    voice.load_state_dict(torch.load(args.lm, map_location=device, weights_only=True)["voice"])
    sampling = Sampling(args.temperature, args.subtalker)
    table: dict = {}
    made, ended, _ = say_all(voice, codec, [Ask(r["text"], r["speaker"]) for r in rows], sampling)
    truths = [r["text"] for r in rows]
    teacher, ours = teacher_heard(rows, args.cache, args.workers), hear(made, args.workers)
    long = [len(m) / len(r["audio"]) for m, r in zip(made, rows, strict=True)]
    gap, error = apart(truths, teacher, ours)
    table["custom_voice"] = {"teacher": rate(truths, teacher), "tts": rate(truths, ours), "gap": gap, "error": error,
                             "n": len(rows),
                             "ended": float(np.mean(ended)),
                             "within_1.3": float(np.mean(np.array(long) < 1.3)),
                             "length": float(np.mean(long))}  # fmt: skip
    for name in named_voices():
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        table[name] = {"teacher": rate([truths[i] for i in at], [teacher[i] for i in at]),
                       "tts": rate([truths[i] for i in at], [ours[i] for i in at]),
                       "f0_ratio": float(np.median([median_f0(track_f0(made[i])) for i in at])
                                         / np.median([rows[i]["f0"] for i in at]))}  # fmt: skip
    lines = list(dict.fromkeys(truths))[:20]
    forms = ("A {g} with a {p} voice, speaking {s}.", "Speak {s} in a {p} {g} voice.")
    pace = {"slow": "slowly", "normal": "at a normal pace", "fast": "quickly"}
    cells = [(g, p, s) for g in ("woman", "man") for p in ("low", "medium", "high") for s in pace]
    asks = [Ask(t, instruct=forms[i % 2].format(g=g, p=p, s=pace[s])) for g, p, s in cells for i, t in enumerate(lines)]
    made, ended, _ = say_all(voice, codec, asks, replace(sampling, seed=7))
    table["voice_design"] = {
        "ended": float(np.mean(ended)),
        "tts": rate([a.text for a in asks[::9]], hear(made[::9], args.workers)),
    }
    f0 = np.array([median_f0(track_f0(m)) for m in made]).reshape(2, 3, 3, len(lines))
    span = np.array([len(a.text) / (len(m) / 24000) for a, m in zip(asks, made, strict=True)]).reshape(
        2, 3, 3, len(lines)
    )
    table["design_f0"] = {
        f"{g}_{p}": float(np.median(f0[i, j]))
        for i, g in enumerate(("woman", "man"))
        for j, p in enumerate(("low", "medium", "high"))
    }
    table["design_pace"] = {s: float(np.mean(span[:, :, k])) for k, s in enumerate(pace)}
    table["design_order"] = {"pitch": float(np.mean((f0[:, 0] < f0[:, 1]) & (f0[:, 1] < f0[:, 2]))),
                             "speed": float(np.mean((span[:, :, 0] < span[:, :, 1]) & (span[:, :, 1] < span[:, :, 2]))),
                             "gender": float(np.mean(f0[0, 1] > f0[1, 1]))}  # fmt: skip
    studio, voices = Studio(args.debs), clone_voices()
    references = [
        studio.record("The old man walked slowly down to the river and sat on a stone.", v, v.stretch)[0]
        for v in voices
    ]
    others = [[studio.record(t, v, v.stretch)[0] for t in lines[:4]] for v in voices]
    shapes = np.stack([timbre(r) for r in references])
    truth_f0 = [np.median([median_f0(track_f0(a)) for a in o]) for o in others]
    spoken = "The old man walked slowly down to the river and sat on a stone."
    for kind in ("x_vector", "icl"):
        asks = []
        for reference in references:
            code = codec.encode(torch.from_numpy(reference)[None].to(device))[0].cpu().numpy()
            asks += [Ask(t, reference=reference, reference_text=spoken if kind == "icl" else "",
                         reference_codes=code if kind == "icl" else None) for t in lines[:4]]  # fmt: skip
        made, ended, _ = say_all(voice, codec, asks, replace(sampling, seed=11))
        heard = hear(made, args.workers)
        near, follow, best = [], [], []
        for i in range(len(voices)):
            mine = made[4 * i : 4 * i + 4]
            mean = np.mean([timbre(m) for m in mine if len(m) > 9600] or [shapes[0] * 0], 0)
            near.append(int(np.abs(shapes - mean).mean(1).argmin()) == i)
            best.append(int(np.abs(shapes - np.mean([timbre(o) for o in others[i]], 0)).mean(1).argmin()) == i)
            follow.append(abs(np.median([median_f0(track_f0(m)) for m in mine]) / truth_f0[i] - 1) < 0.08)
        table[kind] = {"ended": float(np.mean(ended)), "tts": rate([a.text for a in asks], heard),
                       "f0_within_8": float(np.mean(follow)), "nearest": float(np.mean(near)),
                       "nearest_teacher": float(np.mean(best)),
                       "teacher": rate([t for _ in voices for t in lines[:4]],
                                       hear([a for o in others for a in o], args.workers))}  # fmt: skip
    return table


def report_presets(args: argparse.Namespace) -> dict:
    """Measure the page's first English descriptions for VoiceDesign, each on as many of the teachers' sentences."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    voice = Speaker(CONFIG["lm"], CONFIG["codec"]["codebooks"]).to(device).eval()
    voice.load_state_dict(torch.load(args.lm, map_location=device, weights_only=True)["voice"])
    presets = tomllib.loads((HERE.parents[1] / "presets" / "designs.toml").read_text())["design"][:5]
    lines = list(dict.fromkeys(r["text"] for r in teacher_set(args.debs, args.sentences, args.cache)))[: args.sentences]
    asks = [Ask(line, instruct=preset["text"]) for preset in presets for line in lines]
    sampling = Sampling(args.temperature, args.subtalker, seed=13)
    made, ended, _ = say_all(voice, load(args.codec, device), asks, sampling)
    heard, table = hear(made, args.workers), {}
    for i, preset in enumerate(presets):
        at = range(i * len(lines), (i + 1) * len(lines))
        f0 = [median_f0(track_f0(made[k])) for k in at]
        pace = [len(asks[k].text) / (len(made[k]) / 24000) for k in at]
        table[preset["name"]] = {"tts": rate(lines, [heard[k] for k in at]),
                                 "ended": float(np.mean([ended[k] for k in at])), "f0": float(np.median(f0)),
                                 "f0_low": min(f0), "f0_high": max(f0),
                                 "letters_a_second": float(np.mean(pace))}  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("codec", "tts", "presets"))
    parser.add_argument("--codec", type=Path, default=HERE / CONFIG["paths"]["work"] / "codec.pt")
    parser.add_argument("--debs", type=Path, default=HERE / CONFIG["paths"]["debs"])
    parser.add_argument("--cache", type=Path, default=HERE / CONFIG["paths"]["work"] / "teacher.npy")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--lm", type=Path, default=HERE / CONFIG["paths"]["work"] / "lm.pt")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--temperature", type=float, default=0.6, help="of the talker; the published default is 0.9")
    parser.add_argument("--subtalker", type=float, default=0.6, help="of the code predictor")
    args = parser.parse_args()
    reports = {"codec": report_codec, "tts": report_tts, "presets": report_presets}
    for name, figures in reports[args.what](args).items():
        print(name, json.dumps({k: round(x, 3) for k, x in figures.items()}))


if __name__ == "__main__":
    main()
