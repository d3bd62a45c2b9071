"""F0 and timbre of blends of two voices, at several weights of the second voice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common.listener import speak_all
from benchmarks.common.pitch import median_f0, track_f0
from benchmarks.common.report import Row, log_step
from benchmarks.common.texts import sentences
from benchmarks.common.variants import Environment
from runtime.engine.engine import Engine
from runtime.request import BlendPart, Mode, Reference, SpeechRequest
from runtime.settings import Settings
from runtime.voices.voice import to_float

WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Settings with which an engine accepts all requests at once, and generates them without pauses.
UNLIMITED = {"VOICEWRIGHT_MAX_WAITING": "100000", "VOICEWRIGHT_QUEUE_S": "36000", "VOICEWRIGHT_LEAD_CAP_S": "3600"}


def measure_blends(environment: Environment, pairs: Sequence[str], count: int) -> list[Row]:
    """Measure blends of pairs of speakers, and return two table rows per pair.

    A checkpoint speaks the same sentences with the same seeds at each weight. The rows have the means over the
    sentences of the median F0, and of the x-vector's position on the line from the first voice (0) to the second (1).

    Args:
        environment: Settings of the engine.
        pairs: Names of two speakers, such as `angus+clara`.
        count: Number of sentences per weight.

    Raises:
        SystemExit: The checkpoint cannot compute x-vectors.
    """
    engine = Engine.open(Settings.from_env({**environment, **UNLIMITED}), lambda loaded, of, step: log_step(step))
    encoder = engine.registry.cores[0].checkpoint.speaker_encoder
    if encoder is None:
        raise SystemExit("the checkpoint has no speaker encoder")
    engine.start()
    device = engine.device.torch_device
    rows: list[Row] = []
    try:
        for pair in pairs:
            log_step(pair)
            f0, x_vectors = [], []
            for weight in WEIGHTS:
                requests = [_request(pair, weight, seed, text) for seed, text in enumerate(sentences()[:count])]
                spoken = [to_float(listener.result.samples) for listener in speak_all(engine, requests)[0]]
                f0.append([median_f0(track_f0(samples)) for samples in spoken])
                with torch.inference_mode():
                    x_vectors.append(
                        [encoder(torch.from_numpy(one).to(device)).float().cpu().numpy() for one in spoken]
                    )
            rows.append(_row(pair, "F0, Hz", np.array(f0), digits=None))
            rows.append(_row(pair, "timbre", timbre_positions(np.array(x_vectors)), digits=2))
    finally:
        engine.close()
    return rows


def _request(pair: str, weight: float, seed: int, text: str) -> SpeechRequest:
    first, second = pair.split("+")
    blend = (BlendPart(weight=1 - weight, speaker=first), BlendPart(weight=weight, speaker=second))
    reference = Reference(samples=np.zeros(0, np.float32), x_vector_only=True, blend=blend)
    return SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, language="english", reference=reference, seed=seed)


def timbre_positions(x_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the positions of x-vectors on the line between the first and the last weight.

    Shapes: x_vectors [W, N, H] for W weights and N sentences; result [W, N].
    """
    means = x_vectors.mean(axis=1)
    line = means[-1] - means[0]
    positions: NDArray[np.float32] = (x_vectors - means[0]) @ line / (line @ line)
    return positions


def is_monotone(values: NDArray[np.floating]) -> bool:
    """True if no step between weights goes back by more than twice its standard error.

    Shapes: values [W, N] for W weights and N sentences.
    """
    steps = np.diff(values, axis=0)
    forward = np.sign(values[-1].mean() - values[0].mean()) * steps.mean(axis=1)
    errors = steps.std(axis=1, ddof=1) / np.sqrt(steps.shape[1])
    return bool((forward >= -2 * errors).all())


def _row(pair: str, measure: str, values: NDArray[np.floating], digits: int | None) -> Row:
    means = values.mean(axis=1)
    columns = {f"{weight:g}": round(float(mean), digits) for weight, mean in zip(WEIGHTS, means, strict=True)}
    return {"voices": pair, "measure": measure, **columns, "monotone": is_monotone(values)}
