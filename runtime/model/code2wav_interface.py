"""Interface of a Code2Wav network that stores the states of all open streams.

``TorchCode2Wav`` implements the interface with torch operations on any device. ``runtime/model/packed_code2wav.py``
uses Triton kernels. Each row of a result contains 16-bit samples, followed by flags. The flags are nonzero if the
network's output for this row was not finite before it was rounded to 16 bits.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from runtime.model.code2wav import Code2Wav, StreamState

FULL_SCALE = 32767  # Value of a 16-bit sample for the amplitude 1.0, as in libsndfile.
ROW_COLUMNS = 3  # Number of columns in a row: slot, parity of the number of decoded chunks, number of decoded frames.
UNLIMITED_FRAMES = 1 << 30  # Number that is larger than the number of frames of any request.


class Code2WavNetwork(Protocol):
    """Code2Wav network that stores the state of one stream per slot.

    `decode` changes only the states of the slots in `rows`.
    """

    max_call_frames: int  # Maximum number of frames per call of `decode`.

    @property
    def stepped(self) -> SteppedCode2Wav | None:
        """Return this network if it implements the interface ``SteppedCode2Wav``, else None."""

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Decode the next n frames of every stream in `rows`, and advance the stream states.

        The call can be captured as a graph.

        Shapes: rows [B, 3] int32: slot, parity of the number of decoded chunks, number of decoded frames; codes [B, n,
        Q] int32; result [B, n * samples_per_frame + flags] int16. The flags are 0 if all samples of the row were
        finite.
        """

    def reset(self, slot: int) -> None:
        """Reset a slot to the state of a new stream."""

    def state_after(self, codes: Tensor) -> tuple[StreamState, int]:
        """Return the state of a new stream after reference frames, and the parity for `decode`.

        The audio of the reference frames is not decoded. The content of the state depends on the network.

        Shapes: codes [m, Q] integer.

        Thread: Only one thread at a time may call this method. Other threads may call `decode` in the meantime.
        """

    def write_state(self, slot: int, state: StreamState) -> None:
        """Copy a state that `state_after` has returned into a slot."""


class SteppedCode2Wav(Code2WavNetwork, Protocol):
    """Code2Wav network that can process reference frames in several steps.

    Each step has a fixed number of frames, so graphs can capture it. The caller passes the last `tail_frames` frames to
    `decode`, and all earlier frames to `advance_state`.
    """

    reference_slot: int  # Number of the slot that is reserved for reference frames.
    tail_frames: int  # Number of frames that the last step processes.

    def advance_state(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Advance stream states over reference frames without decoding audio.

        At least `tail_frames` more frames must follow. Ignore the result.

        Shapes: see `decode`.
        """

    def state_of(self, slot: int) -> StreamState:
        """Return a copy of the stream state in a slot."""


class TorchCode2Wav:
    """Implementation of ``Code2WavNetwork`` with torch operations in float32.

    The parity and the number of decoded frames in `rows` are not used, because the state includes the number of frames.
    """

    max_call_frames = UNLIMITED_FRAMES
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

    def state_after(self, codes: Tensor) -> tuple[StreamState, int]:
        state = self.code2wav.fresh_state(1)
        self.code2wav.warm(codes.to(self.state.frames.device).unsqueeze(0), state)
        # Return a copy, because the state may consist of views of larger tensors.
        return state.rows(torch.zeros(1, device=self.state.frames.device, dtype=torch.int64)), 0

    def write_state(self, slot: int, state: StreamState) -> None:
        self.state.write(torch.tensor([slot], device=self.state.frames.device), state)


def to_s16(wave: Tensor) -> Tensor:
    """Convert float samples to 16-bit PCM, with silence for NaN.

    Shapes: wave [...] float in [-1, 1]; result [...] int16.
    """
    return (wave.nan_to_num() * FULL_SCALE).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)
