"""Command `voicewright say`, which speaks one utterance in this process without a server."""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from runtime.engine.engine import Engine
from runtime.errors import InvalidSetting, MissingReference
from runtime.request import (
    SAMPLE_RATE,
    AudioChunk,
    Broken,
    Finished,
    Layout,
    Mode,
    Reference,
    Sampling,
    SpeechRequest,
    Split,
    Started,
    StopReason,
)
from runtime.settings import Limits, Settings
from runtime.shared.audio.reference import load_reference
from runtime.shared.text.inline_tags import tag_pattern
from runtime.shared.text.pronouncing import replace_words
from runtime.voices.recording_check import clean_reference


def say(arguments: argparse.Namespace, settings: Settings) -> int:
    """Speak the text, write the requested outputs, and return the exit status.

    Raises:
        SpeechError: The request, the reference or the checkpoint is invalid, generation failed, or an output could not
            be written.
    """
    _check_output("--out", arguments.out)
    _check_output("--codes-out", arguments.codes_out)
    request = _request(arguments, settings.limits)
    engine = Engine.open(settings)
    pieces: list[bytes] = []
    codes: list[np.ndarray] = []
    for event in engine.speak(request):
        match event:
            case Started(seed=seed, notes=notes):
                for note in notes:
                    print(f"voicewright: note: {note}", file=sys.stderr)
                print(f"voicewright: seed {seed}", file=sys.stderr)
            case AudioChunk(pcm=pcm):
                pieces.append(pcm)
                codes.append(event.codes)
                if arguments.stdout:
                    _write_out(pcm)
            case Broken(error=error):
                raise error
            case Finished(stop_reason=reason, stats=stats, notes=notes):
                for note in (*notes, *advice(reason, request)):
                    print(f"voicewright: note: {note}", file=sys.stderr)
                rtf = "-" if stats.rtf is None else f"{stats.rtf:.2f}"
                print(f"voicewright: {stats.frames} frames, {reason}, rtf {rtf}", file=sys.stderr)
    if arguments.out:
        with _written("--out", repr(str(arguments.out))):
            write_wav(arguments.out, b"".join(pieces))
    elif not (arguments.stdout or arguments.codes_out):
        print(
            "voicewright: no audio was saved; give --out FILE.wav, or --stdout for raw s16le samples",
            file=sys.stderr,
        )
    if arguments.codes_out:
        groups = engine.registry.entries[0].config.talker.num_code_groups
        frames = np.concatenate([np.empty((0, groups), np.int64), *codes])
        named = _written("--codes-out", repr(str(arguments.codes_out)))
        # The file is opened here, because np.save would append .npy to a path.
        with named, arguments.codes_out.open("wb") as file:
            np.save(file, frames)
    return 0


def advice(reason: StopReason, request: SpeechRequest) -> list[str]:
    """Return suggestions for the user if speech ended for this reason."""
    reference = request.reference
    has_words = reference is not None and not reference.x_vector_only
    hint = "check that --ref-text is exactly what the recording says, or " if has_words else ""
    if reason is StopReason.SHORT:
        return [f"The speech is much shorter than its text; words are missing: {hint}try another --seed."]
    if reason is StopReason.RUNAWAY:
        return [f"The speech continued after the end of its text and was stopped: {hint}try another --seed."]
    return []


def write_wav(path: Path, pcm: bytes) -> None:
    """Write PCM samples (mono, s16le, 24 kHz) as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(pcm)


def _write_out(pcm: bytes) -> None:
    with _written("The audio for --stdout", "not whole"):
        sys.stdout.buffer.write(pcm)
        sys.stdout.buffer.flush()


def _check_output(option: str, path: Path | None) -> None:
    """Check that an output file can be written, before generation starts."""
    if path is None:
        return
    with _written(option, repr(str(path))):
        path.open("ab").close()


@contextmanager
def _written(option: str, value: str) -> Iterator[None]:
    """Context manager that converts errors while writing a file or stdout.

    Raises:
        InvalidSetting: The file cannot be written.
        BrokenPipeError: The reader has closed the pipe.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidSetting(name=option, value=value, why=error.strerror) from None


def _split(arguments: argparse.Namespace) -> Split:
    """Return the positions at which the text may be split.

    The default with --max-frames is one segment, as in the reference implementation.
    """
    if arguments.split:
        return Split(arguments.split)
    return Split.AUTO if arguments.max_frames is None else Split.NONE


def _pronounced(arguments: argparse.Namespace, limits: Limits) -> str:
    """Return the text after the replacements of --pronounce.

    Raises:
        InvalidSetting: A replacement does not have the format WORD=SAID.
    """
    entries = []
    for kwargs in arguments.pronounce:
        word, equals, replacement = (part.strip() for part in kwargs.partition("="))
        if not (word and equals and replacement):
            raise InvalidSetting(
                name="--pronounce", value=repr(kwargs), why="it must be WORD=SAID, with neither side empty"
            )
        entries.append((word, replacement))
    return replace_words(arguments.text, entries, tag_pattern(limits, brackets=arguments.tags))[0]


def _request(arguments: argparse.Namespace, limits: Limits) -> SpeechRequest:
    mode = Mode(arguments.mode)
    reference = None
    if mode is Mode.BASE:
        if arguments.ref_audio is None:
            raise MissingReference(param="ref_audio")
        samples = load_reference(arguments.ref_audio, limits)
        if arguments.clean_reference:
            samples = clean_reference(samples)
        reference = Reference(samples=samples, text=arguments.ref_text, x_vector_only=arguments.x_vector_only)
    return SpeechRequest(
        text=_pronounced(arguments, limits),
        mode=mode,
        voice=arguments.voice,
        language=arguments.language,
        instruct=arguments.instruct,
        tags=arguments.tags,
        reference=reference,
        layout=Layout(arguments.layout) if arguments.layout else None,
        sampling=Sampling(greedy=arguments.greedy),
        seed=arguments.seed,
        max_frames=arguments.max_frames,
        split=_split(arguments),
    )
