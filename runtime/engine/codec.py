"""Code2Wav over the arena of open streams: frames of several requests in, their sound out. Lane of sound only."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device, kernels
from runtime.device.cpu import CpuDevice
from runtime.device.interface import Moment, Track
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


@dataclass(frozen=True, slots=True)
class Following:
    """A row's sound that is being made behind its frame. Shapes: made [samples and flags] int16, on the host."""

    made: Tensor
    samples: int
    moment: Moment

    def pcm(self) -> bytes | None:
        """Wait for it; s16le, or None where it is not finite."""
        self.moment.synchronize()
        made = self.made.numpy()
        return None if made[self.samples :].any() else made[: self.samples].tobytes()


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
        self._last: dict[int, tuple[Track, Moment]] = {}  # by slot: work on its stream whose end nobody has awaited
        self._rows: NDArray[np.int64] = np.zeros((slots, ROW), np.int64)  # slot, turn, frames decoded
        self._rows[:, 0] = np.arange(slots)

    def prepare(self, progress: Progress = lambda done, of: None) -> None:
        """Capture the graphs; where that fails, the same work is done without them."""
        if self.device.holds_graphs:
            self.graphs.capture(progress)

    @torch.inference_mode()
    def open(self, slot: int, voice: ClonedVoice | None = None, track: Track = Track.FIRST_SOUND) -> None:
        """Begin a stream, after the voice's reference frames if it has any; their state is kept with the voice."""
        with self.device.track(track):
            self._after_last((slot,), track)
            self.network.reset(slot)
            turn = frames = 0
            if voice is not None and voice.codes is not None:
                if voice.sound is None:
                    turn, frames = self.network.warm(slot, voice.codes), len(voice.codes)
                    voice.sound = VoiceSound(self.network.keep(slot), turn, frames)
                else:
                    turn, frames = voice.sound.turn, voice.sound.frames
                    self.network.put(slot, voice.sound.state)
            self._last[slot] = track, self.device.mark()
        self._rows[slot, 1:] = turn, frames

    def can_follow(self, voice: ClonedVoice | None) -> bool:
        """Whether a stream can be opened, and its first frame decoded, without waiting for anything."""
        is_known = voice is None or voice.codes is None or voice.sound is not None
        return is_known and bool(self.graphs.sizes(Track.STARTS))

    @torch.inference_mode()
    def follow(self, slots: Sequence[int], codes: Tensor) -> list[Following]:
        """Decode the first frame of freshly opened streams right behind it; within ``Track.STARTS``.

        Shapes: codes [B, Q], on the device.
        """
        widest = self.graphs.widest(Track.STARTS)
        followed: list[Following] = []
        for first in range(0, len(slots), widest):
            group = np.array(slots[first : first + widest], np.int64)
            bucket = self.graphs.bucket(Track.STARTS, 1, len(group))
            assert bucket is not None
            made, moment = bucket.begin(self._rows[group], codes[first : first + widest].unsqueeze(1))
            self._move_on(group, 1)
            self._last.update(dict.fromkeys(group.tolist(), (Track.STARTS, moment)))
            followed += [Following(made[place], self.samples_per_frame, moment) for place in range(len(group))]
        return followed

    @torch.inference_mode()
    def decode(
        self, slots: Sequence[int], codes: Tensor, track: Track = Track.SOUND, *, at_end: bool = False
    ) -> list[bytes | None]:
        """The sound of the next frames of some streams, as s16le; None where it is not finite.

        Shapes: codes [B, n, Q] int64, a row a slot; each result has n * samples_per_frame samples, or more where the
        streams are ``at_end``: nothing follows in them, and what makes a call whole may. Called within ``track``:
        first chunks and all others may be decoded at the same time, never of the same slot.
        """
        frames, sizes = codes.shape[1], self.graphs.sizes(track)
        if at_end and (fitting := [size for size in sizes if size >= frames]):
            codes = codes[:, np.minimum(np.arange(fitting[0]), frames - 1)]
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
        if begun := [slot for slot in slots.tolist() if slot in self._last]:
            with self.device.track(track):
                self._after_last(begun, track)
        if (bucket := self.graphs.bucket(track, size, len(slots))) is not None:
            made = bucket.run(rows, codes)
        else:
            self.uncaptured += self.device.holds_graphs
            made = self._eagerly(rows, codes, track)
        self._move_on(slots, size)
        return made.numpy()

    def _move_on(self, slots: NDArray[np.int64], frames: int) -> None:
        self._rows[slots, 1] ^= 1
        self._rows[slots, 2] += frames

    def _after_last(self, slots: Sequence[int], track: Track) -> None:
        """Let the current track wait for what other tracks do to some streams."""
        for slot in slots:
            other, moment = self._last.pop(slot, (track, None))
            if moment is not None and other is not track:
                self.device.wait(moment)

    def _eagerly(self, rows: NDArray[np.int64], codes: Tensor, track: Track) -> Tensor:
        where = self.device.torch_device
        with self.device.track(track):
            numbers = torch.from_numpy(rows).to(where, torch.int32)
            return self.network.decode(numbers, codes.to(where, torch.int32).contiguous()).cpu()


def _evenly(frames: int, longest: int) -> list[int]:
    """A chunk in pieces of the longest that a network takes, and the rest."""
    return [min(longest, frames - begin) for begin in range(0, frames, longest)]
