"""The speaker of each mode, for the engine in this process and for one behind a socket."""

from __future__ import annotations

import base64
import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from benchmarks.plan import NewVoices
from runtime.request import SAMPLE_RATE, Layout, Mode, ModelCard, Reference, SpeechRequest
from runtime.shared.names import new_id
from runtime.voices.library import Library
from runtime.voices.voice import Consent, Voice, to_float, to_pcm

DESIGN = "A warm young voice, close to the microphone."
STORED = "Benchmark"  # the voice that Base clones
TRANSCRIPT = "The old sailor told a story."
REFERENCE_S = 3.0
RECORDER_HZ = 48_000  # what microphones give, so that new recordings are resampled as users' are


@cache
def recording(seconds: float = REFERENCE_S) -> NDArray[np.int16]:
    """Something voice-like. Shapes: [N] int16, mono, 24 kHz."""
    t = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    tone = sum(np.sin(2 * np.pi * 120 * k * t + k) / k for k in range(1, 20))
    sound = 0.2 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))
    return to_pcm(sound.astype(np.float32))


def recording_base64(seconds: float = REFERENCE_S) -> str:
    """The same as a WAV file, in the form that messages carry."""
    file = io.BytesIO()
    soundfile.write(file, recording(seconds), SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()


def new_recording(seconds: float, number: int, rate: int) -> NDArray[np.float32]:
    """Something voice-like that no other number has. Shapes: [N] float32, mono."""
    t = np.arange(round(seconds * rate)) / rate
    drawn = np.random.default_rng(number)
    pitch, rhythm = 80 + 160 * drawn.random(), 2 + 4 * drawn.random()
    tone = sum(np.sin(2 * np.pi * pitch * k * t + phase) / k for k, phase in enumerate(drawn.random(12), 1))
    return (0.2 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * rhythm * t))).astype(np.float32)


def new_reference(voices: NewVoices, number: int) -> Reference:
    """The recording of a call as the engine takes it."""
    samples = new_recording(voices.seconds, number, SAMPLE_RATE)
    return Reference(
        samples=samples,
        text=None if voices.x_vector_only else _transcript(voices),
        x_vector_only=voices.x_vector_only,
    )


def new_upload(voices: NewVoices, number: int) -> dict[str, Any]:
    """The same as fields of a session.config."""
    file = io.BytesIO()
    samples = to_pcm(new_recording(voices.seconds, number, RECORDER_HZ))
    soundfile.write(file, samples, RECORDER_HZ, format="WAV", subtype="PCM_16")
    fields: dict[str, Any] = {"ref_audio": base64.b64encode(file.getvalue()).decode()}
    return fields | ({"x_vector_only_mode": True} if voices.x_vector_only else {"ref_text": _transcript(voices)})


def _transcript(voices: NewVoices) -> str:
    return " ".join([TRANSCRIPT] * max(1, round(voices.seconds / REFERENCE_S)))


def keep_voice(folder: Path) -> None:
    """Put the voice that Base clones into a library, so that a server finds it there by its name."""
    library = Library(folder)
    library.open()
    library.add(
        Voice(
            id=new_id(),
            name=STORED,
            reference=recording(),
            transcript=TRANSCRIPT,
            consent=Consent(words="It is nobody's voice."),
        )
    )
    library.close()


def request_for(
    card: ModelCard,
    mode: Mode,
    text: str,
    frames: int,
    seed: int,
    *,
    is_live: bool,
    language: str = "english",
    reference: Reference | None = None,
) -> SpeechRequest:
    """What the engine in this process is asked; Base clones the kept voice unless another reference is given."""
    if mode is Mode.BASE and reference is None:
        reference = Reference(samples=to_float(recording()), text=TRANSCRIPT)
    return SpeechRequest(
        text=text,
        mode=mode,
        voice=card.speakers[0] if mode is Mode.CUSTOM_VOICE and card.speakers else None,
        language=language if language in card.languages else "auto",
        instruct=DESIGN if mode is Mode.VOICE_DESIGN else None,
        reference=reference,
        layout=Layout.STREAMING if is_live and Layout.STREAMING in card.layouts else None,
        seed=seed,
        max_frames=frames,
        open_text=is_live,
        holds_end=True,
    )


def config_for(
    card: dict[str, Any],
    mode: Mode,
    frames: int,
    seed: int,
    *,
    is_live: bool,
    language: str = "english",
    upload: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The same as a session.config; ``card`` as /v1/models lists it, ``upload`` as `new_upload` makes it."""
    config: dict[str, Any] = {"task_type": mode, "max_frames": frames, "seed": seed}
    if language in card["languages"]:
        config["language"] = language
    if mode is Mode.CUSTOM_VOICE and card["speakers"]:
        config["voice"] = card["speakers"][0]
    elif mode is Mode.VOICE_DESIGN:
        config["instructions"] = DESIGN
    elif mode is Mode.BASE:
        config |= {"voice": STORED} if upload is None else upload
    if is_live and Layout.STREAMING in card["layouts"]:
        config["non_streaming_mode"] = False
    return config
