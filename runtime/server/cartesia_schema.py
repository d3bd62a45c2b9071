"""What Cartesia's clients send: messages of ``/tts/websocket`` and bodies of ``/tts/bytes``."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from runtime.errors import InstructTooLong, InvalidConfig
from runtime.request import Reference, SpeechRequest
from runtime.server.casting import Casting, Role
from runtime.server.pcm_formats import MAX_RATE, MIN_RATE
from runtime.server.schema import Name, Text, checked
from runtime.settings import Limits

# Their codes for the languages that checkpoints of this family know by name.
LANGUAGES = {
    "zh": "chinese",
    "en": "english",
    "ja": "japanese",
    "ko": "korean",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "pt": "portuguese",
    "es": "spanish",
    "it": "italian",
}


Encoding = Literal["pcm_s16le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"]
MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)  # Hz; there are no others

Read = TypeVar("Read", bound="Utterance")


class Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


class Voice(Part):
    mode: Literal["id"] = "id"
    id: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _its_id_alone(cls, voice: object) -> object:
        """Newer clients say no more than the id."""
        return {"id": voice} if isinstance(voice, str) else voice


class OutputFormat(Part):
    container: Literal["raw"] = "raw"
    encoding: Encoding = "pcm_s16le"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = 24_000


class FileFormat(Part):
    """``encoding`` is of raw and wav, ``bit_rate`` of mp3."""

    container: Literal["raw", "wav", "mp3"] = "raw"
    encoding: Encoding = "pcm_s16le"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = 24_000
    bit_rate: Literal[32_000, 64_000, 96_000, 128_000, 192_000] | None = None

    @model_validator(mode="after")
    def _a_rate_of_mp3(self) -> Self:
        if self.container == "mp3" and self.sample_rate not in MP3_RATES:
            raise ValueError(f"mp3 has the sample rates {', '.join(map(str, MP3_RATES))}")
        return self


class Utterance(Part):
    """Who speaks, and how; ``seed`` and what follows are ours."""

    model_id: Name | None = None
    voice: Voice = Voice()
    language: Name | None = Field(None, validation_alias=AliasChoices("language", "locale"))
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    instructions: Text | None = None
    max_frames: Annotated[int, Field(ge=1)] | None = None

    @property
    def language_name(self) -> str:
        code = (self.language or "auto").lower()
        return LANGUAGES.get(code.split("-")[0], code)

    def cast(self, casting: Casting, models: Set[str]) -> Role:
        """Choose who speaks. A model that is none of ours ("sonic-2") is any of them.

        Raises:
            BadRequest: see `Casting.cast`.
        """
        model = self.model_id if self.model_id in models else None
        return casting.cast(mode=None, model=model, voice=self.voice.id, has_reference=False)

    def request(self, text: str, role: Role, reference: Reference | None, *, open_text: bool) -> SpeechRequest:
        """Return the request that this begins."""
        if reference is not None:
            reference = replace(reference, x_vector_only=reference.x_vector_only or reference.text is None)
        return SpeechRequest(
            text=text,
            mode=role.mode,
            voice=role.speaker,
            language=self.language_name,
            instruct=self.instructions,
            reference=reference,
            seed=self.seed,
            max_frames=self.max_frames,
            open_text=open_text,
            holds_end=True,
            acknowledged=True,
        )


class Generation(Utterance):
    """More text of a context, and with the first of it how the context speaks."""

    context_id: Annotated[Text, Field(min_length=1, max_length=256)] | None = None
    transcript: Text = ""
    goes_on: bool = Field(False, alias="continue")
    flush: bool = False
    cancel: bool = False
    output_format: OutputFormat = OutputFormat()
    max_buffer_delay_ms: Annotated[float, Field(ge=0)] | None = None
    add_timestamps: bool = False

    @property
    def speaks_at_once(self) -> bool:
        """The client has gathered what belongs together: no text waits here for more."""
        return self.flush or self.max_buffer_delay_ms == 0


class BytesBody(Utterance):
    """One text and the file that it becomes."""

    transcript: Text
    output_format: FileFormat = FileFormat()


def read_generation(fields: dict[str, Any], limits: Limits) -> Generation:
    """Check a decoded message.

    Raises:
        BadRequest: a field of the wrong type, out of its range, or for what is not served here.
    """
    return _read(Generation, fields, limits)


def read_bytes_body(fields: dict[str, Any], limits: Limits) -> BytesBody:
    """Check a decoded body.

    Raises:
        BadRequest: as above.
    """
    return _read(BytesBody, fields, limits)


def _read(kind: type[Read], fields: dict[str, Any], limits: Limits) -> Read:
    voice = fields.get("voice")
    if isinstance(voice, dict) and voice.get("mode") == "embedding":
        why = "embeddings are not taken; name a voice by its id"
        raise InvalidConfig(where="voice", why=why, param="voice")
    message = checked(kind, {name: value for name, value in fields.items() if value is not None})
    if message.instructions is not None and len(message.instructions) > limits.max_instruct_chars:
        count = len(message.instructions)
        raise InstructTooLong(count=count, limit=limits.max_instruct_chars, param="instructions")
    if message.max_frames is not None and message.max_frames > limits.max_frames:
        raise InvalidConfig(where="max_frames", why=f"it must be at most {limits.max_frames}", param="max_frames")
    return message
