"""Code2Wav over the states of all open streams, to s16 samples and a flag per row.

``LibrarySound`` is the network itself, on any device; ``runtime/model/packed_sound.py`` is the same in kernels.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from runtime.model.code2wav import Code2Wav, StreamState

FULL_SCALE = 32767  # Maximum of s16le, as libsndfile scales.
ROW = 3  # Columns of a row: slot, turn, frames.
ANY = 1 << 30  # Any number of frames.


class SoundNetwork(Protocol):
    """Streams of sound in slots. A slot that is not named in a call is not touched by it."""

    longest: int  # Maximum frames of a call.

    @property
    def stepped(self) -> SteppedSound | None:
        """The network, where it can do what `after` does in steps that are legal in graphs."""

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Return the sound of the next frames of some streams; their states move on. Legal in a graph.

        Shapes: rows [B, 3] int32: slot, turn (how many chunks it has had, modulo 2), frames it has had; codes
        [B, n, Q] int32; result [B, n * samples_per_frame + flags] int16, where the flags are 0 if all samples of the
        row were finite.
        """

    def reset(self, slot: int) -> None:
        """A fresh stream, whatever the slot held."""

    def after(self, codes: Tensor) -> tuple[StreamState, int]:
        """Return the state of a fresh stream after reference frames, whose sound is not made, and its turn then.

        What is in the state is the network's own business. One thread at a time; others may decode meanwhile.

        Shapes: codes [m, Q] integer.
        """

    def put(self, slot: int, state: StreamState) -> None:
        """Let a slot go on from a state that `after` made."""


class SteppedSound(SoundNetwork, Protocol):
    """A network that goes over a reference in steps: all `move_on`, but for the last frames, which are decoded."""

    side: int  # Slot of the reference, which no stream uses.
    tail_frames: int  # Frames of the last step.

    def move_on(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Move streams on over frames after which at least ``tail_frames`` come. Shapes: as `decode`; result: any."""

    def state_of(self, slot: int) -> StreamState:
        """Return a copy of a stream's state."""


class LibrarySound:
    """The network as it is, in float32. It knows by itself how far each stream is."""

    longest = ANY
    stepped = None

    def __init__(self, code2wav: Code2Wav, slots: int) -> None:
        self.code2wav = code2wav
        with torch.inference_mode():
            self.state = code2wav.fresh_state(slots)

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        slots = rows[:, 0].long()
        state = self.state.rows(slots)
        wave = self.code2wav(codes.long(), state)
        self.state.write(slots, state)
        broken = wave.isfinite().logical_not_().any(dim=-1, keepdim=True)
        return torch.cat((to_s16(wave), broken.to(torch.int16)), dim=-1)

    def reset(self, slot: int) -> None:
        self.state.reset(slot)

    def after(self, codes: Tensor) -> tuple[StreamState, int]:
        state = self.code2wav.fresh_state(1)
        self.code2wav.warm(codes.to(self.state.frames.device).unsqueeze(0), state)
        return state.rows(torch.zeros(1, device=self.state.frames.device, dtype=torch.int64)), 0  # A copy.

    def put(self, slot: int, state: StreamState) -> None:
        self.state.write(torch.tensor([slot], device=self.state.frames.device), state)


def to_s16(wave: Tensor) -> Tensor:
    """Shapes: wave [...] float in [-1, 1]; result [...] int16; what is not finite becomes silence."""
    return (wave.nan_to_num() * FULL_SCALE).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)
