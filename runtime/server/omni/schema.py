"""Message `session.config` of vLLM-Omni's API, with additional sampling fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from runtime.errors import InvalidConfig
from runtime.request import Reference, SpeechRequest, Split
from runtime.server.session.speech_fields import SpeechFields
from runtime.server.text.filter import FilterName
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import check_frames, validate_fields
from runtime.settings import Limits

FORMATS = ("wav", "pcm", "flac", "mp3", "aac", "opus")


class OmniConfig(SpeechFields):
    """Message `session.config`: settings for the next utterances."""

    response_format: str = "wav"
    speed: Annotated[float, Field(ge=0.25, le=4)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    initial_codec_chunk_frames: Annotated[int, Field(ge=0)] | None = None
    stream_audio: bool = False
    word_timestamps: bool = False
    split_granularity: Literal["none", "sentence", "clause"] = "none"
    streaming_mode: Literal["sentence", "token_level", "sentence_commit"] = "sentence"
    text_input_mode: Literal["buffered", "commitment"] = "buffered"

    @field_validator("response_format")
    @classmethod
    def _known_format(cls, word: str) -> str:
        if word not in FORMATS:
            raise ValueError(f"it must be one of {', '.join(FORMATS)}")
        return word

    @field_validator("word_timestamps")
    @classmethod
    def _no_timestamps(cls, wanted: bool) -> bool:
        if wanted:
            raise ValueError("this server has no aligner and cannot time words")
        return wanted

    @model_validator(mode="after")
    def _streams_samples(self) -> Self:
        if self.stream_audio and (self.response_format != "pcm" or self.speed != 1.0):
            raise InvalidConfig(
                where="stream_audio", why="it needs response_format pcm and speed 1.0", param="stream_audio"
            )
        return self

    @model_validator(mode="after")
    def _default_commit(self) -> Self:
        if self.text_input_mode == "commitment":
            if (self.language or "").lower() not in {"chinese", "english"}:
                why = "commitment needs language Chinese or English"
                raise InvalidConfig(where="text_input_mode", why=why, param="text_input_mode")
            if self.split_granularity != "none" or self.is_live:
                why = "commitment cuts the text itself; leave split_granularity and streaming_mode out"
                raise InvalidConfig(where="text_input_mode", why=why, param="text_input_mode")
        return self

    @property
    def is_live(self) -> bool:
        """True if text is spoken while it arrives, as one request."""
        return self.streaming_mode != "sentence"

    @property
    def filter_name(self) -> FilterName:
        """Return the name of the text filter.

        The default for streamed or split text is "markdown", because such text usually comes from a language model.
        """
        if self.text_filter is not None:
            return self.text_filter
        return "markdown" if self.is_live or self.split_unit is not Split.NONE else "none"

    @property
    def split_unit(self) -> Split:
        """Return the unit (none, sentence or clause) at which text is split into requests."""
        return Split.SENTENCE if self.text_input_mode == "commitment" else Split(self.split_granularity)

    @property
    def ignores_pauses(self) -> bool:
        """True if a pause in the text does not start speech.

        This is the case if the client commits sentences explicitly, or if the text is not split.
        """
        return self.streaming_mode == "sentence_commit" or (not self.is_live and self.split_unit is Split.NONE)

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Create the engine request for one sentence."""
        frames = self.frame_limit
        is_one_part = "split_granularity" in self.model_fields_set and self.split_granularity == "none"
        return replace(
            super().request(text, resolved, reference),
            max_frames=None if frames is None else max(1, frames),
            # The session splits the text itself, because it notifies the client of each segment. The engine splits only
            # streamed text and segments that are too long.
            split=Split.NONE if is_one_part and not self.is_live else Split.AUTO,
            # The audio of a file is not acknowledged until the file is complete. If acknowledgements were required, the
            # request would pause forever.
            acknowledged=self.stream_audio,
        )


def read_config(fields: dict[str, Any], limits: Limits) -> OmniConfig:
    """Validate a decoded `session.config` message and return the settings.

    Raises:
        BadRequest: A field has the wrong type, is out of range, or requests an unsupported feature.
    """
    known = {name: value for name, value in fields.items() if name != "type"}
    if known.get("streaming_mode") in ("token_level", "sentence_commit"):  # Both modes imply streamed audio.
        known = {"response_format": "pcm", **known, "stream_audio": True}
    config = validate_fields(OmniConfig, known)
    if config.frame_limit is not None:
        check_frames(config.frame_limit + 1, limits.max_frames + 1, param="max_new_tokens")
    return config
