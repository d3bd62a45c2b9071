"""The client's message of Cartesia's ``/tts/websocket``: text, flush and cancel in one shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from runtime.errors import InstructTooLong, InvalidConfig
from runtime.request import Reference, SpeechRequest
from runtime.server.casting import Role
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
    encoding: Literal["pcm_s16le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"] = "pcm_s16le"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = 24_000


class Generation(Part):
    """More text of a context, and with the first of it how the context speaks; ``seed`` and what follows are ours."""

    context_id: Annotated[Text, Field(min_length=1, max_length=256)] | None = None
    transcript: Text = ""
    goes_on: bool = Field(False, alias="continue")
    flush: bool = False
    cancel: bool = False
    model_id: Name | None = None
    voice: Voice = Voice()
    language: Name | None = None
    output_format: OutputFormat = OutputFormat()
    max_buffer_delay_ms: Annotated[float, Field(ge=0)] | None = None
    add_timestamps: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    instructions: Text | None = None
    max_frames: Annotated[int, Field(ge=1)] | None = None

    @property
    def speaks_at_once(self) -> bool:
        """The client has gathered what belongs together: no text waits here for more."""
        return self.flush or self.max_buffer_delay_ms == 0

    @property
    def language_name(self) -> str:
        code = (self.language or "auto").lower()
        return LANGUAGES.get(code.split("-")[0], code)

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


def read_generation(fields: dict[str, Any], limits: Limits) -> Generation:
    """Check a decoded message.

    Raises:
        BadRequest: a field of the wrong type, out of its range, or for what is not served here.
    """
    voice = fields.get("voice")
    if isinstance(voice, dict) and voice.get("mode") == "embedding":
        why = "embeddings are not taken; name a voice by its id"
        raise InvalidConfig(where="voice", why=why, param="voice")
    message = checked(Generation, {name: value for name, value in fields.items() if value is not None})
    if message.instructions is not None and len(message.instructions) > limits.max_instruct_chars:
        count = len(message.instructions)
        raise InstructTooLong(count=count, limit=limits.max_instruct_chars, param="instructions")
    if message.max_frames is not None and message.max_frames > limits.max_frames:
        raise InvalidConfig(where="max_frames", why=f"it must be at most {limits.max_frames}", param="max_frames")
    return message
