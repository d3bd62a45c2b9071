"""Response types of OpenAI's API and the body of a batch, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from runtime.server.descriptions import Model
from runtime.server.openai.schema import SpeechBody


class ModelList(TypedDict):
    """List of the loaded checkpoints."""

    object: Literal["list"]
    data: list[Model]


class ModelAlias(TypedDict):
    """OpenAI model name that stands for any loaded checkpoint."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class SpeechModels(TypedDict):
    """Model list under two keys, as Open WebUI expects it."""

    object: Literal["list"]
    data: list[Model | ModelAlias]
    models: list[Model | ModelAlias]


class Usage(TypedDict):
    """Number of prompt positions and generated frames."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechBatch(SpeechBody):
    """Batch of texts.

    Fields of an item override those of the batch.
    """

    input: str = ""
    items: Annotated[list[SpeechBody], Field(min_length=1)]


class WordTime(TypedDict):
    """Estimated time of a word in seconds.

    ``input_index`` is the word's turn in a dialogue.
    """

    word: str
    start: float
    end: float
    input_index: NotRequired[int]


class BatchResult(TypedDict):
    """Audio of one text, or its error."""

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
    """Results in the order of the items."""

    id: str
    results: list[BatchResult]
    total: int
    succeeded: int
    failed: int
