"""What the sound is like, by mode, and whether settings change it: graphs beside eager frames, unless told otherwise.

python -m benchmarks.audio --model FOLDER [--model FOLDER …] [--arm NAME[:VARIABLE=VALUE,…] …] [--json FILE]

A short and a long text, in English and Chinese, in every mode that the models serve. The first arm is the one that
others are compared with. Random weights make noise: their figures say that two arms agree, not that anybody speaks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.arguments import add_arms, parser_of, variables_of
from benchmarks.cast import DESIGN, TRANSCRIPT, recording
from benchmarks.lanes import Arm, settings_of
from benchmarks.pipeline import WAIT_S, Listener, Said, differ_from
from benchmarks.report import Tables, show, tell
from benchmarks.voicing import Voicing, voicing
from runtime.engine.engine import Engine
from runtime.errors import SetUpError
from runtime.request import Broken, Mode, Reference, SpeechRequest
from runtime.voices.voice import to_float

TEXTS = (
    ("en", "The kettle has just boiled."),
    (
        "en",
        "The harbour was quiet, and the lights of the last boat went out one by one. Nobody on the pier had noticed.",
    ),
    ("zh", "水刚刚烧开。"),
    ("zh", "港口很安静，最后一条船上的灯一盏一盏地熄灭了，码头上没有人注意到这件事。"),
)
LANGUAGES = {"en": "english", "zh": "chinese"}
ARMS = ("graphs", "eager:VOICEWRIGHT_EAGER=1")
FIGURES = [field.name for field in fields(Voicing)]

Spoken = dict[tuple[Mode, int], Said]


def main() -> int:
    """Speak with every arm; tables on stdout, and into a file. 1: a reply failed or is no whole number of frames."""
    arguments = _parser().parse_args()
    arms = [Arm.parse(text) for text in arguments.arm or ARMS]
    base = variables_of(arguments)
    try:
        spoken = {arm.name: _speak(arm, base, arguments.frames) for arm in arms}
    except (SetUpError, ReplyFailed) as error:
        print(error, file=sys.stderr)
        return 1
    tables: Tables = {"sound": _sound_rows(spoken), "against the first arm": _differences(spoken)}
    show(tables, arguments.json, tables)
    return 0


class ReplyFailed(Exception):
    """A request ended without its sound, or with a sound of another form than its frames have."""


def _speak(arm: Arm, base: dict[str, str], frames: int) -> Spoken:
    """Every text in every mode, one after the other."""
    engine = Engine.open(settings_of({**base, **arm.environment}), lambda loaded, of, step: tell(f"{arm.name}: {step}"))
    engine.start()
    spoken: Spoken = {}
    try:
        for card in engine.cards:
            for mode in card.modes:
                for number, (language, text) in enumerate(TEXTS):
                    if LANGUAGES[language] not in card.languages:
                        continue
                    tell(f"{arm.name}: {mode}, text {number + 1} of {len(TEXTS)}")
                    spoken[mode, number] = _heard(
                        engine, _request(mode, text, LANGUAGES[language], frames), card.samples_per_frame
                    )
    finally:
        engine.close()
    return spoken


def _request(mode: Mode, text: str, language: str, frames: int) -> SpeechRequest:
    reference = Reference(samples=to_float(recording()), text=TRANSCRIPT) if mode is Mode.BASE else None
    instruct = DESIGN if mode is Mode.VOICE_DESIGN else None
    return SpeechRequest(
        text=text, mode=mode, language=language, seed=7, max_frames=frames, reference=reference, instruct=instruct
    )


def _heard(engine: Engine, request: SpeechRequest, per_frame: int) -> Said:
    listener = Listener()
    engine.submit(request, listener)
    if not listener.ended.wait(WAIT_S):
        raise ReplyFailed(f"no end within {WAIT_S} s")
    if isinstance(listener.end, Broken):
        raise ReplyFailed(f"a reply failed: {listener.end.error}")
    said = listener.said
    if any(len(chunk.pcm) % 2 for chunk in listener.chunks) or len(said.samples) != per_frame * len(said.codes):
        raise ReplyFailed(f"{len(said.samples)} samples are not {len(said.codes)} frames of {per_frame}")
    return said


def _sound_rows(spoken: dict[str, Spoken]) -> list[dict[str, Any]]:
    """The means of each arm's figures, by mode."""
    rows = []
    for arm, said in spoken.items():
        for mode in dict.fromkeys(mode for mode, _ in said):
            figures = [asdict(voicing(heard.samples)) for (where, _), heard in said.items() if where is mode]
            means = {name: round(mean(figure[name] for figure in figures), 4) for name in FIGURES}
            rows.append({"arm": arm, "mode": str(mode), "texts": len(figures), **means})
    return rows


def _differences(spoken: dict[str, Spoken]) -> list[dict[str, Any]]:
    (_, first), *others = spoken.items()
    return [
        {"arm": arm, "mode": str(mode), **_difference([(said[key], first[key]) for key in said if key[0] is mode])}
        for arm, said in others
        for mode in dict.fromkeys(mode for mode, _ in said)
    ]


def _difference(pairs: Sequence[tuple[Said, Said]]) -> dict[str, Any]:
    """Texts whose codes are equal, and how far apart their samples are at most."""
    equal = [pair for pair in pairs if differ_from(*pair) is None]
    apart = [int(np.abs(said.samples.astype(np.int32) - other.samples).max()) for said, other in equal]
    return {"texts": len(pairs), "codes_equal": len(equal), "samples_apart": max(apart, default=None)}


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    add_arms(parser)
    parser.add_argument("--frames", type=int, default=200, help="of a reply, at most")
    return parser


if __name__ == "__main__":
    sys.exit(main())
