"""Code2Wav over the arena of open streams: frames of several requests in, their sound out. Lane of sound only."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device, kernels
from runtime.device.cpu import CpuDevice
from runtime.device.interface import Track
from runtime.engine.sound_graphs import Progress, SoundGraphs, pieces
from runtime.engine.voices import ClonedVoice, VoiceSound
from runtime.model.code2wav import Code2Wav
from runtime.model.sound import ROW, LibrarySound, SoundNetwork

log = logging.getLogger(__name__)


def sound_network(code2wav: Code2Wav, slots: int, device: Device, dtype: torch.dtype) -> SoundNetwork:
    """Kernels where there are a card and Triton, else the library's operations, in float32."""
    if device.torch_device.type == "cuda" and kernels.available():
        from runtime.model.packed_sound import PackedSound

        return PackedSound(code2wav, slots, dtype)
    if dtype is not torch.float32:
        log.warning("Code2Wav runs in float32: its bfloat16 needs a card and Triton")
    return LibrarySound(code2wav, slots)


class SoundStreams:
    """One stream a slot. A stream is fresh when it is opened, whatever its slot held before."""

    def __init__(
        self,
        code2wav: Code2Wav,
        slots: int,
        device: Device | None = None,
        dtype: torch.dtype = torch.float32,
        network: SoundNetwork | None = None,
    ) -> None:
        self.samples_per_frame = code2wav.config.samples_per_frame
        self.device = device or CpuDevice()
        self.network = network or sound_network(code2wav, slots + 1, self.device, dtype)  # one to spare: Bucket
        self.graphs = SoundGraphs(self.network, self.device, code2wav.config.num_quantizers, slots, spare=slots)
        self.uncaptured = 0  # calls that found no graph, though graphs are held
        self._rows: NDArray[np.int64] = np.zeros((slots, ROW), np.int64)  # slot, turn, frames decoded
        self._rows[:, 0] = np.arange(slots)

    def prepare(self, progress: Progress = lambda done, of: None) -> None:
        """Capture the graphs; where that fails, the same work is done without them."""
        if self.device.holds_graphs:
            self.graphs.capture(progress)

    @torch.inference_mode()
    def open(self, slot: int, voice: ClonedVoice | None = None) -> None:
        """Begin a stream, after the voice's reference frames if it has any; their state is kept with the voice."""
        with self.device.track(Track.FIRST_SOUND):
            self.network.reset(slot)
            turn = frames = 0
            if voice is not None and voice.codes is not None:
                if voice.sound is None:
                    turn, frames = self.network.warm(slot, voice.codes), len(voice.codes)
                    voice.sound = VoiceSound(self.network.keep(slot), turn, frames)
                else:
                    turn, frames = voice.sound.turn, voice.sound.frames
                    self.network.put(slot, voice.sound.state)
            moment = self.device.mark()
        moment.synchronize()  # its first chunk may run on another track
        self._rows[slot, 1:] = turn, frames

    @torch.inference_mode()
    def decode(self, slots: Sequence[int], codes: Tensor, track: Track = Track.SOUND) -> list[bytes | None]:
        """The sound of the next frames of some streams, as s16le; None where it is not finite.

        Shapes: codes [B, n, Q] int64, a row a slot; each result has n * samples_per_frame samples. Called within
        ``track``: first chunks and all others may be decoded at the same time, never of the same slot.
        """
        sizes = self.graphs.sizes(track)
        cut = pieces(codes.shape[1], sizes) if sizes else _evenly(codes.shape[1], self.network.longest)
        widest = self.graphs.widest(track) if sizes else len(slots)
        sounds: list[bytes | None] = []
        for first in range(0, len(slots), widest):
            group = np.array(slots[first : first + widest], np.int64)
            parts: list[list[bytes]] = [[] for _ in group]
            sane = np.ones(len(group), bool)
            begin = 0
            for size in cut:
                made = self._piece(group, codes[first : first + widest, begin : begin + size], track)
                samples = size * self.samples_per_frame
                sane &= ~made[:, samples:].any(axis=1)
                for part, row in zip(parts, made[:, :samples], strict=True):
                    part.append(row.tobytes())
                begin += size
            sounds += [b"".join(part) if whole else None for part, whole in zip(parts, sane, strict=True)]
        return sounds

    def _piece(self, slots: NDArray[np.int64], codes: Tensor, track: Track) -> NDArray[np.int16]:
        """One call of the network. Shapes: codes [b, n, Q]; result [b, samples and flags]."""
        rows, size = self._rows[slots], codes.shape[1]
        if (bucket := self.graphs.bucket(track, size, len(slots))) is not None:
            made = bucket.run(rows, codes)
        else:
            self.uncaptured += self.device.holds_graphs
            made = self._eagerly(rows, codes, track)
        self._rows[slots, 1] ^= 1
        self._rows[slots, 2] += size
        return made.numpy()

    def _eagerly(self, rows: NDArray[np.int64], codes: Tensor, track: Track) -> Tensor:
        where = self.device.torch_device
        with self.device.track(track):
            numbers = torch.from_numpy(rows).to(where, torch.int32)
            return self.network.decode(numbers, codes.to(where, torch.int32).contiguous()).cpu()


def _evenly(frames: int, longest: int) -> list[int]:
    """A chunk in pieces of the longest that a network takes, and the rest."""
    return [min(longest, frames - begin) for begin in range(0, frames, longest)]
