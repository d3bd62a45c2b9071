"""Stage 7 of the voice training: evaluation on held-out text, compared with Kokoro.

Run: python evaluate.py [--voice FOLDER] [--layout streaming]

The runtime's engine generates the speech of the exported voice.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.listener import speak_all
from codec_model import Codec
from config import CONFIG, WORK
from phonemes import read_lines
from recognise import Heard, judge, scores
from runtime.engine.engine import Engine
from runtime.model.checkpoints.checkpoint import load_checkpoint
from runtime.request import Broken, Layout, Mode, Reference, SpeechRequest
from runtime.settings import Settings
from speak import SPEAKERS, Mixture, Teacher, finish

CLONE_LINES = 7  # Number of lines of each cloned voice. The first line is the reference.
GENDERS, PITCHES = ("woman", "man"), ("low", "medium", "high")
PACES = {"slow": "slowly", "normal": "at a normal pace", "fast": "quickly"}
# Templates of instructions with the gender, the pitch and the pace of a voice.
FORMS = ("A {} with a {} voice, speaking {}.", "Speak {2} in a {1} {0} voice.")
Report = Iterator[tuple[str, dict[str, float]]]


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

    def __init__(self, voice: Path, sentences: int, layout: Layout, workers: int) -> None:
        self.voice, self.layout, self.hear = voice, layout, partial(judge, workers=workers)
        self.is_cuda = torch.cuda.is_available()
        settings = {"MODEL": voice, "MAX_SLOTS": 64 if self.is_cuda else 8, "MAX_WAITING": 100_000, "QUEUE_S": 36_000,
                    "LEAD_CAP_S": 3600}  # fmt: skip
        environment = {f"VOICEWRIGHT_{name}": str(value) for name, value in settings.items()}
        self.engine = Engine.open(Settings.from_env(os.environ | environment))
        self.engine.start()
        self.texts, self.ids = read_lines(WORK / "held_out.npz")
        self.sentences = self.texts[:sentences]

    def teach(self, styles: str, asks: list[tuple[int, Mixture]]) -> list[np.ndarray]:
        """Return the teacher's audio of held-out lines.

        `styles` names the file with Kokoro's styles, and `asks` has the index and the voice of each line.
        """
        teacher = Teacher(WORK / "kokoro.onnx", WORK / styles, torch.device("cuda" if self.is_cuda else "cpu"))
        audio = []
        for at in range(0, len(asks), 64):
            lines, voices = zip(*asks[at : at + 64], strict=True)
            said = teacher.synthesize([self.ids[i] for i in lines], voices)
            audio += [finish(one, v.formant)[0].astype(np.float32) / 32768 for one, v in zip(said, voices, strict=True)]
        return audio

    def speak(self, seed: int, requests: list[dict[str, Any]]) -> list[np.ndarray]:
        """Return the generated waveforms of the requests as float32 at 24 kHz.

        `requests` has the other fields of each request.
        """
        listeners, _ = speak_all(self.engine, [
            SpeechRequest(**request, language="english", layout=self.layout, seed=seed + 1000 * i)
            for i, request in enumerate(requests)
        ])  # fmt: skip
        if broken := [one.end for one in listeners if isinstance(one.end, Broken)]:
            raise RuntimeError(f"{len(broken)} of {len(requests)} requests failed: {broken[0]}")
        audio = [one.result.samples if len(one.result.samples) else np.zeros(1920, np.int16) for one in listeners]
        return [samples.astype(np.float32) / 32768 for samples in audio]

    def speakers(self) -> Report:
        """Measure the named speakers, the teacher, and the teacher's speech decoded from codes."""
        asks = [(i, voice) for i in range(len(self.sentences)) for voice in SPEAKERS.values()]
        said, truths = self.teach("voices.npz", asks), [self.texts[i] for i, _ in asks]
        yield from by_speaker("teacher", truths, self.hear(said))
        named = [{"text": self.texts[i], "mode": Mode.CUSTOM_VOICE, "voice": voice.speaker} for i, voice in asks]
        yield from by_speaker("speaker", truths, self.hear(self.speak(0, named)))
        if self.layout is Layout.NON_STREAMING:
            codec = Codec.load(self.voice, torch.device("cpu"))
            with torch.no_grad():
                decoded = [codec.decode(codec.encode(torch.from_numpy(a)[None]))[0].clamp(-1, 1).numpy() for a in said]
            yield from by_speaker("codec", truths, self.hear(decoded))

    def long_text(self) -> Report:
        """Measure the speech of a text of up to 1,000 characters by every speaker."""
        text = ""
        for sentence in self.sentences:
            if len(text) + 1 + len(sentence) <= 1000:
                text = f"{text} {sentence}".strip()
        heard = self.hear(self.speak(5, [{"text": text, "mode": Mode.CUSTOM_VOICE, "voice": v} for v in SPEAKERS]))
        yield "long", {"characters": len(text), **scores([text] * len(heard), heard)}

    def designs(self) -> Report:
        """Measure speech, F0 and pace of voices from descriptions of gender, pitch and pace."""
        lines = list(enumerate(self.sentences[:20]))
        cells = list(product(GENDERS, PITCHES, PACES, lines))
        made = self.speak(7, [
            {"text": text, "mode": Mode.VOICE_DESIGN, "instruct": FORMS[i % 2].format(gender, pitch, PACES[pace])}
            for gender, pitch, pace, (i, text) in cells
        ])  # fmt: skip
        heard, truths = np.array(self.hear(made)), np.array([text for *_, (_, text) in cells])
        yield "design", scores(truths, heard)
        speed = np.array([len(text) / (len(audio) / 24000) for text, audio in zip(truths, made, strict=True)])
        for pace in PACES:
            at = [i for i, cell in enumerate(cells) if cell[2] == pace]
            yield f"design {pace}", scores(truths[at], heard[at]) | {"letters_per_second": float(speed[at].mean())}
        f0 = np.reshape([one.f0 for one in heard], (len(GENDERS), len(PITCHES), -1))
        for gender, medians in zip(GENDERS, np.median(f0, axis=2), strict=True):
            yield f"design {gender} f0", dict(zip(PITCHES, medians.tolist(), strict=True))

    @torch.no_grad()
    def clones(self) -> Report:
        """Measure the word errors, pitch and voice identification of clones of unseen voices.

        A clone is identified if the x-vector of its own reference is nearest to the mean of its x-vectors.
        """
        lines, names = self.texts[:CLONE_LINES], CONFIG["clones"]["styles"]
        said = self.teach("unseen.npz", [(i, Mixture("", {name: 1.0})) for name in names for i in range(CLONE_LINES)])
        references, truths = said[::CLONE_LINES], lines[1:] * len(names)
        made = {"teacher": [audio for i, audio in enumerate(said) if i % CLONE_LINES]}
        for kind in ("x_vector", "icl"):
            made[kind] = self.speak(11, [
                {"text": text, "mode": Mode.BASE,
                 "reference": Reference(samples=audio, text=lines[0], x_vector_only=kind == "x_vector")}
                for audio in references for text in lines[1:]
            ])  # fmt: skip
        encoder = load_checkpoint(str(self.voice), torch.device("cpu"), torch.float32).speaker_encoder

        def x_vectors(audios: list[np.ndarray]) -> np.ndarray:
            return np.stack([encoder(torch.from_numpy(audio)).numpy() for audio in audios])

        centre = x_vectors(references).mean(0)
        directions = x_vectors(references) - centre
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        heard = {kind: self.hear(audio) for kind, audio in made.items()}
        shape = len(names), CLONE_LINES - 1
        f0 = {kind: np.median(np.reshape([x.f0 for x in each], shape), axis=1) for kind, each in heard.items()}
        for kind in made:
            vectors = x_vectors(made[kind]).reshape(*shape, -1).mean(1) - centre
            nearest = (vectors @ directions.T).argmax(1) == np.arange(len(names))
            close = np.abs(f0[kind] / f0["teacher"] - 1) < 0.08
            extra = {"nearest": float(nearest.mean()), "f0_within_8": float(close.mean())}
            yield f"clone {kind}", scores(truths, heard[kind]) | extra


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voice", type=Path, default=WORK / "demo-voice", help="folder of an exported voice")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--layout", type=Layout, choices=list(Layout), default=Layout.NON_STREAMING)
    parser.add_argument("--workers", type=int, default=2)
    evaluation = Evaluation(**vars(parser.parse_args()))
    reports = [evaluation.speakers, evaluation.long_text]
    if evaluation.layout is Layout.NON_STREAMING:
        reports += [evaluation.designs, evaluation.clones]
    for report in reports:
        for name, figures in report():
            print(name, json.dumps({k: round(x, 3) for k, x in figures.items()}), flush=True)
    evaluation.engine.close()


if __name__ == "__main__":
    main()
