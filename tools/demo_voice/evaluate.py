"""Stage 7: evaluate the voice on held-out text, compared with the teacher.

Run: python evaluate.py codec [--codec work/codec.pt]
     python evaluate.py tts [--layout streaming] [--samples FOLDER]    (all modes, by the runtime's engine)
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.io import wavfile

import config
from benchmarks.common.listener import speak_all
from checkpoints import load_codec, new_voice, read_voice
from export import export
from losses import SpectralLoss
from phonemes import read_lines
from pitch import track_f0
from recognise import apart, hear, opinion, rate
from runtime.engine.engine import Engine
from runtime.model.config import SpeakerEncoderConfig
from runtime.model.speaker_encoder import MelFilter, log_mel
from runtime.request import Broken, Finished, Layout, Mode, Reference, SpeechRequest, StopReason
from runtime.settings import Settings
from speak import SPEAKERS, Mixture, Teacher, finish, median_f0

WORK = config.HERE / config.CONFIG["paths"]["work"]
LANGUAGE = "english"
CLONE_LINES = 7  # Number of lines of each cloned voice. The first line is the reference.


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def spoken(args: argparse.Namespace, styles: Path, lines: list[int], voices: list[Mixture]) -> list[np.ndarray]:
    """Return the teacher's audio of held-out lines.

    `lines` has indices of held-out lines, and `voices` has the voice of each line.
    """
    teacher, (_, ids), out = Teacher(args.model, styles, device()), read_lines(args.held_out), []
    for at in range(0, len(lines), 64):
        part = voices[at : at + 64]
        said = teacher.synthesize([ids[i] for i in lines[at : at + 64]], part)
        out += [finish(one, v.formant)[0].astype(np.float32) / 32768 for one, v in zip(said, part, strict=True)]
    return out


def cached(name: str, make: Callable[[], list[dict]]) -> list[dict]:
    """Return the result of `make`, which is stored in a file for later evaluations."""
    path = WORK / f"{name}.npy"
    if not path.exists():
        np.save(path, np.array(make(), dtype=object), allow_pickle=True)
    return list(np.load(path, allow_pickle=True))


def teacher_rows(args: argparse.Namespace) -> list[dict]:
    """Return the teacher's audio and its transcripts for the first held-out sentences."""
    return cached("teacher", lambda: teacher_set(args))[: args.sentences * len(SPEAKERS)]


def teacher_set(args: argparse.Namespace) -> list[dict]:
    """Generate and transcribe the teacher's audio for the first held-out sentences."""
    texts, _ = read_lines(args.held_out)
    asks = [(i, voice) for i in range(args.sentences) for voice in SPEAKERS.values()]
    said = spoken(args, args.voices, [i for i, _ in asks], [voice for _, voice in asks])
    heard = hear(said, args.workers)
    return [{"text": texts[i], "speaker": voice.speaker, "audio": audio, "heard": words,
             "f0": median_f0(track_f0(audio))}
            for (i, voice), audio, words in zip(asks, said, heard, strict=True)]  # fmt: skip


@torch.no_grad()
def resynthesise(codec: torch.nn.Module, audio: np.ndarray) -> np.ndarray:
    return codec.decode(codec.encode(torch.from_numpy(audio)[None].to(device())))[0].clamp(-1, 1).cpu().numpy()


def report_codec(args: argparse.Namespace) -> Iterator[tuple[str, dict]]:
    """Compare audio decoded from codes with the teacher: word errors, DNSMOS, F0 and mel."""
    rows = teacher_rows(args)
    codec, distance = load_codec(args.codec, device()), SpectralLoss()
    made = [resynthesise(codec, r["audio"]) for r in rows]
    heard = hear(made, args.workers)
    yield "all", compared(rows, made, heard, args.workers)
    for name in SPEAKERS:
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        mel = [
            float(distance(torch.from_numpy(made[i])[None], torch.from_numpy(rows[i]["audio"])[None])[1]) for i in at
        ]
        yield name, one_speaker(rows, made, heard, at, args.workers) | {"mel": float(np.mean(mel))}


def compared(rows: list[dict], made: list[np.ndarray], heard: list[str], workers: int) -> dict[str, float]:
    """Return the word error rates and DNSMOS scores of generated audio and of the teacher."""
    truths, teacher = [r["text"] for r in rows], [r["heard"] for r in rows]
    gap, error = apart(truths, teacher, heard)
    return {"teacher": rate(truths, teacher), "ours": rate(truths, heard), "gap": gap, "error": error, "n": len(rows),
            "teacher_mos": opinion([r["audio"] for r in rows], workers), "mos": opinion(made, workers)}  # fmt: skip


def one_speaker(
    rows: list[dict], made: list[np.ndarray], heard: list[str], at: list[int], workers: int
) -> dict[str, float]:
    """Return scores of the rows `at`, which have one speaker, and F0 relative to the teacher."""
    figures = compared([rows[i] for i in at], [made[i] for i in at], [heard[i] for i in at], workers)
    f0 = np.median([median_f0(track_f0(made[i])) for i in at]) / np.median([rows[i]["f0"] for i in at])
    return {k: figures[k] for k in ("teacher", "ours", "teacher_mos", "mos")} | {"f0_ratio": float(f0)}


def timbre(audio: np.ndarray) -> np.ndarray:
    """Return a vector that describes the timbre of the audio, independent of the model.

    The vector has the mean and the deviation of the log-mel spectrum of loud frames.
    """
    mel = log_mel(torch.from_numpy(audio), MelFilter.of(SpeakerEncoderConfig(), torch.device("cpu"))).numpy().T
    loud = mel.mean(0) > mel.mean(0).mean()
    shape = mel[:100, loud]
    return np.concatenate((shape.mean(1) - shape.mean(), 0.5 * shape.std(1)))


class Candidate:
    """Trained voice that generates speech in one prompt layout.

    The voice is exported into a temporary folder and loaded by the runtime's engine.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.layout = Layout(args.layout)
        self.folder = tempfile.TemporaryDirectory()
        export(args.codec, args.lm, Path(self.folder.name))
        settings = {"MODEL": self.folder.name, "MAX_SLOTS": 64 if device().type == "cuda" else 8,
                    "MAX_WAITING": 100_000, "QUEUE_S": 36_000, "LEAD_CAP_S": 3600}  # fmt: skip
        named = {f"VOICEWRIGHT_{name}": str(value) for name, value in settings.items()}
        self.engine = Engine.open(Settings.from_env({**os.environ, **named}))
        self.engine.start()
        atexit.register(self.engine.close)
        tensors, vocabulary = read_voice(Path(self.folder.name))
        self.voice = new_voice(vocabulary)
        self.voice.load_state_dict(tensors)
        self.voice.speaker_encoder.prepare()

    @torch.no_grad()
    def x_vector(self, audio: np.ndarray) -> np.ndarray:
        """Return the x-vector [hidden] of 24 kHz audio."""
        return self.voice.x_vectors(torch.from_numpy(audio)[None])[0].numpy()

    def synthesize(self, requests: list[SpeechRequest], seed: int) -> tuple[list[np.ndarray], list[bool]]:
        """Return the waveform of each request, and whether it ended with EOS."""
        drawn = [replace(r, layout=self.layout, seed=seed + 1000 * i) for i, r in enumerate(requests)]
        listeners, _ = speak_all(self.engine, drawn)
        if broken := [one.end for one in listeners if isinstance(one.end, Broken)]:
            raise RuntimeError(f"{len(broken)} of {len(drawn)} requests failed: {broken[0]}")
        audio = [one.said.samples.astype(np.float32) / 32768 for one in listeners]
        ended = [isinstance(one.end, Finished) and one.end.stop_reason is StopReason.EOS for one in listeners]
        return [a if len(a) else np.zeros(1920, np.float32) for a in audio], ended


def report_tts(args: argparse.Namespace) -> Iterator[tuple[str, dict]]:
    """Measure the speech of all three modes with the exported sampling settings."""
    rows, candidate = teacher_rows(args), Candidate(args)
    yield from judge_speakers(args, rows, candidate)
    yield from judge_long(args, rows, candidate)
    if candidate.layout is Layout.STREAMING:
        return
    lines = list(dict.fromkeys(r["text"] for r in rows))[:20]
    yield from judge_designs(args, lines, candidate)
    yield from judge_clones(args, candidate)


def keep_sample(args: argparse.Namespace, name: str, audio: np.ndarray) -> None:
    """Write a WAV file if `--samples` names a folder."""
    if args.samples:
        args.samples.mkdir(parents=True, exist_ok=True)
        wavfile.write(args.samples / f"{name}.wav", 24000, (audio * 32767).astype(np.int16))


def judge_speakers(args: argparse.Namespace, rows: list[dict], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Compare the named speakers with the teacher's voices on the same sentences."""
    asks = [SpeechRequest(text=r["text"], mode=Mode.CUSTOM_VOICE, voice=r["speaker"], language=LANGUAGE) for r in rows]
    made, ended = candidate.synthesize(asks, seed=0)
    heard = hear(made, args.workers)
    long = np.array([len(m) / len(r["audio"]) for m, r in zip(made, rows, strict=True)])
    yield "custom_voice", compared(rows, made, heard, args.workers) | {
        "ended": float(np.mean(ended)), "within_1.3": float(np.mean(long < 1.3)), "length": float(np.mean(long)),
    }  # fmt: skip
    for name in SPEAKERS:
        at = [i for i, r in enumerate(rows) if r["speaker"] == name]
        keep_sample(args, name, made[at[0]])
        yield name, one_speaker(rows, made, heard, at, args.workers)


def judge_long(args: argparse.Namespace, rows: list[dict], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure the word error rate of a text of 1,000 characters, spoken by every speaker."""
    text = ""
    for sentence in dict.fromkeys(r["text"] for r in rows):
        if len(text) + 1 + len(sentence) <= 1000:
            text = f"{text} {sentence}".strip()
    asks = [SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, voice=name, language=LANGUAGE) for name in SPEAKERS]
    made, ended = candidate.synthesize(asks, seed=5)
    yield "long", {"characters": len(text), "ended": float(np.mean(ended)),
                   "ours": rate([text] * len(made), hear(made, args.workers))}  # fmt: skip


def judge_designs(args: argparse.Namespace, lines: list[str], candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure whether designed voices follow descriptions of gender, pitch and pace.

    The word error rate and DNSMOS are also measured.
    """
    forms = ("A {g} with a {p} voice, speaking {s}.", "Speak {s} in a {p} {g} voice.")
    pace = {"slow": "slowly", "normal": "at a normal pace", "fast": "quickly"}
    cells = [(g, p, s) for g in ("woman", "man") for p in ("low", "medium", "high") for s in pace]
    asks = [SpeechRequest(text=t, mode=Mode.VOICE_DESIGN, instruct=forms[i % 2].format(g=g, p=p, s=pace[s]),
                          language=LANGUAGE)
            for g, p, s in cells for i, t in enumerate(lines)]  # fmt: skip
    made, ended = candidate.synthesize(asks, seed=7)
    for cell, audio in zip(cells, made[:: len(lines)], strict=True):
        keep_sample(args, "_".join(cell), audio)
    heard = hear(made, args.workers)
    yield "voice_design", {"ended": float(np.mean(ended)), "mos": opinion(made, args.workers),
                           "ours": rate([a.text for a in asks], heard)}  # fmt: skip
    for p in pace:
        at = [i for i in range(len(asks)) if cells[i // len(lines)][2] == p]
        yield f"design_{p}", {"ours": rate([asks[i].text for i in at], [heard[i] for i in at])}
    f0 = np.array([median_f0(track_f0(m)) for m in made]).reshape(2, 3, 3, len(lines))
    span = np.array([len(a.text) / (len(m) / 24000) for a, m in zip(asks, made, strict=True)]).reshape(f0.shape)
    yield "design_f0", {f"{g}_{p}": float(np.median(f0[i, j]))
                        for i, g in enumerate(("woman", "man"))
                        for j, p in enumerate(("low", "medium", "high"))}  # fmt: skip
    yield "design_pace", {s: float(np.mean(span[:, :, k])) for k, s in enumerate(pace)}
    yield "design_order", {"pitch": float(np.mean((f0[:, 0] < f0[:, 1]) & (f0[:, 1] < f0[:, 2]))),
                           "speed": float(np.mean((span[:, :, 0] < span[:, :, 1]) & (span[:, :, 1] < span[:, :, 2]))),
                           "gender": float(np.mean(f0[0, 1] > f0[1, 1]))}  # fmt: skip


def clone_set(args: argparse.Namespace) -> list[dict]:
    """Return the audio and transcripts of 20 unseen voices: one reference and other lines."""
    texts, _ = read_lines(args.held_out)
    lines = range(CLONE_LINES)
    voices = [Mixture("", {name: 1.0}) for name in config.CONFIG["clones"]["styles"] for _ in lines]
    said = spoken(args, args.unseen, [*lines] * 20, voices)
    heard = hear(said, args.workers)
    groups = [slice(i, i + CLONE_LINES) for i in range(0, len(said), CLONE_LINES)]
    return [{"reference": said[at][0], "others": said[at][1:], "heard": heard[at][1:], "texts": texts[:CLONE_LINES]}
            for at in groups]  # fmt: skip


def judge_clones(args: argparse.Namespace, candidate: Candidate) -> Iterator[tuple[str, dict]]:
    """Measure clones of unseen voices: word errors, pitch, and speaker identification.

    A clone is identified if its own reference is more similar to it than all other references.
    """
    voices = cached("clones", lambda: clone_set(args))
    count = CLONE_LINES - 1
    shapes = np.stack([timbre(one["reference"]) for one in voices])
    references = np.stack([candidate.x_vector(one["reference"]) for one in voices])
    centre = references.mean(0)
    truth_f0 = [np.median([median_f0(track_f0(a)) for a in one["others"]]) for one in voices]
    truths = [text for one in voices for text in one["texts"][1:]]
    teacher = rate(truths, [heard for one in voices for heard in one["heard"]])
    own = np.arange(len(voices))

    def nearest(groups: list[list[np.ndarray]]) -> dict[str, float]:
        """Return the fractions of voices that are identified by timbre and by x-vector."""
        timbres = np.stack([np.mean([timbre(m) for m in group], 0) for group in groups])
        vectors = np.stack([np.mean([candidate.x_vector(m) for m in group], 0) for group in groups]) - centre
        closeness = vectors @ ((references - centre) / np.linalg.norm(references - centre, axis=1)[:, None]).T
        return {"nearest": float(np.mean(np.abs(shapes - timbres[:, None]).mean(2).argmin(1) == own)),
                "nearest_x_vector": float(np.mean(closeness.argmax(1) == own))}  # fmt: skip

    yield "clone_teacher", {"ours": teacher, **nearest([one["others"] for one in voices])}
    for kind in ("x_vector", "icl"):
        asks = [
            SpeechRequest(text=text, mode=Mode.BASE, language=LANGUAGE, reference=Reference(
                samples=one["reference"], text=one["texts"][0], x_vector_only=kind == "x_vector"))
            for one in voices for text in one["texts"][1:]
        ]  # fmt: skip
        made, ended = candidate.synthesize(asks, seed=11)
        keep_sample(args, f"clone_{kind}", made[0])
        groups = [made[count * i : count * (i + 1)] for i in own]
        f0 = [np.median([median_f0(track_f0(m)) for m in group]) for group in groups]
        yield kind, {"mos": opinion(made, args.workers), "ours": rate(truths, hear(made, args.workers)),
                     "ended": float(np.mean(ended)), **nearest(groups),
                     "f0_within_8": float(np.mean(np.abs(np.divide(f0, truth_f0) - 1) < 0.08))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    reports = {"codec": report_codec, "tts": report_tts}
    parser.add_argument("what", choices=reports)
    parser.add_argument("--codec", type=Path, default=WORK / "codec.pt")
    parser.add_argument("--model", type=Path, default=WORK / "kokoro.onnx", help="the teacher, for what is not cached")
    parser.add_argument("--voices", type=Path, default=WORK / "voices.npz")
    parser.add_argument("--unseen", type=Path, default=WORK / "unseen.npz", help="styles of the cloned voices")
    parser.add_argument("--held-out", type=Path, default=WORK / "held_out.npz")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--lm", type=Path, default=WORK / "lm.pt", help="a checkpoint, or the folder of an export")
    parser.add_argument("--layout", choices=list(Layout), default=Layout.NON_STREAMING)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=Path, help="a folder for one WAV file of each speaker, design and clone")
    args = parser.parse_args()
    for name, figures in reports[args.what](args):
        print(name, json.dumps({k: round(x, 3) for k, x in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
