"""Fields of a speech request in the native, vLLM-Omni and OpenAI APIs.

The fields have the same names as in vLLM-Omni, so that its clients work with this server. As in vLLM-Omni, unknown
fields are ignored, and a note lists them. Error messages never contain the client's input.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from runtime.errors import InvalidConfig
from runtime.request import Layout, Mode, Reference, Sampling, SpeechRequest, Split, VoicePrompt
from runtime.server.session.utterance import StreamedText
from runtime.server.text.filter import FilterName, create_text_filters
from runtime.server.text.pronunciations import DictionaryIds, Pronunciations, dictionary_for
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from runtime.server.wire import Name, Text, VoiceFields, language_of, without_nulls
from runtime.settings import Limits

# Maximum number of elements of an x-vector, as in vLLM-Omni. The published checkpoints use 1024 and 2048.
MAX_X_VECTOR = 8192
# Update of the settings that removes the recording of the client.
NO_RECORDING: dict[str, None] = {"ref_audio": None, "speaker_embedding": None}
CHECKPOINT_DEFAULT = "null: checkpoint default"
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


def _not_zero(value: Any) -> Any:
    if value == 0:
        raise ValueError("it must be more than 0; for the most probable code at each step send do_sample: false")
    return value


Temperature = Annotated[float, BeforeValidator(_not_zero), Field(gt=0, le=5)]
TopK = Annotated[int, Field(ge=0, le=100_000)]
TopP = Annotated[float, Field(gt=0, le=1)]


class SpeechFields(VoiceFields):
    """Request fields for the voice and the synthesis settings."""

    task_type: Annotated[Mode, BeforeValidator(_mode)] | None = Field(
        None, description="mode; null: mode of the voice or recording, or first loaded mode"
    )
    model: Name | None = Field(None, description="id of a loaded model; null: any model with this mode")
    voice: Name | None = Field(
        None,
        validation_alias=AliasChoices("voice", "speaker"),
        description="name or id of a stored voice, or a speaker",
    )
    language: Name | None = Field(None, description="name or code (en, pt-BR) of a language, or auto")
    instruct: Text | None = Field(
        None,
        validation_alias=AliasChoices("instructions", "instruct", "voice_description"),
        description="style (CustomVoice), description (VoiceDesign)",
    )
    graft: bool = Field(False, description="experimental: use Base's embeddings for a stored voice with instructions")
    ref_audio: str | None = Field(
        None, repr=False, description="recording to clone: data: URL, base64, or https address if the server allows it"
    )
    ref_text: Text | None = Field(None, description="exact transcript of ref_audio")
    x_vector_only_mode: bool = Field(False, description="clone without a transcript")
    speaker_embedding: Annotated[list[float], Field(max_length=MAX_X_VECTOR)] | None = Field(
        None, repr=False, description="x-vector of the checkpoint's width, instead of ref_audio"
    )
    non_streaming_mode: bool | None = Field(
        None, description="true: all text before the audio, false: token by token, null: the checkpoint's default"
    )
    split_granularity: Literal["none", "sentence", "clause"] | None = Field(
        None,
        description="where text may be split; null: one message is one part, later ones are split by sentence",
    )
    max_buffer_delay_ms: Annotated[float, Field(ge=0, le=60_000)] | None = Field(
        None,
        description="pause in ms after which a complete sentence is spoken; "
        "null: limits.max_buffer_delay_ms; not with split_granularity none",
    )
    text_filter: FilterName | None = Field(
        None,
        description="markdown: remove the markup; null: markdown, but none with split_granularity none",
    )
    pronunciations: Pronunciations = Field([], description="whole words to replace")
    pronunciation_dictionaries: DictionaryIds = Field(
        [], description="ids of stored dictionaries, applied after pronunciations"
    )
    tags: bool = Field(False, description="apply tags: [excited] is a style, [pause:500ms] is silence")
    initial_codec_chunk_frames: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="frames in the first chunk of audio; 0 or null: the server decides"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(None, description="null: random; see audio.start")
    max_frames: Annotated[int, Field(ge=1)] | None = Field(
        None, description="frames of 80 ms, up to limits.max_frames; null: derived from the text's length"
    )
    max_new_tokens: Annotated[int, Field(ge=2)] | None = Field(
        None, description="alternative to max_frames: max_frames + 1"
    )
    do_sample: bool = Field(True, description="false: greedy decoding")
    temperature: Temperature | None = Field(None, description=CHECKPOINT_DEFAULT)
    top_k: TopK | None = Field(None, description=CHECKPOINT_DEFAULT)
    top_p: TopP | None = Field(None, description=CHECKPOINT_DEFAULT)
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = Field(None, description=CHECKPOINT_DEFAULT)
    subtalker_temperature: Temperature | None = Field(None, description=CHECKPOINT_DEFAULT)
    subtalker_top_k: TopK | None = Field(None, description=CHECKPOINT_DEFAULT)
    subtalker_top_p: TopP | None = Field(None, description=CHECKPOINT_DEFAULT)

    @model_validator(mode="before")
    @classmethod
    def _one_name_each(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for names in (("voice", "speaker"), ("instructions", "instruct", "voice_description")):
            values = [fields[name] for name in names if fields.get(name) is not None]
            if any(value != values[0] for value in values[1:]):
                raise ValueError(f"{' and '.join(names)} are the same field and differ")
        if fields.get("speaker_embedding") is not None and fields.get("ref_audio") is not None:
            raise ValueError("speaker_embedding and ref_audio exclude each other")
        # Null fields are removed, so that a null alias does not hide another alias of the same field.
        return without_nulls(fields)

    @property
    def frame_limit(self) -> int | None:
        """Return the requested maximum number of codec frames, or None.

        `max_new_tokens` also counts the end token.
        """
        if self.max_frames is None and self.max_new_tokens is not None:
            return self.max_new_tokens - 1
        return self.max_frames

    @property
    def ignores_pauses(self) -> bool:
        """True if a pause in the text does not start speech, because the text is not split."""
        return self.split_granularity == "none"

    @property
    def filter_name(self) -> FilterName:
        """Return the name of the text filter.

        The default is "markdown", because text that is split usually comes from a language model.
        """
        if self.text_filter is not None:
            return self.text_filter
        return "none" if self.split_granularity == "none" else "markdown"

    def pause_s(self, limits: Limits) -> float | None:
        """Return the length in seconds of a pause after which received text is spoken.

        The result is None if pauses have no effect.
        """
        if self.ignores_pauses:
            return None
        delay_ms = self.max_buffer_delay_ms
        return (limits.max_buffer_delay_ms if delay_ms is None else delay_ms) / 1000

    def create_streamed_text(self, limits: Limits) -> StreamedText:
        """Create an empty streamed text with the text settings of this request."""
        dictionary = dictionary_for(self.pronunciations, limits, tags=self.tags)
        return StreamedText(limits, create_text_filters(self.filter_name, dictionary), self.pause_s(limits))

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
        """Return the mode and the voice that these fields select.

        Raises:
            BadRequest: See `VoiceResolver.resolve`, or the mode does not support a speaker embedding.
        """
        resolved = resolver.resolve(
            mode=self.task_type,
            model=self.model,
            voice=self.voice,
            has_reference=self.ref_audio is not None or self.speaker_embedding is not None,
            style=self.instruct,
            param=self.voice_field,
        )
        if self.speaker_embedding is not None and resolved.mode is not Mode.BASE:
            raise InvalidConfig(where="speaker_embedding", why="only Base uses one", param="speaker_embedding")
        return resolved

    @property
    def recording(self) -> str | Reference | None:
        """Return the encoded recording or the speaker embedding in the request, or None.

        A speaker embedding is returned as a reference without audio.
        """
        if self.speaker_embedding is None:
            return self.ref_audio
        with np.errstate(over="ignore"):  # Infinite values are ignored here, because the engine refuses them.
            x_vector = np.asarray(self.speaker_embedding, np.float32)
        prompt = VoicePrompt(fingerprint="", x_vector=x_vector)
        return Reference(samples=np.zeros(0, np.float32), x_vector_only=True, prompt=prompt)

    def spoken(self, reference: Reference | None) -> Reference | None:
        """Return a copy of `reference` with the transcript and the x-vector option of the request."""
        if reference is None:
            return None
        x_vector_only = self.x_vector_only_mode or reference.x_vector_only
        return replace(reference, text=self.ref_text or reference.text, x_vector_only=x_vector_only)

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Create the engine request for `text` with the settings in these fields."""
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
            bans_eos=True,
            acknowledged=True,
            first_chunk_frames=self.initial_codec_chunk_frames or None,
            notes=(*resolved.notes, *self.notes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisOptions:
    """Synthesis options in the APIs of services whose clients cannot send a recording."""

    language: str
    instruct: str | None = None
    graft: bool = False
    tags: bool = False
    max_break_s: float | None = None
    seed: int | None = None
    max_frames: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    notes: tuple[str, ...] = ()

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Create the engine request for `text` with these options.

        If the reference has no transcript, only its x-vector is used.
        """
        if reference is not None:
            reference = replace(reference, x_vector_only=reference.x_vector_only or reference.text is None)
        return SpeechRequest(
            text=text,
            mode=resolved.mode,
            voice=resolved.speaker,
            language=self.language,
            instruct=self.instruct,
            graft=self.graft,
            tags=self.tags,
            max_break_s=self.max_break_s,
            reference=reference,
            sampling=self.sampling,
            seed=self.seed,
            max_frames=self.max_frames,
            bans_eos=True,
            acknowledged=True,
            notes=(*resolved.notes, *self.notes),
        )
