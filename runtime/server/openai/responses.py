"""Types of OpenAI's responses and of the batch request, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from runtime.server.descriptions import Model
from runtime.server.openai.schema import SpeechBody


class ModelList(TypedDict):
    """Response of /v1/models: a list of the checkpoints."""

    object: Literal["list"]
    data: list[Model]


class ModelAlias(TypedDict):
    """OpenAI model name that stands for any loaded checkpoint."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class SpeechModels(TypedDict):
    """List of models under the keys `data` and `models`, as Open WebUI expects."""

    object: Literal["list"]
    data: list[Model | ModelAlias]
    models: list[Model | ModelAlias]


class Usage(TypedDict):
    """Numbers of prompt tokens and generated frames, in OpenAI's format."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechBatch(SpeechBody):
    """Request body with a batch of texts.

    The fields of an item override the fields of the batch.
    """

    input: str = ""
    items: Annotated[list[SpeechBody], Field(min_length=1)]


class WordTime(TypedDict):
    """Estimated start and end of a word in seconds.

    `input_index` is the index of the dialogue turn that contains the word.
    """

    word: str
    start: float
    end: float
    input_index: NotRequired[int]


class BatchResult(TypedDict):
    """Result of one item in a batch: audio or an error."""

    index: int
    status: Literal["success", "error"]
    audio_data: Annotated[str | None, Field(description="base64")]
    media_type: str | None
    error: str | None
    seed: NotRequired[int | None]
    stop_reason: NotRequired[str]
    notes: NotRequired[list[str]]
    usage: NotRequired[Usage]
    words: NotRequired[list[WordTime]]
    code: NotRequired[str]
    param: NotRequired[str | None]
    retryable: NotRequired[bool]


class BatchReply(TypedDict):
    """Response to a batch, with the results in the order of the items."""

    id: str
    results: list[BatchResult]
    total: int
    succeeded: int
    failed: int
