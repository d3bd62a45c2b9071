"""Encoders of reference audio, with one captured graph for each buffer length.

A recording is padded to one of a few buffer lengths, and each length has a graph. Without graphs, an encoding would
need about a thousand launches, and each launch would wait for the GIL.

Devices without graphs use the same buffers. The reason is that libraries choose algorithms by the input length, and
another algorithm would change the last bits of an x-vector. Recordings are never batched, so the result does not depend
on other requests.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.speaker_encoder import HOP
from runtime.request import SAMPLE_RATE

log = logging.getLogger(__name__)

# Lengths of the input buffers in seconds. A recording uses the shortest buffer that is long enough. Recordings that
# exceed all buffers are encoded without a buffer.
LENGTHS_S = (4.0, 8.0, 12.0, 20.0)
DEVICES_WITHOUT_GRAPHS = ("cpu", "mps")  # Devices on which padding only adds work, because they have no graphs.

Encode = Callable[[Tensor, Tensor], Tensor]


class _Bucket:
    """Buffer for recordings up to one length, with the encoders that read it.

    The encoders are graphs if the device has graphs.
    """

    def __init__(self, device: Device, samples: int, encoders: dict[str, Encode]) -> None:
        self._device = device
        # The first element is the number of samples. The samples follow.
        self._host = device.host_memory(1 + samples, dtype=torch.float32)
        self._host.zero_()
        self._host[0] = samples
        self._inputs = self._host.to(device.torch_device)
        self._encoders = {name: self._held(encode) for name, encode in encoders.items()}

    def _held(self, encode: Encode) -> Callable[[], Tensor]:
        def of_buffer() -> Tensor:
            return encode(self._inputs[1:], self._inputs[0].long())

        if not self._device.holds_graphs:
            return of_buffer
        graph = self._device.capture(of_buffer, Stream.VOICES)

        def replayed() -> Tensor:
            graph.replay()
            return graph.result.clone()

        return replayed

    def fill(self, samples: NDArray[np.float32]) -> None:
        """Copy a recording into the buffer, within ``Stream.VOICES``.

        The previous result must be complete.
        """
        self._host[0] = len(samples)  # A float32 represents integers up to 2**24 exactly.
        self._host[1 : 1 + len(samples)] = torch.from_numpy(samples)
        self._host[1 + len(samples) :] = 0
        self._inputs.copy_(self._host, non_blocking=True)

    def run(self, name: str) -> Tensor:
        return self._encoders[name]()


class VoiceEncoders:
    """Speaker encoder and speech encoder with padded input buffers.

    Thread: one thread at a time, within ``Stream.VOICES``.
    """

    def __init__(self, checkpoint: Checkpoint, device: Device) -> None:
        assert checkpoint.speaker_encoder is not None, "only a Base checkpoint receives Base requests"
        self._speaker = checkpoint.speaker_encoder
        self._speech = checkpoint.speech_tokenizer.encoder
        self._device = device
        self._buckets: dict[int, _Bucket] = {}  # Buffers by their length in samples.

    @property
    def lengths(self) -> list[int]:
        """Return the buffer lengths in samples, in ascending order."""
        return sorted(self._buckets)

    @torch.inference_mode()
    def prepare(self) -> None:
        """Allocate the buffers and capture their graphs.

        The graphs of the longest buffer are captured first, because later graphs can reuse the memory.
        """
        needless = not self._device.holds_graphs and self._device.torch_device.type in DEVICES_WITHOUT_GRAPHS
        if needless or not self._speech.takes_lengths:
            return
        self._speaker.prepare()
        encoders: dict[str, Encode] = {"x_vector": self._speaker, "codes": self._speech}
        multiple = math.lcm(HOP, self._speech.samples_per_frame)
        before = self._device.free_bytes()
        try:
            for seconds in sorted(LENGTHS_S, reverse=True):
                samples = -(-round(seconds * SAMPLE_RATE) // multiple) * multiple
                self._buckets[samples] = _Bucket(self._device, samples, encoders)
        except Exception:
            log.exception("graphs of the voice encoders could not be captured; these shapes run eagerly")
        used_bytes = (before - self._device.free_bytes()) / 2**20
        log.info("voice encoders: buffers for %d lengths, %.0f MiB", len(self._buckets), used_bytes)

    def encode(self, samples: NDArray[np.float32], *, x_vector_only: bool) -> tuple[Tensor, Tensor | None]:
        """Encode a recording to its x-vector and, unless `x_vector_only`, its codes.

        Shapes: samples [N] float32, 24 kHz; results [H] float32, [m, Q] int64.
        """
        bucket = next((self._buckets[length] for length in self.lengths if length >= len(samples)), None)
        if bucket is None:
            waveform = torch.from_numpy(samples).to(self._device.torch_device)
            return self._speaker(waveform), None if x_vector_only else self._speech(waveform)
        bucket.fill(samples)
        x_vector = bucket.run("x_vector")
        if x_vector_only:
            return x_vector, None
        return x_vector, bucket.run("codes")[: -(-len(samples) // self._speech.samples_per_frame)]
