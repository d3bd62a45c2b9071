"""Stored voice with its recording, metadata and prompts, and its summary for lists."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from runtime.errors import InvalidBlend, InvalidConfig, NoRecording, TranscriptMismatch
from runtime.request import SAMPLE_RATE, Reference, VoicePrompt
from runtime.shared.names import checked_name, checked_tags, parse_blend
from runtime.voices.activity import detect_speech_by_level
from runtime.voices.checks import LONG_TRANSCRIPT, SHORT_TRANSCRIPT, check_transcript

# Values of the provenance entry `blend`, except in a voice that is a blend itself.
ALLOWS_BLENDS = "yes"
FORBIDS_BLENDS = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceCard:
    """Metadata of a stored voice, for lists of voices.

    `id` never changes. `name` is never used as a path.
    """

    id: str
    name: str
    language: str = "auto"
    description: str | None = None
    tags: tuple[str, ...] = ()
    transcript: str | None = None  # Transcript of the recording, or None if only the x-vector is used.
    seconds: float = 0.0  # Duration of the reference audio in seconds, without the silence at its end.
    file_bytes: int = 0
    created_at: float = 0.0  # Unix time at which the voice was created.
    consent: str | None = None  # Text about the speaker's consent, as written by the uploader.
    # Origin of the voice: model, seed, description and other values by name.
    provenance: dict[str, str] = field(default_factory=dict)
    advice: tuple[str, ...] = ()  # Advice that the checks of the recording have given.


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Consent of the speaker to the use of the voice."""

    words: str  # Text of the consent.
    who: str = ""  # Name of the speaker, or "" if unknown.
    when: float = 0.0  # Unix time of the consent.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Voice:
    """Stored voice: recording, metadata and prompts, as in its voice file.

    A voice of another program may have no recording. The voice then has one prompt of an unknown checkpoint.

    Shapes: reference [N] int16, mono, 24 kHz.
    """

    id: str
    name: str
    reference: NDArray[np.int16]
    language: str = "auto"
    description: str | None = None
    tags: tuple[str, ...] = ()
    transcript: str | None = None  # Exact transcript of the recording, or None if only the x-vector is used.
    created_at: float = 0.0  # Unix time at which the voice was created.
    consent: Consent | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    prompts: Mapping[str, VoicePrompt] = field(default_factory=dict)  # Prompts by fingerprint of the checkpoint.

    @property
    def has_recording(self) -> bool:
        return len(self.reference) > 0

    def card(self, file_bytes: int) -> VoiceCard:
        return VoiceCard(
            id=self.id,
            name=self.name,
            language=self.language,
            description=self.description,
            tags=self.tags,
            transcript=self.transcript,
            seconds=len(np.trim_zeros(self.reference, "b")) / SAMPLE_RATE,
            file_bytes=file_bytes,
            created_at=self.created_at,
            consent=None if self.consent is None else self.consent.words,
            provenance=dict(self.provenance),
            advice=self.advice,
        )

    def as_reference(self, fingerprint: str | None) -> Reference:
        """Return the voice as a `Reference`, which can be used in a speech request.

        If the voice has a prompt of this checkpoint, the reference includes this prompt. A voice without a recording
        always includes its only prompt.

        Args:
            fingerprint: Fingerprint of the checkpoint, or None for no prompt.
        """
        if not self.has_recording:
            (fingerprint,) = self.prompts
        return Reference(
            samples=to_float(self.reference),
            text=self.transcript,
            x_vector_only=self.transcript is None,
            prompt=self.prompts.get(fingerprint) if fingerprint else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceChanges:
    """Changes to a stored voice, where None means no change."""

    name: str | None = None
    description: str | None = None  # New description, or None for no change. An empty string removes the description.
    tags: tuple[str, ...] | None = None
    transcript: str | None = None  # New transcript. With an empty string, clones use only the x-vector.
    allows_blends: bool | None = None  # True if the speaker allows blends with other voices.

    def apply_to(self, voice: Voice) -> Voice:
        """Return a copy of the voice with these changes.

        Raises:
            InvalidConfig: The name or a tag is invalid, or the voice is a blend.
            NoRecording: The transcript changes, and the voice has no recording.
            TranscriptMismatch: The transcript cannot belong to the recording.
        """
        if self.transcript is not None and self.transcript != (voice.transcript or ""):
            voice = _transcribed(voice, self.transcript or None)
        if self.allows_blends is not None:
            with suppress(InvalidBlend):
                if parse_blend(voice.provenance.get("blend", "")) is not None:
                    raise InvalidConfig(where="allows_blends", why="the voice is a blend", param="allows_blends")
            consent = ALLOWS_BLENDS if self.allows_blends else FORBIDS_BLENDS
            voice = replace(voice, provenance={**voice.provenance, "blend": consent})
        return replace(
            voice,
            name=voice.name if self.name is None else checked_name(self.name),
            description=voice.description if self.description is None else self.description or None,
            tags=voice.tags if self.tags is None else checked_tags(self.tags),
        )


def _transcribed(voice: Voice, transcript: str | None) -> Voice:
    """Return a voice with another transcript and without the prompts of the old one.

    The advice about the recording is kept. Speech is detected by its level, which is fast.
    """
    if not voice.has_recording:
        raise NoRecording(param="transcript")
    about_text = {LONG_TRANSCRIPT.sentence, SHORT_TRANSCRIPT.sentence}
    advice = [sentence for sentence in voice.advice if sentence not in about_text]
    if transcript is not None:
        speech_s = detect_speech_by_level(to_float(voice.reference)).seconds
        try:
            advice += (one.sentence for one in check_transcript(transcript, speech_s))
        except TranscriptMismatch as error:
            error.param = "transcript"
            raise
    return replace(voice, transcript=transcript, advice=tuple(advice), prompts={})


def to_pcm(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Convert float samples to 16-bit integers.

    If a sample is above full scale, the volume of the whole audio is reduced to prevent clipping.

    Shapes: [N] -> [N].
    """
    peak = float(np.abs(samples).max(initial=0.0))
    scaled = samples / peak if peak > 1 else samples
    return np.clip(np.round(scaled * 32768), -32768, 32767).astype(np.int16)


def to_float(reference: NDArray[np.int16]) -> NDArray[np.float32]:
    """Convert 16-bit samples to floats in [-1, 1).

    Shapes: [N] -> [N].
    """
    return reference.astype(np.float32) / np.float32(32768)
