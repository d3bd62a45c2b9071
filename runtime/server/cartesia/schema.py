"""Messages to Cartesia's ``/tts/websocket`` and bodies of its HTTP routes."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, AliasChoices, Field, model_validator

from runtime.errors import InvalidConfig
from runtime.pronunciations.dictionary import MAX_WORDS, Word
from runtime.request import Reference, SpeechRequest
from runtime.server.session.speech_fields import SynthesisOptions
from runtime.server.text.filter import FilterName
from runtime.server.text.pronunciations import Pronunciations, Replacement, WordText
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from runtime.server.wire import (
    Name,
    StrictFields,
    Text,
    VoiceFields,
    check_frames,
    language_of,
    validate_fields,
    without_nulls,
)
from runtime.settings import Limits
from runtime.shared.audio.pcm_formats import MAX_RATE, MIN_RATE, PcmWriter

MAX_BUFFER_DELAY_MS = 3000  # Default buffer delay of Cartesia's API in milliseconds.

_PHONEMES_PREFIX = "<<"  # Start of an alias that consists of phonemes.

Encoding = Literal["pcm_s16le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"]
SAMPLE_BYTES = {"pcm_s16le": 2, "pcm_f32le": 4, "pcm_mulaw": 1, "pcm_alaw": 1}
MP3_RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

Read = TypeVar("Read", bound="CartesiaRequest")


class CartesiaVoice(StrictFields):
    mode: Literal["id"] = "id"
    id: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_id(cls, voice: object) -> object:
        """Accept a voice that is only an id, as newer clients send it."""
        return {"id": voice} if isinstance(voice, str) else voice


class OutputFormat(StrictFields):
    container: Literal["raw"] = "raw"
    encoding: Encoding = "pcm_s16le"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = 24_000

    @property
    def bytes_per_second(self) -> int:
        return self.sample_rate * SAMPLE_BYTES[self.encoding]

    def writer(self) -> PcmWriter:
        """Create an encoder for one audio stream in this format."""
        return PcmWriter(self.encoding, self.sample_rate)


class FileFormat(StrictFields):
    """Format of an audio file.

    `encoding` is only used for raw and wav, and `bit_rate` only for mp3.
    """

    container: Literal["raw", "wav", "mp3"] = "raw"
    encoding: Encoding = "pcm_s16le"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = 24_000
    bit_rate: Literal[32_000, 64_000, 96_000, 128_000, 192_000] | None = None

    @model_validator(mode="after")
    def _a_rate_of_mp3(self) -> Self:
        if self.container == "mp3" and self.sample_rate not in MP3_RATES_HZ:
            raise ValueError(f"mp3 has the sample rates {', '.join(map(str, MP3_RATES_HZ))}")
        return self


class CartesiaRequest(VoiceFields):
    """Base class of all speech requests in Cartesia's API.

    The fields from `seed` on are extensions to Cartesia's API, except `pronunciation_dict_id`.
    """

    model_id: Name | None = None
    voice: CartesiaVoice = CartesiaVoice()
    language: Name | None = Field(None, validation_alias=AliasChoices("language", "locale"))
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    instructions: Text | None = None
    graft: bool = False
    max_frames: Annotated[int, Field(ge=1)] | None = None
    text_filter: FilterName | None = None
    pronunciations: Pronunciations = Field([])
    pronunciation_dict_id: Name | None = None

    @property
    def dictionaries(self) -> list[tuple[str, str | None]]:
        return [] if self.pronunciation_dict_id is None else [(self.pronunciation_dict_id, None)]

    @property
    def dictionaries_field(self) -> str:
        return "pronunciation_dict_id"

    @property
    def filter_name(self) -> FilterName:
        """Return the name of the text filter, by default "none"."""
        return self.text_filter or "none"

    @property
    def language_name(self) -> str:
        return language_of(self.language)

    def resolve_voice(self, resolver: VoiceResolver) -> ResolvedVoice:
        """Return the mode and the voice that the request selects.

        Raises:
            ModeNotServed, UnknownVoice: No checkpoint serves the mode, or the voice does not exist.
        """
        return resolver.resolve_foreign(
            model=self.model_id, voice=self.voice.id, style=self.instructions, param=self.voice_field
        )

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Create the engine request for `text` with the settings of this request."""
        options = SynthesisOptions(
            language=self.language_name,
            instruct=self.instructions,
            graft=self.graft,
            max_break_s=math.inf,
            seed=self.seed,
            max_frames=self.max_frames,
        )
        return options.request(text, resolved, reference)


class Generation(CartesiaRequest):
    """WebSocket message with text for a context.

    The first message of a context has the settings of the context.
    """

    context_id: Annotated[Text, Field(min_length=1, max_length=256)] | None = None
    transcript: Text = ""
    goes_on: bool = Field(False, alias="continue")
    flush: bool = False
    cancel: bool = False
    output_format: OutputFormat = OutputFormat()
    max_buffer_delay_ms: Annotated[float, Field(ge=0)] | None = None
    add_timestamps: bool = False

    @property
    def filter_name(self) -> FilterName:
        """Return the name of the text filter.

        The default for streamed text is "markdown", because such text usually comes from a language model.
        """
        return self.text_filter or ("markdown" if self.goes_on else "none")

    @property
    def pause_s(self) -> float:
        """Return the pause in seconds after which received text is spoken."""
        delay_ms = self.max_buffer_delay_ms
        return (MAX_BUFFER_DELAY_MS if delay_ms is None else delay_ms) / 1000

    @property
    def speaks_at_once(self) -> bool:
        """True if received text is spoken immediately, because the client buffers text itself."""
        return self.flush or self.max_buffer_delay_ms == 0


class BytesBody(CartesiaRequest):
    """Body of ``/tts/bytes``: a text and the format of the audio file."""

    transcript: Text
    output_format: FileFormat = FileFormat()


class SseBody(CartesiaRequest):
    """Body of ``/tts/sse``: a text and the format of the audio in the events."""

    transcript: Text
    context_id: Annotated[Text, Field(max_length=256)] | None = None
    output_format: OutputFormat = OutputFormat()
    add_timestamps: bool = False


def _no_phonemes(alias: str) -> str:
    if _PHONEMES_PREFIX in alias:
        raise ValueError("phonemes are not supported; write the word as it sounds")
    return alias


class Item(StrictFields):
    """Item of a pronunciation dictionary: a word, and the text that is spoken instead."""

    text: WordText
    alias: Annotated[Replacement, AfterValidator(_no_phonemes)]
    case_sensitive: bool | None = None

    def as_word(self) -> Word:
        return Word(self.text, self.alias, bool(self.case_sensitive))


Items = Annotated[list[Item], Field(max_length=MAX_WORDS)]


class NewDict(StrictFields):
    """Request body that creates a pronunciation dictionary."""

    name: Name
    items: Items | None = None


class ChangedDict(StrictFields):
    """Request body that changes a pronunciation dictionary.

    `items` replaces all items of the dictionary.
    """

    name: Name | None = None
    items: Items | None = None


def read_generation(fields: dict[str, Any], limits: Limits) -> Generation:
    """Validate a decoded WebSocket message and return a `Generation`.

    Raises:
        BadRequest: See `read`, or the message has neither `transcript` nor `cancel`.
    """
    if fields.get("transcript") is None and not fields.get("cancel"):
        why = "it is required; send an empty text to end the transcript"
        raise InvalidConfig(where="transcript", why=why, param="transcript")
    return read(Generation, fields, limits)


def read(kind: type[Read], fields: dict[str, Any], limits: Limits) -> Read:
    """Validate a decoded WebSocket message or HTTP body and return an instance of `kind`.

    Raises:
        BadRequest: A field has the wrong type, is out of range, or requests an unsupported feature.
    """
    voice = fields.get("voice")
    if isinstance(voice, dict) and voice.get("mode") == "embedding":
        why = "embeddings are not supported; name a voice by its id"
        raise InvalidConfig(where="voice.mode", why=why, param="voice.mode")
    message = validate_fields(kind, without_nulls(fields))
    check_frames(message.max_frames, limits.max_frames)
    return message
