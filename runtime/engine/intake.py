"""At the door: a client's request against what one checkpoint can do, before it takes a slot. Any thread."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from runtime.engine.prompt import Utterance, prompt_length, spoken_language
from runtime.engine.scheduler import frame_limit
from runtime.engine.slots import RowSettings, fill_in
from runtime.engine.text import (
    GRACE_FRAMES,
    checked_instruct,
    checked_text,
    expected_frames,
    frame_budget,
    refuse_control,
)
from runtime.errors import (
    DoesNotFit,
    InvalidConfig,
    MissingReference,
    MissingReferenceText,
    ReferenceTooLong,
    ReferenceTooShort,
    TextTooLong,
    UnknownVoice,
    UnsupportedLanguage,
    UnsupportedLayout,
)
from runtime.model.checkpoint import Checkpoint
from runtime.model.config import ModelConfig
from runtime.request import SAMPLE_RATE, Layout, Mode, Reference, Sampling, SpeechRequest, StopReason
from runtime.settings import Limits

# What the device can count with; a request outside would stop its neighbours too.
SEEDS = (0, 2**63 - 1)
BOUNDS: dict[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_k": (0, 2**31 - 1),
    "top_p": (0, 1),
    "repetition_penalty": (0.01, 100),
}


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that can be served, in the words of its checkpoint.

    ``utterance.voice`` is filled in later by who may use the device.
    """

    utterance: Utterance
    reference: Reference | None
    settings: RowSettings
    max_frames: int
    at_limit: StopReason  # what it means to reach max_frames
    notes: tuple[str, ...]


def admit(request: SpeechRequest, checkpoint: Checkpoint, limits: Limits, slot_length: int) -> Admission:
    """Check and translate a request.

    Raises:
        BadRequest: the leaf that says what is wrong with it.
    """
    config, tokenizer = checkpoint.config, checkpoint.text_tokenizer
    notes: list[str] = []
    _check_numbers(request)
    text = checked_text(request.text, tokenizer, limits)
    reference = _reference(request, checkpoint, limits)
    speaker = _speaker(request, config, notes)
    utterance = Utterance(
        text=text,
        mode=request.mode,
        layout=_layout(request, config),
        language=spoken_language(_language(request.language, config), speaker, config),
        speaker=speaker,
        instruct=_instruct(request, checkpoint, limits, notes),
    )
    codes = 0
    if reference is not None and not reference.x_vector_only:
        codes = -(-len(reference.samples) // checkpoint.speech_tokenizer.config.encode_downsample_rate)
    prompt = prompt_length(utterance, codes, (reference and reference.text) or "", tokenizer)
    room, budget, asked = slot_length - prompt, frame_budget(text), request.max_frames
    _check_max_frames(asked, limits)
    # Without a number of the caller's own, a slot must at least hold the text at an ordinary pace.
    needed = asked or min(GRACE_FRAMES + expected_frames(text), limits.max_frames)
    if needed > room:
        raise DoesNotFit(param="text", count=prompt + needed, prompt=prompt, frames=needed, limit=slot_length)
    allowed = frame_limit(room, min(budget, limits.max_frames), asked)
    return Admission(
        utterance=utterance,
        reference=reference,
        settings=fill_in(request.sampling, config.generation),
        max_frames=allowed,
        at_limit=StopReason.RUNAWAY if asked is None and allowed == budget else StopReason.MAX_TOKENS,
        notes=tuple(notes),
    )


def _check_numbers(request: SpeechRequest) -> None:
    _check_bounds("seed", request.seed, SEEDS)
    for knob in fields(Sampling):
        bounds = BOUNDS.get(knob.name.removeprefix("predictor_"))
        if bounds is not None:
            _check_bounds(knob.name, getattr(request.sampling, knob.name), bounds)


def _check_bounds(name: str, value: float | None, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if value is not None and not low <= value <= high:
        raise InvalidConfig(param=name, where=name, why=f"it must be {low} to {high}")


def _check_max_frames(asked: int | None, limits: Limits) -> None:
    if asked is not None and not 1 <= asked <= limits.max_frames:
        why = f"it is {asked}; it must be 1 to {limits.max_frames} frames"
        raise InvalidConfig(param="max_frames", where="max_frames", why=why)


def _speaker(request: SpeechRequest, config: ModelConfig, notes: list[str]) -> str | None:
    if request.mode is not Mode.CUSTOM_VOICE:
        return None
    known = {name.lower(): name for name in config.talker.spk_id}
    if not request.voice:
        notes.append("No voice was named; the checkpoint's first speaker is used.")
        return next(iter(config.talker.spk_id))
    try:
        return known[request.voice.lower()]
    except KeyError:
        raise UnknownVoice(param="voice", known=", ".join(config.talker.spk_id)) from None


def _language(language: str, config: ModelConfig) -> str:
    wanted = (language or "auto").lower()
    known = {name.lower(): name for name in config.talker.codec_language_id}
    if wanted == "auto":
        return wanted
    try:
        return known[wanted]
    except KeyError:
        raise UnsupportedLanguage(param="language", known=", ".join(known)) from None


def _instruct(request: SpeechRequest, checkpoint: Checkpoint, limits: Limits, notes: list[str]) -> str | None:
    instruct = checked_instruct(request.instruct, checkpoint.text_tokenizer, limits)
    if request.mode is Mode.BASE or (request.mode is Mode.CUSTOM_VOICE and not checkpoint.config.takes_instruct):
        if instruct:
            notes.append("This checkpoint takes no instruct in this mode; it was ignored.")
        return None
    return instruct


def _layout(request: SpeechRequest, config: ModelConfig) -> Layout:
    default = Layout.STREAMING if request.mode is Mode.BASE else Layout.NON_STREAMING
    layout = request.layout or (default if default in config.layouts else config.layouts[0])
    if layout not in config.layouts:
        raise UnsupportedLayout(param="non_streaming_mode", layout=layout, known=", ".join(config.layouts))
    return layout


def _reference(request: SpeechRequest, checkpoint: Checkpoint, limits: Limits) -> Reference | None:
    if request.mode is not Mode.BASE:
        return None
    reference = request.reference
    if reference is None:
        raise MissingReference(param="ref_audio")
    seconds = len(reference.samples) / SAMPLE_RATE
    if seconds < limits.min_reference_s:
        raise ReferenceTooShort(param="ref_audio", seconds=seconds, limit=limits.min_reference_s)
    if seconds > limits.max_reference_s:
        raise ReferenceTooLong(param="ref_audio", seconds=seconds, limit=limits.max_reference_s)
    if reference.x_vector_only:
        return reference
    text = (reference.text or "").strip()  # as the text itself: a newline would merge with the template's
    if not text:
        raise MissingReferenceText(param="ref_text")
    if len(text) > limits.max_text_chars:
        raise TextTooLong(param="ref_text", count=len(text), unit="characters", limit=limits.max_text_chars)
    refuse_control(text, checkpoint.text_tokenizer, "ref_text")
    return replace(reference, text=text)
