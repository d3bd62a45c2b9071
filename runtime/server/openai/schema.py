"""Bodies of ``POST /v1/audio/speech`` and of the batch route.

The bodies have the fields of OpenAI and vLLM-Omni, and additional fields. The fields for voice and synthesis are the
same as in ``session.config``. Unknown fields are ignored, and a note to the client lists them. Error messages never
contain the client's input.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, AliasPath, ConfigDict, Field, model_validator

from runtime.errors import InvalidConfig, UnsupportedFormat
from runtime.markdown.narration import Part, PartKind, split_narration
from runtime.markdown.thoughts import without_thoughts
from runtime.request import Reference
from runtime.server.session.dialogue import MAX_TURN_PAUSE_MS, MAX_TURNS, TURN_PAUSE_MS
from runtime.server.session.speech_fields import NO_RECORDING, SpeechFields
from runtime.server.text.filter import FilterName
from runtime.server.wire import Name, Text, VoiceFields, check_field_count, validate_fields, without_nulls
from runtime.shared.audio.encoding import BIT_RATE_RANGE, FORMATS, SPEEDS, VOLUME_RANGE
from runtime.shared.audio.loudness import LOUDNESS_RANGE_LUFS

STREAM_FORMATS = ("audio", "sse")
FORMATS_WITH_LENGTH = ("wav", "flac")  # Formats whose header has the length of the audio, which many programs need.
DEFAULT_BATCH_FORMAT = "wav"  # Default format of vLLM-Omni. The default of OpenAI is mp3.
_WHOLE: dict[str, Any] = {"stream": False, "stream_format": None}


def _known_format(word: str) -> str:
    if word not in FORMATS:
        raise UnsupportedFormat(where="response_format", known=", ".join(FORMATS), param="response_format")
    return word


def _known_stream_format(word: str) -> str:
    if word not in STREAM_FORMATS:
        raise UnsupportedFormat(where="stream_format", known=", ".join(STREAM_FORMATS), param="stream_format")
    return word


# Names of the field with the voice. In OpenAI's API, a custom voice is an object: {"id": …}.
_VOICE_NAMES = AliasChoices(AliasPath("voice", "id"), "voice", "speaker")


def _requires_input_or_inputs(schema: dict[str, Any]) -> None:
    del schema["required"]
    schema["anyOf"] = [{"required": ["input"]}, {"required": ["inputs"]}]


class DialogueInput(VoiceFields):
    """Turn of a dialogue in a request body.

    If a field is null, the value of the same field in the body is used.
    """

    text: Text = Field(validation_alias=AliasChoices("text", "input"))
    voice: Name | None = Field(None, validation_alias=_VOICE_NAMES)
    language: Name | None = None
    instruct: Text | None = Field(None, validation_alias=AliasChoices("instructions", "instruct"))

    @property
    def voice_name(self) -> str | None:
        return self.voice


class SpeechBody(SpeechFields):
    """Request body with one text or a dialogue."""

    model_config = ConfigDict(json_schema_extra=_requires_input_or_inputs)

    input: Text = Field(description="the text; required without inputs")
    inputs: Annotated[list[DialogueInput], Field(max_length=MAX_TURNS)] = Field(
        [], description="turns of a dialogue, spoken in sequence"
    )
    turn_pause_ms: Annotated[float, Field(ge=0, le=MAX_TURN_PAUSE_MS)] = Field(
        TURN_PAUSE_MS, description="pause between turns in ms"
    )
    voice: Name | None = Field(None, validation_alias=_VOICE_NAMES)
    quoted_voice: Name | None = Field(None, description="of quoted speech in the input; null: the voice")
    action_voice: Name | None = Field(None, description="of *actions* in the input; null: the voice")
    response_format: Annotated[Name, AfterValidator(_known_format)] = "mp3"
    stream_format: Annotated[Name, AfterValidator(_known_stream_format)] | None = None
    stream: bool | None = None
    speed: Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])] = 1.0
    sample_rate: Literal[8000, 24000] = 24000
    bit_rate: Annotated[int, Field(ge=BIT_RATE_RANGE[0], le=BIT_RATE_RANGE[1])] | None = Field(
        None, description="of mp3, opus and aac, in bit/s; null: the format's"
    )
    volume: Annotated[float, Field(ge=VOLUME_RANGE[0], le=VOLUME_RANGE[1])] = Field(
        1.0, description="factor; peaks are limited"
    )
    loudness_lufs: Annotated[float, Field(ge=LOUDNESS_RANGE_LUFS[0], le=LOUDNESS_RANGE_LUFS[1])] | None = Field(
        None, description="loudness of a whole reply (BS.1770), peaks at most -1 dBTP"
    )
    text_filter: FilterName = "none"
    retries: Annotated[int, Field(ge=0, le=5)] = 0
    timestamp_granularities: Annotated[list[Literal["word"]], Field(max_length=1)] = Field(
        [], description='["word"]: estimated times of words, in events and batches'
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_that_is_not_served(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("word_timestamps"):
            why = 'send timestamp_granularities: ["word"]'
            raise InvalidConfig(where="word_timestamps", why=why, param="word_timestamps")
        if fields.get("inputs"):
            if fields.get("input"):
                raise ValueError("input and inputs exclude each other")
            if fields.get("quoted_voice") or fields.get("action_voice"):
                raise ValueError("quoted_voice and action_voice are for an input; each of inputs has its voice")
            fields = {**fields, "input": ""}
        return fields

    @property
    def is_narration(self) -> bool:
        """True if the request sets a separate voice for quoted speech or for actions in the text."""
        return self.quoted_voice is not None or self.action_voice is not None

    def narration(self) -> list[SpeechBody]:
        """Split the text at quoted speech and actions, and return a body for each part.

        Raises:
            InvalidConfig: The voice changes too often.
        """
        text = without_thoughts(self.input) if self.text_filter == "markdown" else self.input
        parts = split_narration(text, quotes=self.quoted_voice is not None, actions=self.action_voice is not None)
        if len(parts) > MAX_TURNS:
            why = f"its voice changes more than {MAX_TURNS} times"
            raise InvalidConfig(where="input", why=why, param="input")
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> SpeechBody:
        voices = {
            PartKind.QUOTE: ("quoted_voice", self.quoted_voice),
            PartKind.ACTION: ("action_voice", self.action_voice),
        }
        field, voice = voices.get(part.kind, (self.voice_field, self.voice))
        chosen: dict[str, Any] = {} if part.kind is PartKind.TEXT else {"voice": voice, **NO_RECORDING}
        body = self.model_copy(update={**chosen, "input": part.text, "quoted_voice": None, "action_voice": None})
        body._voice_field = field
        return body

    @property
    def turns(self) -> list[SpeechBody]:
        """Return a body for each turn of a dialogue, or this body if it has only one text."""
        return [self._turn(turn) for turn in self.inputs] or [self]

    def _turn(self, turn: DialogueInput) -> SpeechBody:
        chosen = without_nulls({"language": turn.language, "instruct": turn.instruct, "voice": turn.voice})
        if turn.voice is not None:
            chosen |= NO_RECORDING
        body = self.model_copy(update={**chosen, "input": turn.text, "inputs": []})
        body._voice_field = turn.voice_field if turn.voice is not None else self.voice_field
        return body

    def spoken(self, reference: Reference | None) -> Reference | None:
        """Return `reference` unchanged.

        Unlike in other APIs, the reference already contains the transcript of its recording.
        """
        return reference

    @property
    def is_whole(self) -> bool:
        """True if the response is one complete body, whose length is known before it is sent."""
        if self.stream is None and self.stream_format is None:
            return self.response_format in FORMATS_WITH_LENGTH
        return self.stream is False

    @property
    def is_events(self) -> bool:
        """True if the response consists of server-sent events.

        Without `stream_format`, vLLM-Omni's `stream` selects server-sent events.
        """
        return self.stream_format == "sse" or (self.stream is True and self.stream_format is None)


def read_speech(fields: dict[str, Any], *, is_streaming_client: bool = False, is_in_batch: bool = False) -> SpeechBody:
    """Validate the decoded body of a speech request and return it as a `SpeechBody`.

    Args:
        fields: Decoded body.
        is_streaming_client: True if the client plays the response while it arrives. If the body then has neither
            `stream` nor `stream_format`, the audio is streamed.
        is_in_batch: True for an item of a batch.

    Raises:
        InvalidConfig, UnsupportedFormat: A field has the wrong type, is out of range, or contradicts another field.
    """
    body = validate_fields(SpeechBody, fields)
    if is_streaming_client and body.stream is None and body.stream_format is None:
        body = body.model_copy(update={"stream_format": "audio"})
    if body.is_whole and body.stream_format == "sse":
        raise InvalidConfig(where="stream", why="events need a stream", param="stream")
    if body.retries and not body.is_whole:
        why = "only whole replies are retried; set stream to false"
        raise InvalidConfig(where="retries", why=why, param="retries")
    if body.loudness_lufs is not None and not body.is_whole:
        why = "only whole replies can be measured; set stream to false"
        raise InvalidConfig(where="loudness_lufs", why=why, param="loudness_lufs")
    if body.bit_rate is not None and FORMATS[body.response_format].bit_rate is None:
        raise InvalidConfig(where="bit_rate", why="only mp3, opus and aac have a bit rate", param="bit_rate")
    if body.timestamp_granularities and not (body.is_events or is_in_batch):
        where, why = "timestamp_granularities", "only events and batches have times; set stream_format to sse"
        raise InvalidConfig(where=where, why=why, param=where)
    return body


def read_batch(fields: dict[str, Any], max_items: int) -> list[dict[str, Any]]:
    """Return the body of each item in a batch, without validation.

    The fields of an item override the fields of the batch.

    Raises:
        InvalidConfig: ``items`` is not a list of objects, or is empty or too long, or an object has too many fields.
    """
    check_field_count(fields)
    items = fields.get("items")
    if not isinstance(items, list) or not 1 <= len(items) <= max_items:
        raise InvalidConfig(where="items", why=f"it must be a list of 1 to {max_items} objects", param="items")
    if not all(isinstance(item, dict) for item in items):
        raise InvalidConfig(where="items", why="each of them must be an object with an input", param="items")
    for item in items:
        check_field_count(item)
    common_fields = {
        name: value for name, value in fields.items() if value is not None and name not in {"items", "input"}
    }
    return [
        {"response_format": DEFAULT_BATCH_FORMAT, **common_fields, **without_nulls(item), **_WHOLE} for item in items
    ]
