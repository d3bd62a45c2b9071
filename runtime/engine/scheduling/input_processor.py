"""Validation of requests against a checkpoint before they get a slot.

Thread: any.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from runtime.engine.audio.voice_cache import reference_key
from runtime.engine.execution.prompt import PromptInputs, prompt_length, spoken_language
from runtime.engine.execution.slots import RequestSamplingParams, merge_sampling_defaults
from runtime.engine.scheduling.scheduler import frame_limit
from runtime.engine.text.rules import (
    GRACE_FRAMES,
    frame_budget,
    reject_control_tokens,
    validate_instruct,
    validate_text,
)
from runtime.engine.text.text_stream import TextStream
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
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.config import ModelConfig
from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.request import (
    SAMPLE_RATE,
    BlendPart,
    Layout,
    Mode,
    Reference,
    Sampling,
    SpeechRequest,
    Split,
    StopReason,
)
from runtime.settings import Limits
from runtime.shared.text.speech_rate import expected_frames, is_another_text

# Smallest and largest seed that the device supports. Any other seed would make the whole batch fail.
SEEDS = (0, 2**63 - 1)
# Upper bound of the positions per character. A digit has one token and takes four frames, and an emoji has several
# tokens.
POSITIONS_PER_CHARACTER = 8

CROSS_EMBEDDING_USED = "The Base checkpoint's embeddings are used for text and codes (graft); this is experimental."
CROSS_EMBEDDING_IGNORED = (
    "graft needs a stored voice, instructions and a Base checkpoint with the same ids; it was ignored."
)

BOUNDS: dict[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_k": (0, 2**31 - 1),
    "top_p": (0, 1),
    "repetition_penalty": (0.01, 100),
}


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """Plan of one segment: inputs of its prompt, and frame limit.

    `at_limit` is the stop reason if the segment reaches the frame limit.
    """

    prompt_inputs: PromptInputs
    limit: int  # Maximum number of frames of the segment.
    at_limit: StopReason


@dataclass(frozen=True, slots=True)
class Admission:
    """Validated request, with names and defaults resolved for its checkpoint.

    `prompt_inputs` has no text and no voice yet: a `TextStream` adds the text of each segment, and the engine core adds
    the voice.
    """

    prompt_inputs: PromptInputs
    reference: Reference | None
    voice_key: str | None
    settings: RequestSamplingParams
    requested_frames: int | None
    max_frames: int  # Maximum number of frames for requests that set no limit.
    slot_length: int
    reference_frames: int
    part_chars: int  # Maximum characters of one segment.
    is_cross_embedded: bool  # True if another checkpoint, which has encoded the voice, embeds the inputs.
    may_repeat: bool  # True if a segment that ends too early may be generated again.
    notes: tuple[str, ...]

    def plan(
        self, text: str, tokenizer: TextTokenizer, earlier_frames: int = 0, *, must_fit: bool = True
    ) -> SegmentPlan:
        """Plan a segment with complete text: compute its prompt inputs and frame limit.

        Args:
            earlier_frames: Number of frames that the request has generated in earlier segments.
            must_fit: True if the slot must have positions for the expected frames. With False, positions for the prompt
                and one frame are enough.

        Raises:
            DoesNotFit: The prompt and these frames are longer than a slot.
        """
        prompt_inputs = replace(self.prompt_inputs, text=text, body=tuple(tokenizer.encode_text(text)))
        free_positions, prompt = self._free_positions(prompt_inputs, tokenizer)
        frames_left = None if self.requested_frames is None else self.requested_frames - earlier_frames
        # If the request sets no limit, the slot must have enough positions to speak the text at normal speed.
        needed = frames_left or min(GRACE_FRAMES + expected_frames(text), self.max_frames)
        needed = needed if must_fit else 1
        if needed > free_positions:
            raise DoesNotFit(param="text", count=prompt + needed, prompt=prompt, frames=needed, limit=self.slot_length)
        budget = frame_budget(text)
        allowed = frame_limit(free_positions, min(budget, self.max_frames), frames_left)
        runs_away = frames_left is None and allowed == budget
        return SegmentPlan(prompt_inputs, allowed, StopReason.RUNAWAY if runs_away else StopReason.MAX_TOKENS)

    def plan_open(self, body: list[int], tokenizer: TextTokenizer, earlier_frames: int = 0) -> SegmentPlan:
        """Plan a segment whose text is not complete: compute its prompt inputs and frame limit.

        Args:
            body: Token ids of the text received so far.
            earlier_frames: Number of frames that the request has generated in earlier segments.
        """
        prompt_inputs = replace(self.prompt_inputs, body=tuple(body), is_open=True)
        free_positions, _ = self._free_positions(replace(prompt_inputs, body=tuple(body[:1])), tokenizer)
        frames_left = None if self.requested_frames is None else self.requested_frames - earlier_frames
        return SegmentPlan(
            prompt_inputs, frame_limit(free_positions, self.max_frames, frames_left), StopReason.MAX_TOKENS
        )

    def styled(self, style: str) -> Admission:
        """Return a copy of the admission whose instruction is the given style.

        In VoiceDesign mode, the style is appended to the voice description. An empty style changes nothing.
        """
        if not style:
            return self
        description = self.prompt_inputs.instruct if self.prompt_inputs.mode is Mode.VOICE_DESIGN else None
        instruct = f"{description} {style}" if description else style
        return replace(self, prompt_inputs=replace(self.prompt_inputs, instruct=instruct))

    def max_chars(self, tokenizer: TextTokenizer) -> int:
        """Return a number of characters whose speech fits into one slot, for text in any script."""
        free_positions, _ = self._free_positions(replace(self.prompt_inputs, body=()), tokenizer)
        return max(1, (free_positions - GRACE_FRAMES) // POSITIONS_PER_CHARACTER)

    def _free_positions(self, prompt_inputs: PromptInputs, tokenizer: TextTokenizer) -> tuple[int, int]:
        """Return the number of positions after the prompt, and the length of the prompt."""
        reference = self.reference
        prompt = prompt_length(prompt_inputs, self.reference_frames, (reference and reference.text) or "", tokenizer)
        return self.slot_length - prompt, prompt


def retry_seed(seed: int) -> int:
    """Return the seed for a segment that is generated again.

    The result is far from `seed`, because clients often use consecutive seeds.
    """
    return (seed + 2**32) % (SEEDS[1] + 1)


def admit(
    request: SpeechRequest, checkpoint: Checkpoint, limits: Limits, slot_length: int, *, may_cross_embed: bool = False
) -> tuple[Admission, TextStream]:
    """Validate a request against a checkpoint, and resolve its names and defaults.

    Args:
        slot_length: Number of positions of a slot.
        may_cross_embed: True if the checkpoint that encodes voices for `checkpoint` can embed the request's inputs.

    Returns:
        The admission, and a text stream with the text received so far.

    Raises:
        BadRequest: The request is invalid. The subclass of the error describes the first problem.
    """
    config, tokenizer = checkpoint.config, checkpoint.text_tokenizer
    text = request.text if request.open_text else validate_text(request.text, tokenizer, limits)
    notes = list(request.notes)
    _check_numbers(request)
    _check_frames("max_frames", request.max_frames, limits)
    _check_frames("initial_codec_chunk_frames", request.first_chunk_frames, limits)
    reference = _reference(request, checkpoint, limits)
    if request.mode is Mode.CUSTOM_VOICE and reference is not None and not reference.blend:
        notes.append("Only the x-vector of the voice is used, so that a style can be applied; this is experimental.")
    is_cross_embedded = (
        request.graft and may_cross_embed and request.mode is Mode.CUSTOM_VOICE and reference is not None
    )
    if request.graft:
        notes.append(CROSS_EMBEDDING_USED if is_cross_embedded else CROSS_EMBEDDING_IGNORED)
    _judge_transcript(reference, notes)
    speaker = None if reference is not None else _speaker(request, config, notes)
    layout = _layout(request, config)
    frames = 0
    if reference is not None and not reference.x_vector_only:
        frames = _prompt_frames(reference) or -(
            -len(reference.samples) // checkpoint.speech_tokenizer.config.encode_downsample_rate
        )
    admission = Admission(
        prompt_inputs=PromptInputs(
            text="",
            mode=request.mode,
            layout=layout,
            language=spoken_language(_language(request.language, config), speaker, config),
            speaker=speaker,
            instruct=_instruct(request, checkpoint, limits, notes),
        ),
        reference=reference,
        voice_key=None if reference is None else reference_key(reference),
        settings=merge_sampling_defaults(request.sampling, config.generation),
        requested_frames=request.max_frames,
        max_frames=limits.max_frames,
        slot_length=slot_length,
        reference_frames=frames,
        part_chars=config.part_chars or limits.part_chars,
        is_cross_embedded=is_cross_embedded,
        may_repeat=config.speaks and not request.sampling.greedy and request.max_frames is None,
        notes=tuple(notes),
    )
    # Text can be fed token by token if the layout has positions for it and no reference frames use these positions. A
    # complete text can be fed in this way if it is one segment.
    feeds_by_token = request.split is Split.AUTO or (request.split is Split.NONE and not request.open_text)
    by_token = layout is Layout.STREAMING and not frames and feeds_by_token
    is_one_segment, fitting_chars = request.split is Split.NONE, admission.max_chars(tokenizer)
    # The maximum does not depend on the text.
    max_chars = fitting_chars if is_one_segment else min(fitting_chars, admission.part_chars)
    stream_of = partial(
        TextStream,
        request.split,
        tokenizer=tokenizer,
        limits=limits,
        tags=request.tags,
        max_break_s=request.max_break_s,
        follows=_follows_instruct(request.mode, config),
        languages=tuple(config.talker.codec_language_id),
    )
    if request.open_text:
        text_stream = stream_of(max_chars=admission.part_chars if by_token else max_chars, by_token=by_token)
        text_stream.append_text(text)
        return admission, text_stream
    text_stream = stream_of(max_chars=None if is_one_segment else admission.part_chars, by_token=by_token)
    try:
        _fill(text_stream, text, admission, tokenizer)
    except DoesNotFit:
        if request.split is Split.NONE or request.max_frames is not None:
            raise
        text_stream = stream_of(max_chars=max_chars, by_token=False)
        _fill(text_stream, text, admission, tokenizer)
    return admission, text_stream


def _fill(text_stream: TextStream, text: str, admission: Admission, tokenizer: TextTokenizer) -> None:
    """Add a complete text to the stream.

    Raises:
        DoesNotFit: A segment of the text is longer than a slot.
    """
    text_stream.append_text(text)
    text_stream.finish()
    for part in text_stream.segments:
        admission.styled(part.style).plan(part.spoken, tokenizer)


def _check_numbers(request: SpeechRequest) -> None:
    _check_bounds("seed", request.seed, SEEDS)
    for parameter in fields(Sampling):
        bounds = BOUNDS.get(parameter.name.removeprefix("predictor_"))
        if bounds is not None:
            _check_bounds(parameter.name, getattr(request.sampling, parameter.name), bounds)


def _check_bounds(name: str, value: float | None, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if value is not None and not low <= value <= high:
        raise InvalidConfig(param=name, where=name, why=f"it must be {low} to {high}")


def _check_frames(name: str, requested: int | None, limits: Limits) -> None:
    if requested is not None and not 1 <= requested <= limits.max_frames:
        why = f"it is {requested}; it must be 1 to {limits.max_frames} frames"
        raise InvalidConfig(param=name, where=name, why=why)


def _judge_transcript(reference: Reference | None, notes: list[str]) -> None:
    """Add a note if the transcript does not fit the length of the recording.

    The recording may contain less speech than its length.
    """
    if reference is None or reference.x_vector_only or not reference.text or not len(reference.samples):
        return
    if is_another_text(reference.text, len(reference.samples) / SAMPLE_RATE):
        notes.append("The length of the transcript does not fit the recording; words of the text may be missing.")


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
    instruct = validate_instruct(request.instruct, checkpoint.text_tokenizer, limits)
    if not _follows_instruct(request.mode, checkpoint.config):
        if instruct:
            notes.append("This checkpoint supports no instructions in this mode; they were ignored.")
        return None
    if len(instruct or "") < len((request.instruct or "").strip()):
        limit = limits.max_instruct_chars
        notes.append(f"The instruct has more than {limit} characters; the rest was left out.")
    return instruct


def _follows_instruct(mode: Mode, config: ModelConfig) -> bool:
    return mode is Mode.VOICE_DESIGN or (mode is Mode.CUSTOM_VOICE and config.takes_instruct)


def _layout(request: SpeechRequest, config: ModelConfig) -> Layout:
    default = Layout.STREAMING if request.mode is Mode.BASE else Layout.NON_STREAMING
    layout = request.layout or config.preferred_layout or default
    if layout not in config.layouts:
        raise UnsupportedLayout(param="non_streaming_mode", layout=layout, known=", ".join(config.layouts))
    return layout


def _reference(request: SpeechRequest, checkpoint: Checkpoint, limits: Limits) -> Reference | None:
    reference = request.reference if request.takes_reference else None
    if reference is None and request.mode is not Mode.BASE:
        return None
    if reference is None:
        raise MissingReference(param="ref_audio")
    if reference.blend:
        parts = tuple(_blend_part(part, checkpoint, limits) for part in reference.blend)
        return replace(reference, text=None, x_vector_only=True, blend=parts)
    _check_length(reference, checkpoint, limits)
    if request.mode is Mode.CUSTOM_VOICE:  # CustomVoice checkpoints were not trained with the frames of a reference.
        reference = replace(reference, text=None, x_vector_only=True)
    if reference.x_vector_only:
        return reference
    # White space at both ends is removed, because a leading newline would merge with the newline of the template.
    text = (reference.text or "").strip()
    if not text:
        raise MissingReferenceText(param="ref_text")
    if len(text) > limits.max_text_chars:
        raise TextTooLong(param="ref_text", count=len(text), unit="characters", limit=limits.max_text_chars)
    reject_control_tokens(text, checkpoint.text_tokenizer, "ref_text")
    return replace(reference, text=checkpoint.text_tokenizer.normalize(text))


def _blend_part(part: BlendPart, checkpoint: Checkpoint, limits: Limits) -> BlendPart:
    """Return a copy of a blend part that contains the embedding of its speaker."""
    if part.reference is not None:
        _check_length(part.reference, checkpoint, limits)
        return part
    talker = checkpoint.config.talker
    if part.speaker not in talker.spk_id:
        raise UnknownVoice(param="voice", known=", ".join(talker.spk_id))
    return replace(part, x_vector=checkpoint.talker.codec_vector(talker.spk_id[part.speaker]))


def _prompt_frames(reference: Reference) -> int:
    """Return the number of frames in the voice prompt of a reference without audio, else 0."""
    prompt = reference.prompt
    return 0 if len(reference.samples) or prompt is None or prompt.codes is None else len(prompt.codes)


def _check_length(reference: Reference, checkpoint: Checkpoint, limits: Limits) -> None:
    """Check the length of reference audio, or the voice prompt of a reference without audio.

    Raises:
        ReferenceTooShort, ReferenceTooLong: The audio is shorter or longer than the limits.
        InvalidConfig: The voice prompt does not fit the checkpoint.
    """
    if reference.prompt is None or len(reference.samples):
        _check_seconds(reference, limits)
        return
    config, tokenizer, prompt = checkpoint.config, checkpoint.speech_tokenizer.config, reference.prompt
    width, codes = config.talker.hidden_size, None if reference.x_vector_only else prompt.codes
    max_codes = round(limits.max_reference_s * SAMPLE_RATE) // tokenizer.encode_downsample_rate
    if prompt.x_vector.shape != (width,):
        why = f"its x-vector has {len(prompt.x_vector)} numbers; this checkpoint needs {width}"
    elif not np.isfinite(prompt.x_vector).all():
        why = "its x-vector has a number that is not finite as float32"
    elif codes is None:
        return
    elif codes.ndim != 2 or codes.shape[1] != config.talker.num_code_groups or not 0 < len(codes) <= max_codes:
        why = (
            f"its codes have the wrong shape; this checkpoint needs up to {max_codes} x {config.talker.num_code_groups}"
        )
    elif codes.min() < 0 or codes.max() >= tokenizer.encoder.codebook_size:
        why = "its codes are not of this checkpoint"
    else:
        return
    param = "voice" if prompt.fingerprint else "speaker_embedding"
    raise InvalidConfig(param=param, where=param, why=why)


def _check_seconds(reference: Reference, limits: Limits) -> None:
    seconds = len(reference.samples) / SAMPLE_RATE
    if seconds < limits.min_reference_s:
        raise ReferenceTooShort(param="ref_audio", seconds=seconds, limit=limits.min_reference_s)
    if seconds > limits.max_reference_s:
        raise ReferenceTooLong(param="ref_audio", seconds=seconds, limit=limits.max_reference_s)
