"""Request and response types of the voice library's routes, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

_FILE = Field(json_schema_extra={"format": "binary"})


class VoiceUpload(TypedDict, total=False):
    """Form that uploads a recording or a voice file with metadata (docs/api.md, Voices)."""

    name: str
    consent: Annotated[str, Field(description="the speaker's permission, in words")]
    consent_who: str
    audio_sample: Annotated[str, _FILE]
    file: Annotated[str, _FILE]
    ref_text: Annotated[str, Field(description="the exact words of the recording")]
    language: str
    speaker_description: str
    tags: Annotated[str, Field(description="separated by commas")]
    provenance: Annotated[str, Field(description="a JSON object of texts")]
    replace: Annotated[str, Field(description="1, true or yes: replace the voice of that name")]


class Recording(TypedDict):
    """Form that uploads a recording to check."""

    audio_sample: Annotated[str, _FILE]
    ref_text: NotRequired[str]


class VoiceEdit(TypedDict, total=False):
    """Request body that changes the metadata of a stored voice."""

    name: str
    description: str | None
    tags: list[str]
    transcript: str | None
    allows_blends: bool


class StoredVoice(TypedDict):
    """Stored voice with all its metadata, in OpenAI's format."""

    id: str
    object: Literal["audio.voice"]
    type: Literal["audio_sample"]
    name: str
    language: str
    description: str | None
    tags: list[str]
    transcript: str | None
    seconds: float
    file_bytes: int
    created_at: int
    consent: str | None
    provenance: dict[str, str]
    advice: list[str]
    yours: bool


class UploadedVoice(TypedDict):
    """Stored voice in vLLM-Omni's format."""

    name: str
    consent: str | None
    created_at: int
    file_size: int
    mime_type: str
    embedding_source: str
    embedding_dim: None
    ref_text: NotRequired[str]
    speaker_description: NotRequired[str]


class NamedVoice(TypedDict):
    """Voice with id and name, in the format of Open WebUI's voice menu."""

    id: str
    name: str


class VoiceProblem(TypedDict):
    """Voice file that cannot be used, with the reason."""

    file: str
    why: str


class VoiceList(TypedDict):
    """List of speakers and stored voices."""

    object: Literal["list"]
    voices: list[str] | list[NamedVoice]
    uploaded_voices: list[UploadedVoice]
    data: list[StoredVoice]
    problems: list[VoiceProblem]


class CreatedVoice(StoredVoice):
    """Response with the new stored voice."""

    success: Literal[True]
    voice: UploadedVoice


class DeletedVoice(TypedDict):
    """Confirmation that a stored voice was deleted."""

    success: Literal[True]
    id: str
    name: str
    object: Literal["audio.voice.deleted"]
    deleted: Literal[True]


class Trim(TypedDict):
    """Start and end of the speech in a recording, in seconds."""

    start_s: float
    end_s: float


class RecordingAdvice(TypedDict):
    """Advice about a recording: a stable code, and a sentence for the user."""

    code: str
    sentence: str


class VoiceCheck(TypedDict):
    """Response with the result of checking a recording."""

    object: Literal["audio.voice.check"]
    usable: bool
    seconds: float
    speech_s: float
    trim: Trim
    levels: dict[str, float | None]
    advice: list[RecordingAdvice]
