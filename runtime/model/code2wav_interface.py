"""Interface of Code2Wav with the states of all open streams.

Results are s16 samples and flags per row. ``TorchCode2Wav`` uses torch operations on any device;
``runtime/model/packed_code2wav.py`` uses Triton kernels.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from runtime.model.code2wav import Code2Wav, StreamState

FULL_SCALE = 32767  # Full scale of s16, as in libsndfile.
ROW_COLUMNS = 3  # Columns of a row: slot, turn, number of decoded frames.
UNLIMITED_FRAMES = 1 << 30  # Larger than every number of frames.


class Code2WavNetwork(Protocol):
    """Code2Wav with one stream state per slot.

    A call changes only the slots in its rows.
    """

    longest: int  # Maximum number of frames in a call.

    @property
    def stepped(self) -> SteppedCode2Wav | None:
        """Return this network if graphs can capture the steps of a reference, else None."""

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Decode the next frames of some streams and advance their states.

        Graphs can capture it.

        Shapes: rows [B, 3] int32: slot, turn (number of decoded chunks modulo 2), decoded frames; codes [B, n, Q]
        int32; result [B, n * samples_per_frame + flags] int16; the flags are 0 if all samples of the row were finite.
        """

    def reset(self, slot: int) -> None:
        """Reset a slot to a new stream."""

    def after(self, codes: Tensor) -> tuple[StreamState, int]:
        """Return the state and turn of a new stream after reference frames.

        Their audio is not decoded.

        The content of the state depends on the network. Thread: one at a time; other threads may call `decode`.

        Shapes: codes [m, Q] integer.
        """

    def put(self, slot: int, state: StreamState) -> None:
        """Continue a slot from a state that `after` has returned."""


class SteppedCode2Wav(Code2WavNetwork, Protocol):
    """Network that processes a reference in steps.

    `move_on` processes all frames except the last ones, which are decoded.
    """

    side: int  # Slot for references, which no stream uses.
    tail_frames: int  # Number of frames of the last step.

    def move_on(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Advance streams over frames that are followed by at least `tail_frames` frames.

        Shapes: see `decode`; the result is not used.
        """

    def state_of(self, slot: int) -> StreamState:
        """Return a copy of a stream's state."""


class TorchCode2Wav:
    """Implementation by torch operations in float32.

    It stores the number of decoded frames itself.
    """

    longest = UNLIMITED_FRAMES
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
        # Indexing returns a copy.
        return state.rows(torch.zeros(1, device=self.state.frames.device, dtype=torch.int64)), 0

    def put(self, slot: int, state: StreamState) -> None:
        self.state.write(torch.tensor([slot], device=self.state.frames.device), state)


def to_s16(wave: Tensor) -> Tensor:
    """Convert samples to s16.

    Samples that are not finite become silence.

    Shapes: wave [...] float in [-1, 1]; result [...] int16.
    """
    return (wave.nan_to_num() * FULL_SCALE).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)
