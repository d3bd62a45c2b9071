"""JSON descriptions of checkpoints and finished requests, shared by all APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict

from runtime.request import SAMPLE_RATE, Finished, ModelCard, RequestStats, StopReason


class ModelSampling(TypedDict):
    """Default sampling settings of a model."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    repetition_penalty: float | None


class Model(TypedDict):
    """Loaded checkpoint, as listed by /v1/models."""

    id: Annotated[str, Field(description="a name, never a path")]
    object: Literal["model"]
    created: Annotated[int, Field(description="Unix time of its files")]
    owned_by: str
    modes: Sequence[str]
    speakers: Sequence[str]
    adapters: Annotated[Mapping[str, Sequence[str]], Field(description="speakers of each adapter")]
    languages: Annotated[Sequence[str], Field(description="without auto, which is always accepted")]
    layouts: Sequence[str]
    takes_instruct: Annotated[bool, Field(description="accepts instructions")]
    styles_voices: Annotated[bool, Field(description="stored voices accept instructions")]
    grafts_voices: Annotated[bool, Field(description="stored voices accept graft")]
    speaks: Annotated[bool, Field(description="false: random weights, audio but not speech")]
    part_chars: Annotated[int, Field(description="characters spoken as one part; longer texts are split")]
    fingerprint: Annotated[str, Field(description="of configuration and weights")]
    loaded: Annotated[bool, Field(description="false: loads at its first request")]
    slots: Annotated[int, Field(description="maximum number of concurrent requests; 0 until loaded")]
    samples_per_frame: int
    device: str
    dtype: str
    sample_rate: int
    sampling: ModelSampling


class Metrics(TypedDict):
    """Statistics of one utterance, times in milliseconds."""

    queue_ms: float
    prefill_ms: float
    ttfa_ms: Annotated[float | None, Field(description="from submission to the first audio; null without audio")]
    total_ms: float
    prompt_tokens: int
    frames: Annotated[int, Field(description="codec frames of 80 ms")]
    audio_s: float
    parts: Annotated[int, Field(description="parts of the text")]
    repeated: Annotated[int, Field(description="parts generated twice, because they were too short")]
    underruns: Annotated[
        int, Field(description="chunks that arrived too late for gapless playback without a start buffer")
    ]
    guard: Annotated[str | None, Field(description="detected problem: budget, repetition, silence or short")]
    rtf: Annotated[float | None, Field(description="compute time divided by audio duration")]


def model_entry(model: ModelCard) -> Model:
    """Return the JSON description of a checkpoint for /v1/models and session.created."""
    sampling = {name: getattr(model.sampling, name) for name in ModelSampling.__annotations__}
    own = {"id": model.name, "object": "model", "owned_by": "voicewright", "sample_rate": SAMPLE_RATE}
    fields = {name: getattr(model, name) for name in Model.__annotations__ if name not in own and name != "sampling"}
    return cast("Model", {**own, **fields, "sampling": sampling})


def finish_notes(event: Finished) -> list[str]:
    """Return notes for the client about speech problems and skipped text."""
    notes = []
    if event.stats.repeated:
        notes.append("A part of the text ended much too early and was spoken again.")
    if event.stop_reason is StopReason.SHORT:
        notes.append("The speech is much shorter than its text; words are missing.")
    if event.stop_reason is StopReason.RUNAWAY:
        notes.append("The speech did not end with its text and was stopped; words may be missing, wrong or repeated.")
    return [*notes, *event.notes]


def metrics(stats: RequestStats) -> Metrics:
    values = {name: getattr(stats, name) for name in Metrics.__annotations__}
    return cast("Metrics", {name: round(x, 3) if isinstance(x, float) else x for name, x in values.items()})
