"""Parsing and validation of the forms that upload voices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from runtime.errors import (
    ConsentRequired,
    InvalidConfig,
    ReferenceTooLong,
    ReferenceTooShort,
    SpeechError,
)
from runtime.request import SAMPLE_RATE
from runtime.server.http.multipart import read_multipart
from runtime.server.wire import language_of
from runtime.settings import Limits
from runtime.shared.audio.reference import read_reference
from runtime.shared.names import checked_name, checked_tags, new_id
from runtime.shared.strict_json import parse_object
from runtime.voices.other_files import DemoVoice, VoiceboxProfile, is_foreign_voice_file, read_foreign_voice_file
from runtime.voices.recording_check import RecordingCheck, check_recording, prepare_recording, require_speech
from runtime.voices.voice import Consent, Voice, VoiceChanges, to_pcm
from runtime.voices.voice_file import (
    LANGUAGE,
    MAX_ENTRIES,
    MAX_TRANSCRIPT,
    MAX_WORDS,
    provenance,
    read_voice,
)

TRUE = frozenset({"1", "true", "yes"})


@dataclass(frozen=True, slots=True)
class VoiceForm:
    """Fields and file of an upload form, where the file is a recording or a voice file."""

    fields: dict[str, str] = field(repr=False)
    recording: bytes | None = field(default=None, repr=False)
    voice_file: bytes | None = field(default=None, repr=False)

    @property
    def replaces(self) -> bool:
        """True if the upload may replace an existing voice with the same name."""
        return self.fields.get("replace", "").lower() in TRUE


async def read_form(request: Request, limits: Limits) -> VoiceForm:
    """Read and check the multipart form of a voice upload, and return its fields and file.

    Large files are buffered on disk during the request.

    Raises:
        InvalidConfig: The body is not a multipart form, or has unsupported values.
        MessageTooLarge, SessionIdle: The body is too large, or the client has stopped sending.
    """
    refused = "send a multipart/form-data form; voices from a prompt are not stored"
    fields, files = await read_multipart(request, limits, what="The voice", refused=refused)
    return _checked(VoiceForm(fields, files.get("audio_sample"), files.get("file")))


def voice_from_form(form: VoiceForm, limits: Limits) -> Voice:
    """Validate an upload form, and create and return a voice from its fields and file.

    Raises:
        BadRequest: A field of the form is invalid.

    Thread: a worker. A minute of audio takes one or two seconds.
    """
    consent = _consent(form)
    if form.voice_file is not None:
        return _imported(form.voice_file, form, consent, limits)
    if consent is None:
        raise ConsentRequired(param="consent")
    return _recorded(form.recording or b"", form, consent, limits)


def check_form_recording(form: VoiceForm, limits: Limits) -> RecordingCheck:
    """Check the recording in an upload form and return the result.

    Raises:
        BadRequest: The file is not a recording, or cannot be stored.

    Thread: a worker. A minute of audio takes one or two seconds.
    """
    if form.recording is None:
        _refuse("audio_sample", "send the recording to check")
    transcript = _text(form, "ref_text", MAX_TRANSCRIPT)
    with _about("audio_sample"):
        found = check_recording(read_reference(form.recording, limits), transcript)
        require_speech(found, limits)
    return found


def _imported(file: bytes, form: VoiceForm, consent: Consent | None, limits: Limits) -> Voice:
    if is_foreign_voice_file(file):
        if consent is None:
            raise ConsentRequired(param="consent")
        with _about("file"):
            return _converted(read_foreign_voice_file(file, limits), form, consent, limits)
    with _about("file"):
        voice = read_voice(file)
    seconds = len(voice.reference) / SAMPLE_RATE
    if seconds > limits.max_reference_s:
        raise ReferenceTooLong(seconds=seconds, limit=limits.max_reference_s, param="file")
    if voice.has_recording and seconds < limits.min_reference_s:
        raise ReferenceTooShort(seconds=seconds, limit=limits.min_reference_s, param="file")
    if voice.consent is None and consent is None:
        raise ConsentRequired(param="consent")
    name = form.fields.get("name")
    return replace(voice, consent=consent or voice.consent, name=voice.name if name is None else checked_name(name))


def _converted(found: VoiceboxProfile | DemoVoice, form: VoiceForm, consent: Consent, limits: Limits) -> Voice:
    """Convert the voice file of another program to a voice.

    Fields of the form override fields of the file.
    """
    fields = form.fields
    if isinstance(found, VoiceboxProfile):
        profile_fields = {"name": found.name, "speaker_description": found.description, "ref_text": found.transcript}
        fields = {**profile_fields, "language": language_of(found.language), **fields}
    voice = _described(replace(form, fields=fields), consent, "voicebox")
    if isinstance(found, VoiceboxProfile):
        return _prepared(voice, found.samples, limits, found.advice)
    prompts = {found.prompt.fingerprint: found.prompt}
    voice = replace(voice, transcript=found.transcript, prompts=prompts)
    return replace(voice, provenance={**voice.provenance, "source": "qwen-tts demo"})


def _recorded(recording: bytes, form: VoiceForm, consent: Consent, limits: Limits) -> Voice:
    voice = _described(form, consent, "upload")
    with _about("audio_sample"):
        return _prepared(voice, read_reference(recording, limits), limits)


def _described(form: VoiceForm, consent: Consent, source: str) -> Voice:
    """Create a voice with the metadata in the form and without a recording."""
    return Voice(
        id=new_id(),
        name=checked_name(form.fields.get("name", "")),
        reference=np.zeros(0, np.int16),
        language=_language(form),
        description=_text(form, "speaker_description", MAX_WORDS),
        tags=checked_tags(tag for tag in form.fields.get("tags", "").split(",") if tag.strip()),
        transcript=_text(form, "ref_text", MAX_TRANSCRIPT),
        created_at=time.time(),
        consent=consent,
        provenance={"source": source, **_provenance(form)},
    )


def _prepared(voice: Voice, samples: NDArray[np.float32], limits: Limits, advice: tuple[str, ...] = ()) -> Voice:
    taken = prepare_recording(samples, voice.transcript, limits)
    found = tuple(advice.sentence for advice in taken.advice)
    return replace(voice, reference=to_pcm(taken.samples), advice=(*found, *advice))


def parse_changes(fields: dict[str, Any]) -> VoiceChanges:
    """Parse a JSON object with changes to a stored voice.

    A null description or transcript removes the stored text.

    Raises:
        InvalidConfig: There is no change, or a value has the wrong type or is too long.
    """
    if not fields.keys() & {"name", "description", "tags", "transcript", "allows_blends"}:
        _refuse("body", "send name, description, tags, transcript or allows_blends")
    name, tags, allows_blends = fields.get("name"), fields.get("tags"), fields.get("allows_blends")
    texts = {key: "" if fields.get(key) is None else fields[key] for key in ("description", "transcript")}
    description, transcript = texts["description"], texts["transcript"]
    if "name" in fields and not isinstance(name, str):
        _refuse("name", "it must be text")
    if not isinstance(description, str):
        _refuse("description", "it must be text")
    if not isinstance(transcript, str):
        _refuse("transcript", "it must be text")
    if "allows_blends" in fields and not isinstance(allows_blends, bool):
        _refuse("allows_blends", "it must be true or false")
    if "tags" in fields and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        _refuse("tags", "it must be a list of texts")
    return VoiceChanges(
        name=name,
        description=_checked_text("description", description, MAX_WORDS) if "description" in fields else None,
        tags=None if tags is None else tuple(tags),
        transcript=_checked_text("transcript", transcript, MAX_TRANSCRIPT) if "transcript" in fields else None,
        allows_blends=allows_blends,
    )


def _checked(form: VoiceForm) -> VoiceForm:
    """Return the form, or raise an error if it has values that this server does not support."""
    if form.fields.get("type", "audio_sample") != "audio_sample":
        _refuse("type", "only recordings are stored as voices; for a described voice use task_type voice_design")
    if "speaker_embedding" in form.fields:
        _refuse("speaker_embedding", "embeddings differ from model to model; send the recording as audio_sample")
    if (form.recording is None) == (form.voice_file is None):
        _refuse("audio_sample", "send a recording as audio_sample, or a voice file as file")
    return form


def _consent(form: VoiceForm) -> Consent | None:
    consent = _text(form, "consent", MAX_WORDS)
    if consent is None:
        return None
    return Consent(words=consent, who=_text(form, "consent_who", MAX_WORDS) or "", when=time.time())


def _provenance(form: VoiceForm) -> dict[str, str]:
    text = form.fields.get("provenance", "").strip()
    if not text:
        return {}
    try:
        return provenance(parse_object(text))
    except ValueError:
        why = f"it must be a JSON object of at most {MAX_ENTRIES} texts of {MAX_WORDS} characters under short names"
        _refuse("provenance", why)


@contextmanager
def _about(part: str) -> Iterator[None]:
    """Context manager that adds a field name to errors without one."""
    try:
        yield
    except SpeechError as error:
        error.param = error.param or part
        raise


def _language(form: VoiceForm) -> str:
    language = (form.fields.get("language") or "auto").strip()
    if LANGUAGE.fullmatch(language) is None:
        _refuse("language", "it must be the name of a language, or auto")
    return language


def _text(form: VoiceForm, name: str, max_chars: int) -> str | None:
    """Return a field without surrounding white space, or None if it is empty."""
    return _checked_text(name, form.fields.get(name, ""), max_chars) or None


def _checked_text(name: str, text: str, max_chars: int) -> str:
    text = text.strip()
    if len(text) > max_chars:
        _refuse(name, f"it has {len(text)} characters; the limit is {max_chars}")
    if "\x00" in text:
        _refuse(name, "it holds a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        _refuse(name, "it holds half a character")
    return text


def _refuse(field: str, why: str) -> NoReturn:
    raise InvalidConfig(where=field, why=why, param=field)
