"""Functions that read the stored outputs of the reference implementation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE, Layout, Mode, Reference, Sampling, SpeechRequest
from runtime.shared.audio.samples import DecodedAudio, resample
from tests.support.signals import voice

DATA = Path(__file__).parent / "data"
CASES: dict[str, dict[str, Any]] = {
    case["name"]: case for case in json.loads((DATA / "cases.json").read_text(encoding="utf-8"))["cases"]
}


@cache
def arrays(name: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of the file tests/golden/data/NAME.npz."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as stored:
        return dict(stored)


def request_of(case: dict[str, Any]) -> SpeechRequest:
    """Convert a stored test case into a speech request for the engine."""
    return SpeechRequest(
        text=case["text"],
        mode=Mode(case["mode"]),
        voice=case["voice"],
        language=case["language"] or "auto",
        instruct=case["instruct"],
        reference=_reference(case),
        layout=Layout(case["layout"]),
        sampling=Sampling(greedy=True),
        max_frames=case["max_frames"],
    )


def _reference(case: dict[str, Any]) -> Reference | None:
    audio = case["reference"]
    if audio is None:
        return None
    rate = audio["sample_rate"]
    samples = voice(audio["seconds"], audio["seed"], rate)
    return Reference(
        samples=resample(DecodedAudio(samples, rate), SAMPLE_RATE).samples,
        text=case["reference_text"],
        x_vector_only=case["x_vector_only"],
    )
