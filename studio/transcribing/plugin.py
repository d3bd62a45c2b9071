"""Interface of speech recognisers, and the setting that selects one.

VOICEWRIGHT_TRANSCRIBER=my_recogniser:create selects this recogniser in my_recogniser.py on PYTHONPATH:

    from studio.transcribing.plugin import Transcript

    class Recogniser:
        name = "mine"

        def transcribe(self, samples, language):
            return Transcript("the text", "en")

    def create():
        return Recogniser()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.errors import InvalidSetting
from studio.plugins import is_installed

RATE_HZ = 16_000  # Sample rate of the recognisers' input.
BUILT_IN = "faster-whisper"
# Download sizes of the models that the page offers.
MODEL_BYTES = {"tiny": 78 * 10**6, "base": 148 * 10**6, "small": 486 * 10**6, "medium": 1530 * 10**6}
HOW = (
    "Install the extra of that name (in the checkout: .venv/bin/pip install -e clients/python -e '.[asr]'), "
    "or name a recogniser in VOICEWRIGHT_TRANSCRIBER."
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """Text of a recording, and its language code such as ``en`` (None if unknown)."""

    text: str
    language: str | None = None


class Transcriber(Protocol):
    """Speech recogniser that transcribes one recording at a time.

    Thread: the thread that created the recogniser.
    """

    name: str  # Displayed name of the recogniser.

    def transcribe(self, samples: NDArray[np.float32], language: str | None) -> Transcript:
        """Return the transcript of a recording, with an empty text if there is no speech.

        ``language`` is a code such as ``en``, or None to detect it.

        Shapes: samples [N] float32, mono, 16 kHz, peak around 1.
        """
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """Speech recogniser that the settings select, before it is loaded.

    `missing` is the reason why the recogniser is not available, or None if it is available.
    """

    setting: str
    missing: str | None = None

    @classmethod
    def of(cls, setting: str) -> Choice:
        """Parse the setting that selects a speech recogniser.

        Valid settings are ``faster-whisper:MODEL``, ``module:function`` (a plug-in), or an empty string.

        Raises:
            InvalidSetting: The text has another format.
        """
        kind, colon, rest = setting.partition(":")
        if not setting:
            return cls(setting, "The host has turned it off.")
        if kind != BUILT_IN and not (colon and all(part.isidentifier() for part in (*kind.split("."), rest))):
            why = f"it must be {BUILT_IN}:MODEL, or module:function, or empty"
            raise InvalidSetting(name="VOICEWRIGHT_TRANSCRIBER", value=repr(setting), why=why)
        if kind == BUILT_IN and not is_installed(BUILT_IN):
            return cls(setting, f"{BUILT_IN} is not installed. {HOW}")
        return cls(setting)

    @property
    def model(self) -> str:
        """Return the Whisper model of the built-in recogniser, or "" for a plug-in."""
        kind, _, rest = self.setting.partition(":")
        return (rest or "base") if kind == BUILT_IN else ""

    @property
    def hub_id(self) -> str | None:
        """Return the Hub id of a model that can be downloaded, or None for other models."""
        return f"Systran/faster-whisper-{self.model}" if self.model in MODEL_BYTES else None
