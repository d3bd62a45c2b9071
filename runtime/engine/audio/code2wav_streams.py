"""Audio streams in slots, which Code2Wav decodes in batches.

Thread: Code2Wav worker.
"""

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
from runtime.device.interface import Event, Stream
from runtime.engine.audio.code2wav_graphs import Code2WavGraphs, Shape, split_frames
from runtime.engine.audio.reference_prefill import ReferencePrefill
from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.execution.graphs import GraphPool, Progress
from runtime.errors import GenerationFailed, NonFiniteOutput, SpeechError
from runtime.model.code2wav import Code2Wav
from runtime.model.code2wav_interface import ROW_COLUMNS, Code2WavNetwork, TorchCode2Wav
from runtime.model.native_code2wav import native_code2wav

log = logging.getLogger(__name__)


def code2wav_interface(code2wav: Code2Wav, slots: int, device: Device, dtype: torch.dtype) -> Code2WavNetwork:
    """Create the fastest available implementation of Code2Wav for a device.

    A GPU uses Triton kernels, and a CPU uses a C++ operator. If these are not available, torch operations with float32
    states are used.
    """
    if device.torch_device.type == "cpu" and (native := native_code2wav(code2wav, slots)) is not None:
        return native
    if device.torch_device.type == "cuda" and kernels.available():
        from runtime.model.packed_code2wav import PackedCode2Wav

        return PackedCode2Wav(code2wav, slots, dtype)
    # On a CPU, the dtype needs no warning, because the loader has already packed the weights in it.
    if dtype is not torch.float32 and device.name != "cpu":
        log.warning("Code2Wav runs in float32: bfloat16 needs a GPU and Triton")
    return TorchCode2Wav(code2wav, slots)


@dataclass(frozen=True, slots=True)
class FirstAudio:
    """Audio of a request's first frame, which is decoded before the host has read the frame.

    Shapes: made [samples + flags] int16, on the host, valid after `event`. A nonzero flag marks audio that is not
    finite.
    """

    made: Tensor
    samples: int
    event: Event

    def pcm(self) -> bytes | SpeechError:
        """Wait for the decoder, and return the audio as 16-bit PCM bytes or an error."""
        try:
            self.event.synchronize()
        except Exception:
            log.exception("decoding the audio of a first frame failed")
            return GenerationFailed()
        samples = self.made.numpy()
        return NonFiniteOutput() if samples[self.samples :].any() else samples[: self.samples].tobytes()


class Code2WavStreams:
    """Audio streams that Code2Wav decodes, one per slot."""

    def __init__(
        self,
        code2wav: Code2Wav,
        slots: int,
        device: Device | None = None,
        dtype: torch.dtype = torch.float32,
        network: Code2WavNetwork | None = None,
        graphs: GraphPool | None = None,
        shapes: Sequence[Shape] = (),
    ) -> None:
        """Create the streams, but capture no graph yet.

        Args:
            shapes: Shapes (frames, batch size) of the graphs for chunks after a request's first chunk. If empty,
                default shapes are used.
        """
        self.samples_per_frame = code2wav.config.samples_per_frame
        self.groups = code2wav.config.num_quantizers
        self.device = device or CpuDevice()
        # One additional slot is needed for the padding rows of graphs.
        self.network = network or code2wav_interface(code2wav, slots + 1, self.device, dtype)
        self._pool = GraphPool(self.device) if graphs is None else graphs
        self.graphs = Code2WavGraphs(self.network, self.device, self.groups, slots, slots, self._pool, shapes)
        self.after = ReferencePrefill(self.network, self.device, self.groups, self._pool)
        self.uncaptured = 0  # Number of calls without a matching graph on a device with graphs.
        # Device stream and event of each slot's last launch. If the next launch uses another stream, it waits for the
        # event and removes it from this dict.
        self._last: dict[int, tuple[Stream, Event]] = {}
        # Columns: slot, parity (number of decoded chunks modulo 2), number of decoded frames.
        self._rows: NDArray[np.int64] = np.zeros((slots, ROW_COLUMNS), np.int64)
        self._rows[:, 0] = np.arange(slots)

    @torch.inference_mode()
    def capture(self, progress: Progress = lambda done, of: None) -> None:
        """Capture all Code2Wav graphs.

        A shape whose capture fails runs eagerly.
        """
        if self.device.holds_graphs:
            self._pool.capture([*self.graphs.captures(), *self.after.captures()], progress)

    @torch.inference_mode()
    def open(self, slot: int, voice: ClonedVoice | None = None, stream: Stream = Stream.FIRST_AUDIO) -> None:
        """Open a new stream in a slot, and discard the slot's previous state.

        If the voice has reference frames, the new stream continues after these frames.
        """
        with self.device.stream(stream):
            self._after_last((slot,), stream)
            self.network.reset(slot)
            parity = frames = 0
            if voice is not None and voice.codes is not None:
                voice.stream_state = voice.stream_state or self.after(voice.codes)
                parity, frames = voice.stream_state.parity, voice.stream_state.frames
                self.network.write_state(slot, voice.stream_state.state)
            self._last[slot] = stream, self.device.record_event()
        self._rows[slot, 1:] = parity, frames

    def can_launch_first_audio(self, voice: ClonedVoice | None) -> bool:
        """True if `launch_first_audio` can decode the first frame of a new stream with this voice.

        The device must have graphs for `launch_first_audio`, and the state after the voice's reference frames must be
        cached.
        """
        is_known = voice is None or voice.codes is None or voice.stream_state is not None
        return is_known and bool(self.graphs.frame_counts(Stream.PROMPTS))

    @torch.inference_mode()
    def launch_first_audio(self, slots: Sequence[int], codes: Tensor) -> list[FirstAudio]:
        """Launch the decoding of the first frame of new streams before the host reads the codes.

        The current device stream must be ``Stream.PROMPTS``.

        Shapes: codes [B, Q], on the device.

        Returns:
            For each slot, an object that waits for the audio and returns it.
        """
        widest = self.graphs.max_batch_size(Stream.PROMPTS)
        followed: list[FirstAudio] = []
        for first in range(0, len(slots), widest):
            group = np.array(slots[first : first + widest], np.int64)
            graph = self.graphs.graph_for(Stream.PROMPTS, 1, len(group))
            assert graph is not None
            output, event = graph.begin(self._rows[group], codes[first : first + widest].unsqueeze(1))
            self._advance(group, 1)
            self._last.update(dict.fromkeys(group.tolist(), (Stream.PROMPTS, event)))
            followed += [FirstAudio(output[index], self.samples_per_frame, event) for index in range(len(group))]
        return followed

    @torch.inference_mode()
    def decode(
        self, slots: Sequence[int], codes: Tensor, stream: Stream = Stream.AUDIO, *, at_end: bool = False
    ) -> list[bytes | SpeechError]:
        """Decode the next frames of the streams in some slots.

        If a network call fails, no stream state changes. The batch is then halved and retried, until only the faulty
        streams fail.

        Shapes: codes [B, n, Q] int64, one row per slot. Each result has n * samples_per_frame samples. With `at_end`, a
        result may have more samples, because the last chunk of a stream may be padded.

        Thread: Two threads may decode on different device streams at the same time, but not the same slot.

        Returns:
            16-bit PCM bytes or an error for each stream.
        """
        frames, sizes = codes.shape[1], self.graphs.frame_counts(stream)
        if at_end and (fitting := [size for size in sizes if size >= frames]):
            codes = codes[:, np.minimum(np.arange(fitting[0]), frames - 1)]
        cut = split_frames(codes.shape[1], sizes) if sizes else _evenly(codes.shape[1], self.network.max_call_frames)
        widest = self.graphs.max_batch_size(stream) if sizes else len(slots)
        pcms: list[bytes | SpeechError] = []
        for first in range(0, len(slots), widest):
            group = np.array(slots[first : first + widest], np.int64)
            parts: list[list[bytes]] = [[] for _ in group]
            succeeded = np.arange(len(group))  # Indices of rows that have not failed.
            is_finite = np.ones(len(group), bool)  # True for rows whose audio is finite.
            begin = 0
            for size in cut:
                piece = codes[first : first + widest, begin : begin + size]
                succeeded, audio = self._pieces(
                    group, succeeded, piece if len(succeeded) == len(group) else piece[succeeded], stream
                )
                samples = size * self.samples_per_frame
                is_finite[succeeded] &= ~audio[:, samples:].any(axis=1)
                for index, row in zip(succeeded.tolist(), audio[:, :samples], strict=True):
                    parts[index].append(row.tobytes())
                begin += size
                if not len(succeeded):
                    break
            failed = np.ones(len(group), bool)
            failed[succeeded] = False
            pcms += [
                GenerationFailed() if has_failed else b"".join(part) if is_sane else NonFiniteOutput()
                for part, is_sane, has_failed in zip(parts, is_finite.tolist(), failed.tolist(), strict=True)
            ]
        return pcms

    def _pieces(
        self, group: NDArray[np.int64], indices: NDArray[np.int64], codes: Tensor, stream: Stream
    ) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Decode one piece of some streams of a group.

        Shapes: group [g]; indices [b], into the group; codes [b, n, Q]; results [c], into the group, and
        [c, samples + flags].

        Returns:
            The indices of the streams that succeeded, and their audio.
        """
        try:
            return indices, self._piece(group[indices], codes, stream)
        except Exception:
            log.exception("Code2Wav of %d streams failed", len(indices))
        if len(indices) == 1:
            return indices[:0], np.zeros((0, 0), np.int16)
        middle = len(indices) // 2
        halves = []
        for half in (slice(None, middle), slice(middle, None)):
            succeeded, audio = self._pieces(group, indices[half], codes[half], stream)
            halves.append((succeeded, audio.copy()))  # The audio is copied, because the next run overwrites it.
        outputs = [audio for indices, audio in halves if len(indices)]
        audio = np.concatenate(outputs) if outputs else halves[0][1]
        return np.concatenate([indices for indices, _ in halves]), audio

    def _piece(self, slots: NDArray[np.int64], codes: Tensor, stream: Stream) -> NDArray[np.int16]:
        """Decode one piece with one graph or one network call.

        Shapes: codes [b, n, Q]; result [b, samples + flags].
        """
        rows, size = self._rows[slots], codes.shape[1]
        if launched := [slot for slot in slots.tolist() if slot in self._last]:
            with self.device.stream(stream):
                self._after_last(launched, stream)
        if (graph := self.graphs.graph_for(stream, size, len(slots))) is not None:
            output = graph.run(rows, codes)
        else:
            self.uncaptured += self.device.holds_graphs
            output = self._eagerly(rows, codes, stream)
        self._advance(slots, size)
        return output.numpy()

    def _advance(self, slots: NDArray[np.int64], frames: int) -> None:
        self._rows[slots, 1] ^= 1
        self._rows[slots, 2] += frames

    def _after_last(self, slots: Sequence[int], stream: Stream) -> None:
        """Make the current device stream wait for work of other device streams on these slots."""
        for slot in slots:
            other, event = self._last.pop(slot, (stream, None))
            if event is not None and other is not stream:
                self.device.wait_event(event)

    def _eagerly(self, rows: NDArray[np.int64], codes: Tensor, stream: Stream) -> Tensor:
        device = self.device.torch_device
        with self.device.stream(stream):
            numbers = torch.from_numpy(rows).to(device, torch.int32)
            return self.network.decode(numbers, codes.to(device, torch.int32).contiguous()).cpu()


def _evenly(frames: int, max_frames: int) -> list[int]:
    """Split a chunk into pieces of the network's maximum length and a remainder."""
    return [min(max_frames, frames - begin) for begin in range(0, frames, max_frames)]
