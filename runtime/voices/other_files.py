"""Voice files of other programs: the official Qwen3-TTS demo (`.pt`) and voicebox (ZIP).

Both formats are ZIP archives. A voice of the demo has no recording, but a prompt that a checkpoint has computed.
"""

from __future__ import annotations

import io
import sys
import threading
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from runtime.errors import BadReferenceAudio, VoiceFileInvalid
from runtime.request import SAMPLE_RATE, VoicePrompt
from runtime.settings import Limits
from runtime.shared.audio.decode_child import ANSWER_BYTES
from runtime.shared.audio.decoding import TIMEOUT_S
from runtime.shared.audio.reference import read_reference
from runtime.shared.child import run_child_blocking
from runtime.shared.strict_json import parse_object
from runtime.voices.demo_child import NOT_OF_THE_DEMO
from runtime.voices.voice_file import IMPORTED_FINGERPRINT, MAX_BYTES, MAX_HEADER_BYTES

ZIP_MAGIC = b"PK\x03\x04"
COMMAND = (sys.executable, "-E", "-s", "-m", "runtime.voices.demo_child")
GAP_S = 0.3  # Seconds of silence between two recordings of a profile.
NOT_OF_VOICEBOX = "it is no profile of voicebox"
LEFT_OUT = "The profile has {count} recordings; {left} of them did not fit and were left out."

# Lock with which only one reader process runs at a time, because it imports torch and needs much memory.
_reader_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoiceboxProfile:
    """Voice profile of the program voicebox, with its recordings joined to one recording.

    Shapes: samples [N] float32, mono, 24 kHz.
    """

    name: str
    description: str
    language: str
    samples: NDArray[np.float32]
    transcript: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DemoVoice:
    """Voice file of the official Qwen3-TTS demo, which contains a voice prompt.

    If the prompt has codes, there is also a transcript.
    """

    prompt: VoicePrompt
    transcript: str | None


def is_foreign_voice_file(data: bytes) -> bool:
    """True if a file may be a voice file of another program."""
    return data.startswith(ZIP_MAGIC)


def read_foreign_voice_file(data: bytes, limits: Limits) -> VoiceboxProfile | DemoVoice:
    """Read an untrusted voice file of another program, and return its voice.

    Raises:
        VoiceFileInvalid: The file is damaged or belongs to an unknown program.
        BadReferenceAudio: A recording in the file cannot be used.

    Thread: worker thread. A file of the demo takes seconds because torch is started.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        _refuse("it is a damaged archive")
    if sum(member.file_size for member in members) > MAX_BYTES:
        _refuse(f"it has more than {MAX_BYTES // 2**20} MB")
    names = {member.filename for member in members}
    if {"manifest.json", "samples.json"} <= names:
        return _voicebox(archive, limits)
    # Compressed members are refused, because PyTorch would unpack them to any size.
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        _refuse(NOT_OF_THE_DEMO)
    return _demo(data)


def _voicebox(archive: zipfile.ZipFile, limits: Limits) -> VoiceboxProfile:
    try:
        profile = parse_object(_member(archive, "manifest.json", MAX_HEADER_BYTES))["profile"]
        texts = parse_object(_member(archive, "samples.json", MAX_HEADER_BYTES))
        name, language = str(profile["name"]), str(profile.get("language") or "auto")
        description = str(profile.get("description") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        _refuse(NOT_OF_VOICEBOX)
    if not texts or not all(isinstance(text, str) for text in texts.values()):
        _refuse("its profile has no recording with a transcript")
    recordings = ((_recording(archive, name, limits), text) for name, text in texts.items())
    samples, spoken = _join_recordings(recordings, round(limits.max_reference_s * SAMPLE_RATE))
    left = len(texts) - len(spoken)
    advice = (LEFT_OUT.format(count=len(texts), left=left),) if left else ()
    return VoiceboxProfile(
        name=name,
        description=description,
        language=language,
        samples=samples,
        transcript=" ".join(spoken),
        advice=advice,
    )


def _join_recordings(
    recordings: Iterable[tuple[NDArray[np.float32], str]], max_samples: int
) -> tuple[NDArray[np.float32], list[str]]:
    """Join the first recordings that have at most `max_samples` samples, and list their texts."""
    gap = np.zeros(round(GAP_S * SAMPLE_RATE), np.float32)
    joined = np.zeros(0, np.float32)
    texts: list[str] = []
    for samples, text in recordings:
        longer = np.concatenate([joined, gap, samples]) if texts else samples
        if texts and len(longer) > max_samples:
            break
        joined = longer
        texts.append(text.strip())
    return joined, texts


def _recording(archive: zipfile.ZipFile, name: str, limits: Limits) -> NDArray[np.float32]:
    try:
        return read_reference(_member(archive, f"samples/{name}", limits.max_upload_bytes), limits)
    except KeyError:
        _refuse("it lacks a recording that it names")
    except BadReferenceAudio as error:
        error.param = "file"
        raise


def _member(archive: zipfile.ZipFile, name: str, max_bytes: int) -> bytes:
    """Return the content of a file in an archive.

    Raises:
        KeyError: The archive has no file with this name.
        VoiceFileInvalid: The file is damaged, encrypted or too large.
    """
    try:
        with archive.open(name) as member:
            data = member.read(max_bytes + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, ValueError):
        _refuse("it is a damaged archive")
    if len(data) > max_bytes:
        _refuse("a file in it is too large")
    return data


def _demo(data: bytes) -> DemoVoice:
    with _reader_lock:
        answer, _ = run_child_blocking(COMMAND, data, timeout_s=TIMEOUT_S, max_output_bytes=ANSWER_BYTES)
    head, _, tensors = answer.partition(b"\n")
    try:
        header = parse_object(head)
        arrays = load(tensors) if "text" in header else {}
        # The arrays are copied, because safetensors returns read-only arrays, which torch does not support.
        codes = arrays["codes"].copy() if "codes" in arrays else None
        prompt = VoicePrompt(fingerprint=IMPORTED_FINGERPRINT, x_vector=arrays["x_vector"].copy(), codes=codes)
    except Exception:  # The reader process has crashed, was killed, or was manipulated by the file.
        _refuse(NOT_OF_THE_DEMO)
    return DemoVoice(prompt=prompt, transcript=header["text"])


def _refuse(why: str) -> NoReturn:
    raise VoiceFileInvalid(why=why)
