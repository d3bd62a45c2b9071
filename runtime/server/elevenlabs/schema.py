"""Requests in ElevenLabs' format: WebSocket URLs and messages, and HTTP bodies.

Unknown fields and fields that checkpoints do not support are ignored (docs/api.md lists them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AliasChoices, Field

from runtime.errors import InvalidConfig, UnsupportedFormat
from runtime.request import ModelCard, Sampling
from runtime.server.elevenlabs.output_formats import DEFAULT, OUTPUT_FORMATS, OutputFormat
from runtime.server.session.dialogue import MAX_TURN_PAUSE_MS, MAX_TURNS, TURN_PAUSE_MS
from runtime.server.session.speech_fields import SynthesisOptions
from runtime.server.text.filter import FilterName
from runtime.server.text.pronunciations import MAX_DICTIONARIES, Pronunciations
from runtime.server.voices.voice_resolver import VOICE_ALIASES, ResolvedVoice, VoiceResolver
from runtime.server.wire import Name, StrictFields, Text, check_frames, language_of, validate_fields, without_nulls
from runtime.settings import Limits
from runtime.shared.audio.encoding import SPEEDS

# Ids of ElevenLabs' voices that are the default of clients such as LiveKit, or that appear in ElevenLabs' examples.
PREMADE = (
    *("hpp4J3VqNfWAUOO0d1Us", "EXAVITQu4vr4xnSDxMaL", "21m00Tcm4TlvDq8ikWAM", "JBFqnCBsd6RMkjVDRZzb"),
    *("cgSgspJ2msm6clMCkdW9", "pNInz6obpgDQGcFmaJgB", "nPczCjzI2devNBz1zQrb", "Xb7hH8MSUJpSbSDYk0k2"),
)
NO_CONTEXT = "The checkpoints do not use the surrounding text; {names} had no effect."
_CONTEXT = ("previous_text", "next_text", "previous_request_ids", "next_request_ids")
_MAX_BREAK_S = 3.0  # Maximum duration of a <break> in seconds, as in ElevenLabs' API.
NEUTRAL, _SWING = 0.5, 0.4  # Stability at which the temperature is not changed, and maximum change of the temperature.

Read = TypeVar("Read", bound="SynthesisFields")
Options = TypeVar("Options", bound="FileOptions")


def _known_format(name: str) -> str:
    if name not in OUTPUT_FORMATS:
        raise UnsupportedFormat(where="output_format", known=", ".join(OUTPUT_FORMATS), param="output_format")
    return name


FormatName = Annotated[Name, AfterValidator(_known_format)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class VoiceSettings(StrictFields):
    """Voice settings: `stability` changes the sampling temperature, `speed` the audio speed."""

    stability: Annotated[float, Field(ge=0, le=1)] | None = None
    speed: Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])] | None = None


class GenerationConfig(StrictFields):
    chunk_length_schedule: Annotated[list[Annotated[float, Field(ge=1, le=500)]], Field(max_length=64)] | None = None


class FileOptions(StrictFields):
    """Query parameters of the HTTP routes for speech."""

    output_format: FormatName = DEFAULT

    @property
    def format(self) -> OutputFormat:
        return OUTPUT_FORMATS[self.output_format]


class SocketOptions(FileOptions):
    """Query parameters of the WebSocket routes."""

    model_id: Name | None = None
    language_code: Name | None = None
    seed: Annotated[Seed, Field(strict=False)] | None = None
    inactivity_timeout: Annotated[int, Field(strict=False, ge=1, le=180)] = 20  # Inactivity timeout in seconds.
    auto_mode: Annotated[bool, Field(strict=False)] = False
    sync_alignment: Annotated[bool, Field(strict=False)] = False


class DictionaryLocator(StrictFields):
    """Id of a stored pronunciation dictionary and, optionally, of one of its versions.

    Without a version id, the latest version is used.
    """

    pronunciation_dictionary_id: Name
    version_id: Name | None = None


class SynthesisFields(StrictFields):
    """Base class of requests with synthesis fields.

    The fields after `next_request_ids` are extensions to ElevenLabs' API.
    """

    voice_settings: VoiceSettings = VoiceSettings()
    pronunciation_dictionary_locators: Annotated[list[DictionaryLocator], Field(max_length=MAX_DICTIONARIES)] = Field(
        default_factory=list
    )
    seed: Seed | None = None
    previous_text: Text | None = None
    next_text: Text | None = None
    previous_request_ids: Annotated[list[Name], Field(max_length=3)] = Field([])
    next_request_ids: Annotated[list[Name], Field(max_length=3)] = Field([])
    instructions: Text | None = None
    graft: bool = False
    tags: bool = False
    pronunciations: Pronunciations = Field([])
    max_frames: Annotated[int, Field(ge=1)] | None = None
    text_filter: FilterName | None = None

    @property
    def dictionaries(self) -> list[tuple[str, str | None]]:
        locators = self.pronunciation_dictionary_locators
        return [(locator.pronunciation_dictionary_id, locator.version_id) for locator in locators]

    @property
    def dictionaries_field(self) -> str:
        return "pronunciation_dictionary_locators"

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note about fields that have no effect, such as `previous_text`."""
        names = [name for name in _CONTEXT if getattr(self, name)]
        return (NO_CONTEXT.format(names=", ".join(names)),) if names else ()

    @property
    def speed(self) -> float:
        return self.voice_settings.speed or 1.0


class ClientMessage(SynthesisFields):
    """WebSocket message with text for a context.

    The first message of a context has the settings of the context.
    """

    text: Text | None = None
    context_id: Annotated[Text, Field(min_length=1, max_length=256)] | None = Field(
        None, validation_alias=AliasChoices("context_id", "contextId")
    )
    generation_config: GenerationConfig = Field(
        GenerationConfig(), validation_alias=AliasChoices("generation_config", "generator_config")
    )
    try_trigger_generation: bool = False
    flush: bool = False
    close_context: bool = False
    close_socket: bool = False


# Fields of messages that need no text.
_WITHOUT_TEXT = ("flush", "close_context", "close_socket")


class FileBody(SynthesisFields):
    """Base class of the bodies of HTTP routes for speech."""

    model_id: Name | None = None
    language_code: Name | None = None


class TextToSpeechBody(FileBody):
    """Body of ``/v1/text-to-speech`` with one text."""

    text: Text


class DialogueInput(StrictFields):
    """Turn of a dialogue: a text and the id of a voice."""

    text: Text
    voice_id: Name

    @property
    def voice_name(self) -> str:
        return self.voice_id


class DialogueBody(FileBody):
    """Body of ``/v1/text-to-dialogue`` with the turns of a dialogue.

    `turn_pause_ms` is an extension to ElevenLabs' API.
    """

    inputs: Annotated[list[DialogueInput], Field(min_length=1, max_length=MAX_TURNS)]
    voice_settings: VoiceSettings = Field(VoiceSettings(), validation_alias=AliasChoices("settings", "voice_settings"))
    turn_pause_ms: Annotated[float, Field(ge=0, le=MAX_TURN_PAUSE_MS)] = TURN_PAUSE_MS


def resolve_voice(
    voice_id: str, model_id: str | None, instructions: str | None, resolver: VoiceResolver
) -> ResolvedVoice:
    """Return the mode and the voice for ElevenLabs' voice id and model id.

    Raises:
        BadRequest: See `VoiceResolver.resolve_foreign`.
    """
    voice = VOICE_ALIASES[PREMADE.index(voice_id)] if voice_id in PREMADE else voice_id
    return resolver.resolve_foreign(model=model_id, voice=voice, style=instructions, param="voice_id")


def synthesis_options(
    fields: SynthesisFields,
    language_code: str | None,
    seed: int | None,
    resolved: ResolvedVoice,
    cards: Sequence[ModelCard],
) -> SynthesisOptions:
    """Convert the fields of a request to synthesis options.

    Args:
        seed: Seed in the URL, which is used if the message has no seed.
    """
    return SynthesisOptions(
        language=language_of(language_code),
        instruct=fields.instructions,
        graft=fields.graft,
        tags=fields.tags,
        max_break_s=_MAX_BREAK_S,
        seed=seed if fields.seed is None else fields.seed,
        max_frames=fields.max_frames,
        notes=fields.notes,
        sampling=Sampling(temperature=_temperature(fields.voice_settings.stability, resolved, cards)),
    )


def read(kind: type[Read], fields: dict[str, Any], limits: Limits) -> Read:
    """Validate a decoded WebSocket message or HTTP body and return an instance of `kind`.

    Raises:
        BadRequest: A field has the wrong type, is out of range, or requests an unsupported feature.
    """
    message = validate_fields(kind, without_nulls(fields))
    check_frames(message.max_frames, limits.max_frames)
    return message


def read_message(fields: dict[str, Any], limits: Limits) -> ClientMessage:
    """Validate a decoded WebSocket message and return a `ClientMessage`.

    Raises:
        BadRequest: See `read`, or the message has neither a text nor a field that needs no text.
    """
    if fields.get("text") is None and not any(fields.get(word) for word in _WITHOUT_TEXT):
        raise InvalidConfig(where="text", why="it is required and was not given", param="text")
    return read(ClientMessage, fields, limits)


def read_options(kind: type[Options], query: Mapping[str, str]) -> Options:
    """Validate the query parameters of a route and return an instance of `kind`.

    Raises:
        BadRequest: A parameter has an invalid value.
    """
    return validate_fields(kind, {name: word for name, word in query.items() if word})


def _temperature(stability: float | None, resolved: ResolvedVoice, cards: Sequence[ModelCard]) -> float | None:
    """Return the checkpoint's temperature times a factor that depends on the stability.

    The factor is 1.2 at stability 0 and 0.8 at stability 1.
    """
    temperature = next((card.sampling.temperature for card in cards if resolved.mode in card.modes), None)
    if stability is None or stability == NEUTRAL or temperature is None:
        return None
    return temperature * (1 + _SWING * (NEUTRAL - stability))
