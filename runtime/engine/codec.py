"""Code2Wav over the arena of open streams: frames of several requests in, their sound out. Lane of sound only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.device.interface import Track
from runtime.engine.voices import ClonedVoice
from runtime.model.code2wav import Code2Wav

FULL_SCALE = 32767  # of s16le, as libsndfile scales


class SoundStreams:
    """One stream a slot. A stream is fresh when it is opened, whatever its slot held before."""

    def __init__(self, code2wav: Code2Wav, slots: int) -> None:
        self.code2wav = code2wav
        with torch.inference_mode():
            self.state = code2wav.fresh_state(slots)

    @torch.inference_mode()
    def open(self, slot: int, voice: ClonedVoice | None = None) -> None:
        """Begin a stream, after the voice's reference frames if it has any; their state is kept with the voice."""
        if voice is None or voice.codes is None:
            self.state.reset(slot)
            return
        row = torch.tensor([slot], device=self.state.frames.device)
        if voice.sound is None:
            sound = self.code2wav.fresh_state(1)
            self.code2wav.warm(voice.codes.to(row.device).unsqueeze(0), sound)
            voice.sound = sound
        self.state.write(row, voice.sound)

    @torch.inference_mode()
    def decode(self, slots: Sequence[int], codes: Tensor, track: Track = Track.SOUND) -> list[bytes | None]:
        """The sound of the next frames of some streams, as s16le; None where it is not finite.

        Shapes: codes [B, n, Q] int64, a row a slot; each result has n * samples_per_frame samples. Called within
        ``track``: first chunks and all others may be decoded at the same time, never of the same slot.
        """
        rows = torch.tensor(slots, device=self.state.frames.device)
        state = self.state.rows(rows)
        wave = self.code2wav(codes.to(rows.device), state)
        self.state.write(rows, state)
        finite = wave.isfinite().all(dim=-1).tolist()
        return [
            samples.numpy().tobytes() if sane else None
            for samples, sane in zip(to_s16(wave).cpu(), finite, strict=True)
        ]


def to_s16(wave: Tensor) -> Tensor:
    """Shapes: wave [...] float in [-1, 1]; result [...] int16; what is not finite becomes silence."""
    return (wave.nan_to_num() * FULL_SCALE).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)
