"""Fuzzing targets: functions that accept any bytes.

Invalid bytes may raise only the errors that are documented for the target.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from runtime.errors import BadReferenceAudio, SpeechError, VoiceFileInvalid
from runtime.request import Finished, RequestStats, StopReason
from runtime.server.wire import decode
from runtime.settings import Limits
from runtime.shared import strict_json
from runtime.shared.audio.wav_reader import is_plain_wav, read_wav
from runtime.voices.voice_file import read_voice, write_voice
from studio.documents.reading import read as read_document
from studio.documents.values import UnreadableError
from tests.fuzz.messages import BODIES, SESSIONS
from tests.fuzz.mutation import LINE, Mutation
from tests.support.audio_files import audio_file
from tests.support.documents import epub, letter
from tests.support.voices import create_voice
from tests.unit.server.native.driver import Driver

LIMITS = Limits()
ENDS = (StopReason.EOS, StopReason.CANCELLED)
NATIVE: list[dict[str, Any]] = [
    {**BODIES["native"][1]},
    {"type": "session.config", "voice": "anna", "frames": "labelled"},
    {"type": "input.text", "text": "Hello there.", "context_id": "a"},
    {"type": "input.flush", "context_id": "a"},
    {"type": "input.done", "context_id": "a"},
    {"type": "context.cancel", "context_id": "a"},
    {"type": "playback", "played_ms": 10},
    {"type": "ping", "t": 1},
    {"type": "session.close"},
]


@dataclass(frozen=True, slots=True)
class Target:
    """Fuzzing target: a function that accepts any bytes, with valid example inputs.

    ``run`` gets any bytes and must not raise. ``seeds`` are valid inputs. ``mutation`` changes JSON messages. It is
    None for targets that do not read messages.
    """

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    mutation: Mutation | None = None


def _of_messages(run: Callable[[bytes], object], messages: list[dict[str, Any]]) -> Target:
    seeds = _lines(messages)
    return Target(run, seeds, Mutation(seeds))


def _native(data: bytes) -> None:
    driver = Driver()
    for line in data.split(LINE):
        driver.session.receive_text(line.decode("utf-8", "replace"))
        driver.pop_messages()


def _session(name: str, data: bytes) -> None:
    """Process several messages of one session of a protocol.

    For each submitted request, the engine events (start, audio, end) depend on the length of the message.
    """
    driver, ended = SESSIONS[name][0](), 0
    for line in data.split(LINE):
        driver.send(line.decode("utf-8", "replace"))
        for submitted in driver.submitted[ended:]:
            if len(line) % 3:
                driver.start(submitted.utterance)
                driver.send_audio(submitted.utterance)
            finished = Finished(stop_reason=ENDS[len(line) % 2], stats=RequestStats())
            driver.dialect.on_speech(submitted.utterance, finished)
            driver.gather()
        ended = len(driver.submitted)
        driver.pop_messages()


def _body(name: str, data: bytes) -> None:
    with suppress(SpeechError):
        BODIES[name][0](decode(data.decode("utf-8", "replace")))


def _json(data: bytes) -> None:
    """Check that accepted JSON is unchanged after it is serialised and parsed again."""
    try:
        value = strict_json.parse(data)
    except ValueError:
        return
    assert strict_json.parse(json.dumps(value, allow_nan=False)) == value


def _wav(data: bytes) -> None:
    try:
        if is_plain_wav(data):
            sound = read_wav(data, limit_s=1.0)
            assert len(sound.samples) <= 1.1 * sound.rate
    except BadReferenceAudio:
        return


def _voice_file(data: bytes) -> None:
    try:
        voice = read_voice(data)
    except VoiceFileInvalid:
        return
    assert read_voice(write_voice(voice)).name == voice.name


def _document(data: bytes) -> None:
    # These errors are allowed, because the process that reads documents reports them as an unreadable file.
    with suppress(UnreadableError, MemoryError, RecursionError):
        read_document(data)


def _wav_seed(subtype: str) -> bytes:
    return audio_file(np.linspace(-0.5, 0.5, 40), subtype=subtype)


def _lines(messages: list[dict[str, Any]]) -> tuple[bytes, ...]:
    each = [json.dumps(message).encode() for message in messages]
    return (*each, LINE.join(each)) if len(each) > 1 else tuple(each)


TARGETS: dict[str, Target] = {
    "native": _of_messages(_native, NATIVE),
    **{name: _of_messages(partial(_session, name), seeds) for name, (_, seeds) in SESSIONS.items()},
    **{f"body of {name}": _of_messages(partial(_body, name), [body]) for name, (_, body) in BODIES.items()},
    "json": _of_messages(_json, [{"a": [1, 2.5, None, "x"]}]),
    "wav": Target(_wav, tuple(map(_wav_seed, ("PCM_16", "PCM_24", "PCM_U8", "FLOAT", "DOUBLE")))),
    "voice file": Target(_voice_file, (write_voice(create_voice()),)),
    "document": Target(_document, (epub(), letter(("Normal", "Words.")))),
}
