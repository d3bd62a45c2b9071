"""Client messages of ``voicewright.speech.v1``, strictly validated.

Field names are vLLM-Omni's where it has them, so that its clients' configurations work here. Unknown keys
are ignored, as there, and named in a note. No sentence of an error quotes what the client sent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from runtime.errors import InvalidConfig
from runtime.request import Layout, Mode, Reference, Sampling, SpeechRequest, Split
from runtime.server.session.utterance import GrowingText
from runtime.server.text.filter import FilterName
from runtime.server.text.pronunciations import DictionaryIds, Pronunciations
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from runtime.server.wire import Name, StrictFields, Text, checked, given, language_of
from runtime.settings import Limits

MODES = {
    **{mode.value: mode for mode in Mode},
    "CustomVoice": Mode.CUSTOM_VOICE,
    "VoiceDesign": Mode.VOICE_DESIGN,
    "Base": Mode.BASE,
}


def _mode(word: object) -> object:
    if isinstance(word, str) and word in MODES:
        return MODES[word]
    raise ValueError("it must be CustomVoice, VoiceDesign or Base")


def _pcm(word: str) -> str:
    if word != "pcm":
        raise ValueError("it must be pcm; other formats are not served on this route")
    return word


ContextId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
Milliseconds = Annotated[float, Field(ge=0, le=1e9)]


def _not_zero(value: Any) -> Any:
    if value == 0:
        raise ValueError("it must be more than 0; for the most probable code at each step send do_sample: false")
    return value


Temperature = Annotated[float, BeforeValidator(_not_zero), Field(gt=0, le=5)]
TopK = Annotated[int, Field(ge=0, le=100_000)]
TopP = Annotated[float, Field(gt=0, le=1)]


class Message(StrictFields):
    """Base class of all messages."""

    context_id: ContextId | None = Field(None, description="the utterance it is for; null: default")


class SessionConfig(Message):
    """Settings of contexts that open later; with a `context_id`, of that context's next utterance only."""

    type: Literal["session.config"]
    task_type: Annotated[Mode, BeforeValidator(_mode)] | None = Field(
        None, description="mode; null: the voice's or the reference audio's, else the first loaded"
    )
    model: Name | None = Field(None, description="id of a loaded model; null: any that serves the mode")
    voice: Name | None = Field(
        None,
        validation_alias=AliasChoices("voice", "speaker"),
        description="a stored voice, by name or id, or a speaker",
    )
    language: Name | None = Field(None, description="name or code (en, pt-BR) of a language, or auto")
    instruct: Text | None = Field(
        None,
        validation_alias=AliasChoices("instructions", "instruct", "voice_description"),
        description="style (CustomVoice), description (VoiceDesign)",
    )
    graft: bool = Field(
        False, description="experimental: embed text and codes of a stored voice with a style by Base's tables"
    )
    response_format: Annotated[str, AfterValidator(_pcm)] = Field("pcm", description="only pcm")
    ref_audio: str | None = Field(
        None, repr=False, description="recording to clone: data: URL, base64, or https address if the server allows it"
    )
    ref_text: Text | None = Field(None, description="the exact words of ref_audio")
    x_vector_only_mode: bool = Field(False, description="clone without a transcript")
    non_streaming_mode: bool | None = Field(
        None, description="true: all text before the audio, false: token by token, null: the checkpoint's default"
    )
    split_granularity: Literal["none", "sentence", "clause"] | None = Field(
        None,
        description="where the text may be cut; null: one message is one part, later messages go by sentences",
    )
    max_buffer_delay_ms: Annotated[float, Field(ge=0, le=60_000)] | None = Field(
        None,
        description="milliseconds without text after a sentence, until it is spoken; "
        "null: limits.max_buffer_delay_ms; not with split_granularity none",
    )
    text_filter: FilterName | None = Field(
        None,
        description="markdown: speak what it means; null: markdown, but none with split_granularity none",
    )
    pronunciations: Pronunciations = Field([], description="whole words to replace")
    pronunciation_dictionaries: DictionaryIds = Field(
        [], description="ids of kept dictionaries, applied after pronunciations"
    )
    tags: bool = Field(False, description="read tags: [excited] is a style of what follows, [pause:500ms] a silence")
    initial_codec_chunk_frames: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="frames in the first chunk of audio; 0 or null: the server decides"
    )
    frames: Literal["plain", "labelled"] = Field("plain", description="form of the binary messages")
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(None, description="null: drawn and reported")
    max_frames: Annotated[int, Field(ge=1)] | None = Field(
        None, description="frames of 80 ms, up to limits.max_frames; null: a budget from the text's length"
    )
    max_new_tokens: Annotated[int, Field(ge=2)] | None = Field(None, description="max_frames + 1")
    do_sample: bool = Field(True, description="false: the most probable code at both levels")
    temperature: Temperature | None = Field(None, description="null: the checkpoint's, as for all below")
    top_k: TopK | None = None
    top_p: TopP | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: TopP | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_name_each(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for names in (("voice", "speaker"), ("instructions", "instruct", "voice_description")):
            values = [fields[name] for name in names if fields.get(name) is not None]
            if any(value != values[0] for value in values[1:]):
                raise ValueError(f"{' and '.join(names)} are the same field and differ")
        # An alias that is null must not hide the other one that is set.
        return given(fields)

    @property
    def frame_limit(self) -> int | None:
        """Return the requested number of frames; the last of max_new_tokens is the end token."""
        if self.max_frames is None and self.max_new_tokens is not None:
            return self.max_new_tokens - 1
        return self.max_frames

    @property
    def waits_for_its_end(self) -> bool:
        """True if no pause makes received text spoken, because the text is one part."""
        return self.split_granularity == "none"

    @property
    def filter_name(self) -> FilterName:
        """Return the text filter. Streamed text is treated as a language model's output."""
        if self.text_filter is not None:
            return self.text_filter
        return "none" if self.split_granularity == "none" else "markdown"

    def pause_s(self, limits: Limits) -> float | None:
        """Return the pause of a text after which it is spoken; None where none means anything."""
        if self.waits_for_its_end:
            return None
        asked = self.max_buffer_delay_ms
        return (limits.max_buffer_delay_ms if asked is None else asked) / 1000

    def growing_text(self, limits: Limits) -> GrowingText:
        """Return an utterance's text, of which nothing has come yet."""
        return GrowingText(
            limits, self.filter_name, self.pause_s(limits), pronunciations=self.pronunciations, tags=self.tags
        )

    @property
    def dictionaries(self) -> list[tuple[str, str | None]]:
        return [(dictionary_id, None) for dictionary_id in self.pronunciation_dictionaries]

    @property
    def dictionaries_field(self) -> str:
        return "pronunciation_dictionaries"

    @property
    def layout(self) -> Layout | None:
        if self.non_streaming_mode is None:
            return None
        return Layout.NON_STREAMING if self.non_streaming_mode else Layout.STREAMING

    def resolve_voice(self, resolver: VoiceResolver) -> ResolvedVoice:
        """Resolve mode and voice.

        Raises:
            BadRequest: see `VoiceResolver.resolve`.
        """
        has_reference = self.ref_audio is not None
        return resolver.resolve(
            mode=self.task_type, model=self.model, voice=self.voice, has_reference=has_reference, style=self.instruct
        )

    def spoken(self, reference: Reference | None) -> Reference | None:
        """Return the reference with what is said of it here."""
        if reference is None:
            return None
        x_vector_only = self.x_vector_only_mode or reference.x_vector_only
        return replace(reference, text=self.ref_text or reference.text, x_vector_only=x_vector_only)

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Return the utterance that this configuration makes of a text."""
        return SpeechRequest(
            text=text,
            mode=resolved.mode,
            voice=resolved.speaker,
            language=language_of(self.language),
            instruct=self.instruct,
            graft=self.graft,
            reference=self.spoken(reference),
            layout=self.layout,
            sampling=Sampling(
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                repetition_penalty=self.repetition_penalty,
                predictor_temperature=self.subtalker_temperature,
                predictor_top_k=self.subtalker_top_k,
                predictor_top_p=self.subtalker_top_p,
                greedy=not self.do_sample,
            ),
            seed=self.seed,
            max_frames=self.frame_limit,
            split=Split.AUTO if self.split_granularity is None else Split(self.split_granularity),
            tags=self.tags,
            holds_end=True,
            acknowledged=True,
            first_chunk_frames=self.initial_codec_chunk_frames or None,
            notes=(*resolved.notes, *self.notes),
        )


class InputText(Message):
    """Append to an utterance's text; the first message opens it, and speech may start."""

    type: Literal["input.text"]
    text: Text


class InputFlush(Message):
    """Speak the text so far, even if a word or sentence may continue."""

    type: Literal["input.flush"]


class InputDone(Message):
    """The text is complete."""

    type: Literal["input.done"]


class ContextCancel(Message):
    """Stop the utterance; ignored if it has ended."""

    type: Literal["context.cancel"]
    played_ms: Milliseconds | None = Field(None, description="audio that the listener has heard; returned")


class Playback(Message):
    """Playback position of the listener."""

    type: Literal["playback"]
    played_ms: Milliseconds = Field(description="of the utterance, in total")
    buffered_ms: Milliseconds | None = Field(None, description="received and not played")


class Ping(Message):
    """Answered by pong; keeps an idle session open."""

    type: Literal["ping"]
    t: float | int | None = Field(None, description="returned")


class SessionClose(Message):
    """Cancel everything in flight and close."""

    type: Literal["session.close"]


ClientMessage = SessionConfig | InputText | InputFlush | InputDone | ContextCancel | Playback | Ping | SessionClose
MESSAGES: dict[str, type[ClientMessage]] = {
    "session.config": SessionConfig,
    "input.text": InputText,
    "input.flush": InputFlush,
    "input.done": InputDone,
    "context.cancel": ContextCancel,
    "playback": Playback,
    "ping": Ping,
    "session.close": SessionClose,
}
_CONTEXT_ID = TypeAdapter(ContextId)


def parse(fields: dict[str, Any]) -> ClientMessage:
    """Check a decoded message.

    Raises:
        InvalidConfig: unknown type, or a field of the wrong type or out of its range.
    """
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in MESSAGES:
        raise InvalidConfig(where="type", why=f"it must be one of {', '.join(MESSAGES)}", param="type")
    return checked(MESSAGES[kind], fields)


def context_of(fields: dict[str, Any]) -> str | None:
    """Return the context id of a message that may be wrong elsewhere, or None."""
    try:
        return _CONTEXT_ID.validate_python(fields.get("context_id"), strict=True)
    except ValidationError:
        return None
