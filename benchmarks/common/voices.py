"""Voices for the requests of a benchmark, for each mode of a checkpoint."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE, Layout, Mode, ModelCard, Reference, SpeechRequest
from runtime.shared.names import new_id
from runtime.voices.library import Library
from runtime.voices.voice import Consent, Voice, to_float, to_pcm

DESIGN = "A warm young voice, close to the microphone."
STORED_VOICE_NAME = "Benchmark"
TRANSCRIPT = "The old sailor told a story."
REFERENCE_S = 3.0
RECORDER_HZ = 48_000  # Sample rate of microphones. Users upload recordings with this rate, which must be resampled.


@dataclass(frozen=True, slots=True)
class NewVoices:
    """Reference recordings for voice cloning, with a different recording for each request.

    Voices are cloned from the x-vector (speaker embedding) alone, or from the recording and its transcript (ICL).
    """

    seconds: float
    x_vector_only: bool

    def __str__(self) -> str:
        return f"{'x-vector' if self.x_vector_only else 'ICL'} {self.seconds:g} s"

    @property
    def transcript(self) -> str:
        return " ".join([TRANSCRIPT] * max(1, round(self.seconds / REFERENCE_S)))

    def upload(self, number: int) -> dict[str, Any]:
        """Return the reference recording of a request, as fields of a session.config message."""
        fields: dict[str, Any] = {"ref_audio": wav_base64(recording(self.seconds, number, RECORDER_HZ), RECORDER_HZ)}
        return fields | ({"x_vector_only_mode": True} if self.x_vector_only else {"ref_text": self.transcript})


@cache
def recording(seconds: float = REFERENCE_S, number: int = 0, rate: int = SAMPLE_RATE) -> NDArray[np.float32]:
    """Create a synthetic recording of a harmonic tone whose loudness varies periodically.

    Args:
        seconds: Duration of the recording.
        number: Number that selects the pitch and the period.
        rate: Sample rate in Hz.

    Shapes: result [N] float32, mono.
    """
    t = np.arange(round(seconds * rate)) / rate
    draw = np.random.default_rng(number)
    pitch, rhythm = 80 + 160 * draw.random(), 2 + 4 * draw.random()
    tone = sum(np.sin(2 * np.pi * pitch * k * t + phase) / k for k, phase in enumerate(draw.random(12), 1))
    return (0.2 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * rhythm * t))).astype(np.float32)


def wav_base64(samples: NDArray[np.float32], rate: int = SAMPLE_RATE) -> str:
    """Encode samples as a 16-bit WAV file, and return it in base64 for a JSON message."""
    file = io.BytesIO()
    soundfile.write(file, to_pcm(samples), rate, format="WAV", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()


def store_voice(folder: Path) -> None:
    """Store a voice in a library folder.

    Requests with the mode `base` select the voice by its name.
    """
    library = Library(folder)
    library.open()
    consent = Consent(words="Synthetic: the voice of no person.")
    reference = to_pcm(recording())
    library.register_voice(
        Voice(id=new_id(), name=STORED_VOICE_NAME, reference=reference, transcript=TRANSCRIPT, consent=consent)
    )
    library.close()


def request_for(
    card: ModelCard,
    mode: Mode,
    text: str,
    frames: int,
    seed: int,
    *,
    language: str = "english",
) -> SpeechRequest:
    """Create a speech request for an in-process engine that has loaded the checkpoint `card`.

    In the mode `base`, the voice is cloned from a synthetic recording.
    """
    reference = Reference(samples=to_float(to_pcm(recording())), text=TRANSCRIPT)
    return SpeechRequest(
        text=text,
        mode=mode,
        voice=card.speakers[0] if mode is Mode.CUSTOM_VOICE and card.speakers else None,
        language=language if language in card.languages else "auto",
        instruct=DESIGN if mode is Mode.VOICE_DESIGN else None,
        reference=reference if mode is Mode.BASE else None,
        seed=seed,
        max_frames=frames,
        bans_eos=True,
    )


def config_for(
    card: dict[str, Any],
    mode: Mode,
    frames: int,
    seed: int,
    *,
    is_live: bool = False,
    language: str = "english",
    upload: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the fields of a session.config message for a speech request.

    Args:
        card: Entry of the response of /v1/models.
        mode: Mode of the checkpoint.
        frames: Number of audio frames to generate.
        seed: Seed of the request.
        is_live: True if the text is sent piece by piece.
        language: Name of the text's language.
        upload: Result of `NewVoices.upload`, or None to use the stored voice in the mode `base`.
    """
    config: dict[str, Any] = {"task_type": mode, "max_frames": frames, "seed": seed}
    if language in card["languages"]:
        config["language"] = language
    if mode is Mode.CUSTOM_VOICE and card["speakers"]:
        config["voice"] = card["speakers"][0]
    elif mode is Mode.VOICE_DESIGN:
        config["instructions"] = DESIGN
    elif mode is Mode.BASE:
        config |= {"voice": STORED_VOICE_NAME} if upload is None else upload
    if is_live and Layout.STREAMING in card["layouts"]:
        config["non_streaming_mode"] = False
    return config
