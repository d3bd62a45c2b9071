"""Stage 7: evaluation of an exported voice on held-out text, compared with Kokoro.

Run: python evaluate.py [--voice FOLDER] [--layout streaming] [--samples FOLDER]

The runtime's engine generates the speech of the exported voice.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.io import wavfile

from benchmarks.common.listener import speak_all
from checkpoints import load_codec, new_voice, read_voice
from config import CONFIG, WORK
from phonemes import read_lines
from recognise import Heard, judge, scores
from runtime.engine.engine import Engine
from runtime.request import Broken, Layout, Mode, Reference, SpeechRequest
from runtime.settings import Settings
from speak import SPEAKERS, Mixture, Teacher, finish

CLONE_LINES = 7  # Number of lines of each cloned voice. The first line is the reference.
GENDERS, PITCHES = ("woman", "man"), ("low", "medium", "high")
PACES = {"slow": "slowly", "normal": "at a normal pace", "fast": "quickly"}
FORMS = ("A {} with a {} voice, speaking {}.", "Speak {2} in a {1} {0} voice.")  # Gender, pitch and pace.
Report = Iterator[tuple[str, dict[str, float]]]


def spoken(styles: str, lines: list[int], voices: list[Mixture]) -> list[np.ndarray]:
    """Return the teacher's audio of held-out lines.

    Args:
        styles: Name of the file with Kokoro's styles, in the folder work.
        lines: Indices of held-out lines.
        voices: Voice of each line.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher, (_, ids), out = Teacher(WORK / "kokoro.onnx", WORK / styles, device), read_lines(WORK / "held_out.npz"), []
    for at in range(0, len(lines), 64):
        part = voices[at : at + 64]
        said = teacher.synthesize([ids[i] for i in lines[at : at + 64]], part)
        out += [finish(one, v.formant)[0].astype(np.float32) / 32768 for one, v in zip(said, part, strict=True)]
    return out


def by_speaker(name: str, truths: list[str], heard: list[Heard]) -> Report:
    """Yield the scores of all utterances, and then the scores of each speaker.

    The utterances must be in the cyclic order of `SPEAKERS`.
    """
    yield name, scores(truths, heard)
    for i, speaker in enumerate(SPEAKERS):
        at = slice(i, None, len(SPEAKERS))
        f0 = float(np.median([one.f0 for one in heard[at]]))
        yield f"{name} {speaker}", scores(truths[at], heard[at]) | {"f0": f0}


class Evaluation:
    """Evaluation of an exported voice with speech that the runtime's engine generates."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        settings = {"MODEL": args.voice, "MAX_SLOTS": 64 if torch.cuda.is_available() else 8, "MAX_WAITING": 100_000,
                    "QUEUE_S": 36_000, "LEAD_CAP_S": 3600}  # fmt: skip
        named = {f"VOICEWRIGHT_{name}": str(value) for name, value in settings.items()}
        self.engine = Engine.open(Settings.from_env({**os.environ, **named}))
        self.engine.start()
        self.texts, _ = read_lines(WORK / "held_out.npz")

    def speak(self, names: list[str], requests: list[SpeechRequest], seed: int) -> list[np.ndarray]:
        """Return the generated waveforms of the requests as float32 at 24 kHz.

        With `--samples`, the first waveform of each name is also written to a WAV file.
        """
        layout = Layout(self.args.layout)
        asks = [replace(r, language="english", layout=layout, seed=seed + 1000 * i) for i, r in enumerate(requests)]
        listeners, _ = speak_all(self.engine, asks)
        if broken := [one.end for one in listeners if isinstance(one.end, Broken)]:
            raise RuntimeError(f"{len(broken)} of {len(asks)} requests failed: {broken[0]}")
        audio = [one.result.samples if len(one.result.samples) else np.zeros(1920, np.int16) for one in listeners]
        for name, samples in dict(zip(reversed(names), reversed(audio), strict=True)).items():
            if self.args.samples:
                self.args.samples.mkdir(parents=True, exist_ok=True)
                wavfile.write(self.args.samples / f"{name}.wav", 24000, samples)
        return [samples.astype(np.float32) / 32768 for samples in audio]

    def speakers(self) -> Report:
        """Measure the named speakers, the teacher, and the teacher's speech decoded from codes."""
        count, workers = self.args.sentences, self.args.workers
        asks = [(i, voice) for i in range(count) for voice in SPEAKERS.values()]
        said, truths = spoken("voices.npz", *map(list, zip(*asks, strict=True))), [self.texts[i] for i, _ in asks]
        yield from by_speaker("teacher", truths, judge(said, workers))
        names = [voice.speaker for _, voice in asks]
        requests = [SpeechRequest(text=t, mode=Mode.CUSTOM_VOICE, voice=n) for t, n in zip(truths, names, strict=True)]
        yield from by_speaker("speaker", truths, judge(self.speak(names, requests, seed=0), workers))
        if self.args.layout is Layout.NON_STREAMING:
            codec = load_codec(self.args.voice, torch.device("cpu"))
            with torch.no_grad():
                decoded = [codec.decode(codec.encode(torch.from_numpy(a)[None]))[0].clamp(-1, 1).numpy() for a in said]
            yield from by_speaker("codec", truths, judge(decoded, workers))

    def long_text(self) -> Report:
        """Measure the speech of a text of up to 1,000 characters by every speaker."""
        text = ""
        for sentence in self.texts[: self.args.sentences]:
            if len(text) + 1 + len(sentence) <= 1000:
                text = f"{text} {sentence}".strip()
        requests = [SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, voice=name) for name in SPEAKERS]
        heard = judge(self.speak([f"long_{name}" for name in SPEAKERS], requests, seed=5), self.args.workers)
        yield "long", {"characters": len(text), **scores([text] * len(heard), heard)}

    def designs(self) -> Report:
        """Measure speech, F0 and pace of voices from descriptions of gender, pitch and pace."""
        lines = self.texts[: min(20, self.args.sentences)]
        cells = [(g, p, s) for g in GENDERS for p in PITCHES for s in PACES for _ in lines]
        requests = [
            SpeechRequest(text=lines[i % len(lines)], mode=Mode.VOICE_DESIGN,
                          instruct=FORMS[i % len(lines) % 2].format(g, p, PACES[s]))
            for i, (g, p, s) in enumerate(cells)
        ]  # fmt: skip
        made = self.speak(["_".join(cell) for cell in cells], requests, seed=7)
        heard, truths = np.array(judge(made, self.args.workers)), np.array([r.text for r in requests])
        yield "design", scores(truths, heard)
        speed = np.array([len(text) / (len(audio) / 24000) for text, audio in zip(truths, made, strict=True)])
        for pace in PACES:
            at = [i for i, cell in enumerate(cells) if cell[2] == pace]
            yield f"design {pace}", scores(truths[at], heard[at]) | {"letters_per_second": float(speed[at].mean())}
        f0 = np.reshape([one.f0 for one in heard], (len(GENDERS), len(PITCHES), -1))
        for gender, medians in zip(GENDERS, np.median(f0, axis=2), strict=True):
            yield f"design {gender} f0", dict(zip(PITCHES, medians.tolist(), strict=True))

    def clones(self) -> Report:
        """Measure the word errors, pitch and voice identification of clones of unseen voices.

        A clone is identified if the x-vector of its own reference is nearest to the mean of its x-vectors.
        """
        lines, names = self.texts[:CLONE_LINES], CONFIG["clones"]["styles"]
        voices = [Mixture("", {name: 1.0}) for name in names for _ in lines]
        said = spoken("unseen.npz", [*range(CLONE_LINES)] * len(names), voices)
        tensors, vocabulary = read_voice(self.args.voice)
        voice = new_voice(vocabulary)
        voice.load_state_dict(tensors)

        @torch.no_grad()
        def x_vectors(audios: list[np.ndarray]) -> np.ndarray:
            return np.stack([voice.x_vectors(torch.from_numpy(a)[None])[0].numpy() for a in audios])

        references = x_vectors(said[::CLONE_LINES])
        centre = references.mean(0)
        directions = (references - centre) / np.linalg.norm(references - centre, axis=1, keepdims=True)
        others = [i for i in range(len(said)) if i % CLONE_LINES]
        truths, truth_f0 = lines[1:] * len(names), None
        for kind in ("teacher", "x_vector", "icl"):
            requests = [
                SpeechRequest(text=lines[i % CLONE_LINES], mode=Mode.BASE, reference=Reference(
                    samples=said[i - i % CLONE_LINES], text=lines[0], x_vector_only=kind == "x_vector"))
                for i in others
            ]  # fmt: skip
            made = [said[i] for i in others]
            if kind != "teacher":
                made = self.speak([f"clone_{kind}"] * len(others), requests, seed=11)
            heard = judge(made, self.args.workers)
            f0 = np.median(np.reshape([one.f0 for one in heard], (len(names), -1)), axis=1)
            truth_f0 = f0 if truth_f0 is None else truth_f0
            vectors = x_vectors(made).reshape(len(names), CLONE_LINES - 1, -1).mean(1) - centre
            nearest = (vectors @ directions.T).argmax(1) == np.arange(len(names))
            yield f"clone {kind}", scores(truths, heard) | {
                "nearest": float(nearest.mean()), "f0_within_8": float(np.mean(np.abs(f0 / truth_f0 - 1) < 0.08)),
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voice", type=Path, default=WORK / "demo-voice", help="folder of an exported voice")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--layout", type=Layout, choices=list(Layout), default=Layout.NON_STREAMING)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=Path, help="folder for one WAV file of each speaker, design and clone")
    args = parser.parse_args()
    evaluation = Evaluation(args)
    reports = [evaluation.speakers, evaluation.long_text]
    if args.layout is Layout.NON_STREAMING:
        reports += [evaluation.designs, evaluation.clones]
    for report in reports:
        for name, figures in report():
            print(name, json.dumps({k: round(x, 3) for k, x in figures.items()}), flush=True)
    evaluation.engine.close()


if __name__ == "__main__":
    main()
