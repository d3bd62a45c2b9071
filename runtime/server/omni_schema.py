"""The session.config of vLLM-Omni's dialect: its fields and defaults, and our own sampling fields beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from runtime.errors import InstructTooLong, InvalidConfig
from runtime.request import SpeechRequest, Split
from runtime.server.casting import Role
from runtime.server.schema import SessionConfig, checked
from runtime.settings import Limits

FORMATS = ("wav", "pcm", "flac", "mp3", "aac", "opus")


class OmniConfig(SessionConfig):
    """How the utterances speak that begin later."""

    response_format: str = "wav"
    speed: Annotated[float, Field(ge=0.25, le=4)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    initial_codec_chunk_frames: Annotated[int, Field(ge=0)] | None = None
    stream_audio: bool = False
    word_timestamps: bool = False
    split_granularity: Literal["none", "sentence", "clause"] = "none"

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

    def utterance(self, text: str, role: Role, seed: int | None) -> SpeechRequest:
        """Return the request that this makes of one sentence; its reference is still to come."""
        frames = self.frame_limit
        return replace(
            self.request(text, role, None),
            seed=self.seed if self.seed is not None else seed,
            max_frames=None if frames is None else max(1, frames),
            split=Split.NONE,  # it is cut here, where each part is announced
            # A file is sent once it is complete, and until then nothing of it is taken.
            acknowledged=self.stream_audio,
        )


def read_config(fields: dict[str, Any], limits: Limits) -> OmniConfig:
    """Check a decoded session.config.

    Raises:
        BadRequest: a field of the wrong type, out of its range, or for what is not served here.
    """
    if fields.get("speaker_embedding") is not None:
        why = "embeddings are not taken; send ref_audio"
        raise InvalidConfig(where="speaker_embedding", why=why, param="speaker_embedding")
    # Fields of the native protocol that mean nothing here are as unknown as any other.
    known = {name: value for name, value in fields.items() if name not in {"context_id", "frames"}}
    if known.get("streaming_mode") == "token_level":  # how newer clients of that server ask for a stream
        known = {"response_format": "pcm", **known, "stream_audio": True}
    config = checked(OmniConfig, known)
    if config.instruct is not None and len(config.instruct) > limits.max_instruct_chars:
        raise InstructTooLong(count=len(config.instruct), limit=limits.max_instruct_chars, param="instructions")
    if config.frame_limit is not None and config.frame_limit > limits.max_frames:
        why = f"it must be at most {limits.max_frames + 1}"
        raise InvalidConfig(where="max_new_tokens", why=why, param="max_new_tokens")
    return config
