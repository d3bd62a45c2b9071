"""Encoded reference audio of a cloned voice, used by the talker's prompt and by Code2Wav."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from runtime.model.code2wav import StreamState


@dataclass(frozen=True, slots=True, eq=False)
class VoiceStreamState:
    """Code2Wav state after the reference frames of a voice.

    It is the initial state of every stream of the voice. runtime/model/code2wav_interface.py describes the fields.
    """

    state: StreamState
    parity: int
    frames: int


@dataclass(slots=True, eq=False)
class ClonedVoice:
    """Cloned voice: the encoded reference audio, and its transcript.

    `codes` and `text` (the transcript) are None if only the x-vector is used.

    Shapes: x_vector [H] float32; codes [m, Q] int64.
    """

    x_vector: Tensor
    codes: Tensor | None = None
    text: str | None = None
    key: str = ""  # Key of the reference in the voice cache.
    stream_state: VoiceStreamState | None = None  # State of Code2Wav after it has decoded the reference's frames.
