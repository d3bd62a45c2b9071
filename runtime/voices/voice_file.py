"""Format of voice files: one voice in a portable safetensors file.

A file is strictly validated when it is read: it has known fields only, finite numbers and a correct checksum. This
module uses neither torch nor pickle.

Tensors:
    reference: int16 [N], the recording, mono, 24 kHz, at most 120 s. Version 3 has none.
    prompt.<fingerprint>.x_vector: float32 [H], speaker embedding by the checkpoint of that fingerprint.
    prompt.<fingerprint>.codes: int64 [frames, codebooks], codes for cloning with a transcript.

Metadata:
    format: "voicewright.voice".
    version: "1", "2" (with tags), or "3" (one prompt with the fingerprint "imported", and no recording).
    id: 32 hexadecimal digits.
    name: 1 to 64 characters.
    language: As in a request.
    created_at: Unix time in seconds.
    sha256: Digest of the other metadata (sorted JSON, ASCII), then `NAME DTYPE [SIZES]` and the bytes of each tensor.
    tags, description, transcript, consent, provenance, advice: Optional.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from runtime.errors import SpeechError, VoiceFileInvalid
from runtime.request import SAMPLE_RATE, VoicePrompt
from runtime.shared.names import checked_name, checked_tags, is_id
from runtime.shared.strict_json import parse
from runtime.voices.voice import Consent, Voice

FORMAT, VERSIONS = "voicewright.voice", ("1", "2", "3")
OTHER_VERSION = f"its version is not {' or '.join(VERSIONS)}"
# A voice is written in the lowest version that supports its content, so that older programs can read it.
TAGS_VERSION = "2"  # First version of the format that supports tags.
PROMPT_ONLY_VERSION = "3"  # Version of the format for voices that have one prompt and no recording.
IMPORTED_FINGERPRINT = "imported"  # Fingerprint of a prompt whose checkpoint is unknown.

MAX_BYTES = 16 * 2**20
MAX_HEADER_BYTES = 256 * 2**10
MAX_REFERENCE_S = 120
MAX_PROMPTS = 8
MAX_X_VECTOR = 8192
MAX_FRAMES, MAX_CODEBOOKS, MAX_CODE = 4096, 64, 2**20
MAX_TRANSCRIPT, MAX_WORDS = 4096, 500  # Maximum numbers of characters of the transcript and of any other text.
MAX_KEY = 64  # Maximum number of characters in a key of the provenance.
MAX_ENTRIES = 32  # Maximum number of entries in the provenance, and in the advice.

LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9 _-]{0,31}")

REQUIRED = frozenset({"format", "version", "id", "name", "language", "created_at", "sha256"})
OPTIONAL = {"1": frozenset({"description", "transcript", "consent", "provenance", "advice"})}
OPTIONAL[TAGS_VERSION] = OPTIONAL[PROMPT_ONLY_VERSION] = OPTIONAL["1"] | {"tags"}

PARTS = ("x_vector", "codes")
_PROMPT = re.compile(rf"prompt\.([A-Za-z0-9_-]{{1,64}})\.({'|'.join(PARTS)})")

Kind = TypeVar("Kind")
Tensors = dict[str, NDArray[Any]]


def write_voice(voice: Voice) -> bytes:
    """Serialize a voice as the bytes of a voice file."""
    tensors: Tensors = {}
    if voice.has_recording:
        tensors["reference"] = np.ascontiguousarray(voice.reference, np.int16)
    for fingerprint, prompt in voice.prompts.items():
        tensors[f"prompt.{fingerprint}.x_vector"] = np.ascontiguousarray(prompt.x_vector, np.float32)
        if prompt.codes is not None:
            tensors[f"prompt.{fingerprint}.codes"] = np.ascontiguousarray(prompt.codes, np.int64)
    metadata = {
        "format": FORMAT,
        "version": (TAGS_VERSION if voice.tags else VERSIONS[0]) if voice.has_recording else PROMPT_ONLY_VERSION,
        "id": voice.id,
        "name": voice.name,
        "language": voice.language,
        "created_at": repr(voice.created_at),
    }
    if voice.description is not None:
        metadata["description"] = voice.description
    if voice.tags:
        metadata["tags"] = _json(list(voice.tags))
    if voice.transcript is not None:
        metadata["transcript"] = voice.transcript
    if voice.consent is not None:
        metadata["consent"] = _json(asdict(voice.consent))
    if voice.provenance:
        metadata["provenance"] = _json(dict(voice.provenance))
    if voice.advice:
        metadata["advice"] = _json(list(voice.advice))
    return save(tensors, {**metadata, "sha256": _checksum(tensors, metadata)})


def read_voice(data: bytes) -> Voice:
    """Parse the bytes of an untrusted voice file.

    Raises:
        VoiceFileInvalid: The file is damaged, has another format or version, or has invalid content.
    """
    metadata = _checked_header(data)
    try:
        tensors: Tensors = load(data)
    except Exception:  # The safetensors library raises exceptions that are not documented.
        _refuse("its tensors are not at the offsets of its header")
    checksum = metadata.pop("sha256")
    if _checksum(tensors, metadata) != checksum:
        _refuse("its checksum is wrong; it is damaged")
    try:
        return Voice(
            id=metadata["id"] if is_id(metadata["id"]) else _refuse("its id has the wrong form"),
            name=_same(metadata["name"], checked_name(metadata["name"])),
            reference=tensors.get("reference", np.zeros(0, np.int16)),
            language=_matching(LANGUAGE, metadata["language"]),
            description=_optional_text(metadata, "description", MAX_WORDS),
            tags=_tags(metadata),
            transcript=_optional_text(metadata, "transcript", MAX_TRANSCRIPT),
            created_at=_moment(float(metadata["created_at"])),
            consent=_consent(metadata),
            provenance=_provenance(metadata),
            advice=tuple(_text(item, MAX_WORDS) for item in _parsed(metadata, "advice", list)),
            prompts=_prompts(tensors),
        )
    except VoiceFileInvalid:
        raise
    except (SpeechError, ValueError, TypeError, KeyError, OverflowError):
        _refuse("its description of the voice is not valid")


# --- Functions that check the header before memory is allocated.


def _checked_header(data: bytes) -> dict[str, str]:
    """Return the metadata of a file after checking the names, types and shapes of its tensors."""
    if len(data) > MAX_BYTES:
        _refuse(f"it has more than {MAX_BYTES // 2**20} MB")
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= size <= min(MAX_HEADER_BYTES, len(data) - 8):
        _refuse("it is damaged, or no voice file (safetensors)")
    try:
        header = parse(data[8 : 8 + size])
    except ValueError:
        _refuse("its header is not valid JSON")
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        _refuse("it is not a voice file")
    version = metadata.get("version")
    if version not in VERSIONS:
        _refuse(OTHER_VERSION)
    if not set(metadata) >= REQUIRED or not set(metadata) <= REQUIRED | OPTIONAL[version]:
        _refuse("its metadata lack an entry or have one too many")
    if not all(isinstance(value, str) for value in metadata.values()):
        _refuse("its metadata are not text")
    if version == PROMPT_ONLY_VERSION:
        if (
            not {f"prompt.{IMPORTED_FINGERPRINT}.x_vector"}
            <= set(header)
            <= {f"prompt.{IMPORTED_FINGERPRINT}.{part}" for part in PARTS}
        ):
            _refuse("it has neither a recording nor exactly one prompt")
    elif "reference" not in header or len(header) > 1 + 2 * MAX_PROMPTS:
        _refuse("it lacks the reference, or holds too many prompts")
    for name, tensor in header.items():
        _check_tensor(name, tensor)
    return metadata


def _check_tensor(name: str, tensor: Any) -> None:
    if not isinstance(tensor, dict) or set(tensor) != {"dtype", "shape", "data_offsets"}:
        _refuse("its header is not that of a voice")
    shape = tensor["shape"]
    if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in shape):
        _refuse("a tensor's shape is not valid")
    part = _PROMPT.fullmatch(name)
    if name == "reference":
        fits = tensor["dtype"] == "I16" and len(shape) == 1 and shape[0] <= MAX_REFERENCE_S * SAMPLE_RATE
    elif part is None:
        fits = False
    elif part[2] == "x_vector":
        fits = tensor["dtype"] == "F32" and len(shape) == 1 and shape[0] <= MAX_X_VECTOR
    else:
        fits = tensor["dtype"] == "I64" and len(shape) == 2 and shape[0] <= MAX_FRAMES and shape[1] <= MAX_CODEBOOKS
    if not fits:
        _refuse("it holds a tensor that a voice does not have, or of another type or size")


# --- Functions that check metadata values.


def _prompts(tensors: Tensors) -> dict[str, VoicePrompt]:
    prompts: dict[str, VoicePrompt] = {}
    for fingerprint in sorted({part[1] for name in tensors if (part := _PROMPT.fullmatch(name))}):
        x_vector, codes = (tensors.get(f"prompt.{fingerprint}.{part}") for part in PARTS)
        if x_vector is None or not np.isfinite(x_vector).all():
            _refuse("a prompt lacks its x-vector, or holds numbers that are not finite")
        if codes is not None and (codes.min() < 0 or codes.max() >= MAX_CODE):
            _refuse("a prompt holds codes that no codebook has")
        # The arrays are copied, because safetensors returns read-only arrays, which torch does not support.
        prompts[fingerprint] = VoicePrompt(
            fingerprint=fingerprint, x_vector=x_vector.copy(), codes=None if codes is None else codes.copy()
        )
    return prompts


def _consent(metadata: Mapping[str, str]) -> Consent | None:
    if "consent" not in metadata:
        return None
    consent = _parsed(metadata, "consent", dict)
    if set(consent) != {"words", "who", "when"}:
        _refuse("its consent is not complete")
    return Consent(
        words=_text(consent["words"], MAX_WORDS),
        who=_text(consent["who"], MAX_WORDS),
        when=_moment(float(consent["when"])),
    )


def _provenance(metadata: Mapping[str, str]) -> dict[str, str]:
    return provenance(_parsed(metadata, "provenance", dict))


def provenance(entries: Mapping[str, object]) -> dict[str, str]:
    """Check the entries about the origin of a voice and return them.

    Raises:
        ValueError: A key or value is not text or too long, or there are too many entries.
    """
    if len(entries) > MAX_ENTRIES:
        raise ValueError("provenance")
    return {_text(name, MAX_KEY): _text(value, MAX_WORDS) for name, value in entries.items()}


def _tags(metadata: Mapping[str, str]) -> tuple[str, ...]:
    tags = tuple(_text(item, MAX_WORDS) for item in _parsed(metadata, "tags", list))
    if checked_tags(tags) != tags:
        raise ValueError("tags")
    return tags


def _parsed(metadata: Mapping[str, str], name: str, kind: type[Kind]) -> Kind:
    if name not in metadata:
        return kind()
    value = parse(metadata[name])
    if not isinstance(value, kind) or len(value) > MAX_ENTRIES:  # type: ignore[arg-type]  # The value is a list or a dict.
        raise ValueError(name)
    return value


def _optional_text(metadata: Mapping[str, str], name: str, max_chars: int) -> str | None:
    return _text(metadata[name], max_chars) if name in metadata else None


def _text(value: object, max_chars: int) -> str:
    if not isinstance(value, str) or len(value) > max_chars or "\x00" in value:
        raise ValueError("text")
    value.encode()  # This call raises UnicodeEncodeError (a ValueError) if the text has a lone surrogate.
    return value


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError("text")
    return text


def _same(name: str, checked: str) -> str:
    if name != checked:
        raise ValueError("name")
    return checked


def _moment(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 <= seconds < 1e11):
        raise ValueError("time")
    return seconds


def _checksum(tensors: Tensors, metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of a voice's content.

    The hash does not depend on the order of tensors in the file.
    """
    digest = hashlib.sha256(_json(dict(sorted(metadata.items()))).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype.str} {list(tensor.shape)}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _refuse(why: str) -> NoReturn:
    raise VoiceFileInvalid(why=why)
