"""Functions that run each part of the engine separately, without the engine's threads.

No other benchmark module uses internals of the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.common.report import log_step
from runtime.device.fused import EmbeddingLookup, SampleOutput
from runtime.device.interface import Stream
from runtime.engine.core import EngineCore
from runtime.engine.engine import Engine
from runtime.engine.execution.model_runner import FrameResult
from runtime.engine.execution.prompt import Prompt, build_prompt
from runtime.engine.execution.slots import SlotInputs, merge_sampling_defaults
from runtime.request import Mode, Sampling, SpeechRequest
from runtime.settings import Settings

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one. "


class ModelParts:
    """Engine core of the first checkpoint, with a method for each part that is measured."""

    def __init__(self, settings: Settings) -> None:
        began, free = time.perf_counter(), free_bytes()
        self.engine = Engine.open(settings, lambda loaded, of, step: log_step(step))
        synchronize()
        self.start_s = time.perf_counter() - began
        self.device_bytes = free - free_bytes()
        self.core: EngineCore = self.engine.registry.cores[0]
        self._prompt = replace(self.prompt(TEXT), constant=0, key="")
        self._graphs: list[Callable[[], object]] = []
        for tensor in (*self.core.runner.slot_cache.keys, *self.core.runner.slot_cache.values):
            tensor.zero_()  # Uninitialized memory may contain denormal numbers, which are slow to multiply.

    @property
    def max_positions(self) -> int:
        """Return the maximum number of positions in a slot of the KV cache."""
        return self.core.runner.slot_cache.length

    @torch.inference_mode()
    def begin_rows(self, batch: int, context: int) -> NDArray[np.int64]:
        """Fill `batch` slots as if `context` positions had been generated, and return the slots.

        The next frame of each slot is at position `context`.
        """
        slot_cache, slots = self.core.runner.slot_cache, self.begin_streams(batch)
        for slot in slots:
            self._read_prompt(int(slot), self._prompt)
            slot_cache.position[slot] = context
            slot_cache.host_position[slot] = context
        synchronize()  # This call is needed because the frame stream does not wait for the stream of this thread.
        return slots

    @torch.inference_mode()
    def begin_streams(self, batch: int) -> NDArray[np.int64]:
        """Open a new Code2Wav stream in each of `batch` slots, and return the slots."""
        slots = [self._take_slot(row, self._prompt.trailing) for row in range(batch)]
        for slot in slots:
            self.core.code2wav_streams.open(slot)
        return np.array(slots)

    def end_rows(self, slots: NDArray[np.int64]) -> None:
        for slot in slots:
            self.core.runner.slot_cache.release(int(slot))

    def launch(self, slots: NDArray[np.int64]) -> Callable[[], FrameResult]:
        """Launch the generation of the next frame for all rows in `slots`.

        Returns:
            A function that waits for the frame and returns it.
        """
        return self.core.runner.step(slots).result

    @torch.inference_mode()
    def prefill(self, positions: int) -> None:
        """Prefill a prompt with `positions` positions, and generate its first frame."""
        inputs = self._prompt.inputs
        repeats = -(-positions // len(inputs)), 1
        repeated = inputs.repeat(*repeats) if isinstance(inputs, Tensor) else np.tile(inputs, repeats)
        slot = self._take_slot(0, [])
        self._read_prompt(slot, Prompt(repeated[:positions], []))
        self.core.runner.slot_cache.release(slot)

    @torch.inference_mode()
    def predict(self, batch: int) -> None:
        """Run the code predictor, which computes the codes 1 to Q-1 of one frame per row.

        `batch` is the number of rows. Sampling is greedy.
        """
        predict = self._predictor(batch)
        # The graph shares memory with the other graphs of the frame stream, so it must run on this stream.
        with self.core.device.stream(Stream.FRAMES):
            predict()

    @cache  # noqa: B019  # One graph per number of rows is cached while this object exists.
    def _predictor(self, batch: int) -> Callable[[], object]:
        frame, device = self.core.runner.frame, self.core.runner.device
        norm, predictor = frame.talker.model.norm.weight, frame.talker.code_predictor
        hidden = torch.ones((batch, len(norm)), device=norm.device, dtype=norm.dtype)
        rows = torch.arange(batch, device=norm.device)
        codes = torch.empty((batch, frame.config.talker.num_code_groups), device=norm.device, dtype=torch.int64)
        sampled = SampleOutput(codes, torch.empty_like(codes, dtype=torch.bool))
        slot_cache, fused = frame.slot_cache, frame.fused

        def draw(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            if fused is None:
                code = logits.argmax(dim=-1)
                if embedded is not None:
                    embedded.copy_(frame.talker.embed_code(codebook, code))
                return
            assert frame.talker.tables is not None
            lookup = None if embedded is None else EmbeddingLookup(frame.talker.tables.of(codebook), embedded)
            state = slot_cache.predictor_level.sampling(slot_cache.seed, slot_cache.frame)
            fused.sample(logits, rows, state, codebook, sampled, None, lookup, inputs_ready=True)

        def predict() -> None:
            x = predictor.begin(hidden, frame.ops)
            x[:, 1] = 0
            if frame.native_predictor is not None:
                frame.native_predictor.predict(x, frame.cache, frame.row_sampling(rows))
                return
            predictor.predict(x, frame.cache, frame.ops, draw)

        synchronize()
        self._graphs.append(predict)  # The graph uses memory of this function, so the function must not be freed.
        return device.capture(predict, Stream.FRAMES).replay if device.holds_graphs else predict

    def decode(self, slots: NDArray[np.int64], frames: int) -> None:
        """Decode `frames` frames of each stream in `slots` to audio, in one Code2Wav call."""
        groups = self.core.checkpoint.config.talker.num_code_groups
        codes = torch.zeros((len(slots), frames, groups), dtype=torch.int64)
        self.core.code2wav_streams.decode([int(slot) for slot in slots], codes)

    @torch.inference_mode()
    def prompt(self, text: str) -> Prompt:
        """Create the prompt of a text, with a voice that needs no reference recording."""
        checkpoint, mode = self.core.checkpoint, self.engine.cards[0].modes[0]
        request = SpeechRequest(text=text, mode=mode if mode is not Mode.BASE else Mode.VOICE_DESIGN)
        admission, text_stream = self.core.validate_request(request)
        utterance = admission.plan(text_stream.text, checkpoint.text_tokenizer).prompt_inputs
        return build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)

    @torch.inference_mode()
    def speak(self, prompts: Sequence[Prompt], frames: int) -> None:
        """Generate `frames` frames for several prompts in one batch.

        Rows that have generated EOS continue to run.
        """
        slots = [self._take_slot(row, prompt.trailing) for row, prompt in enumerate(prompts)]
        for slot, prompt in zip(slots, prompts, strict=True):
            self._read_prompt(slot, prompt)
        for _ in range(frames - 1):
            self.launch(np.array(slots))()
        self.end_rows(np.array(slots))

    def _take_slot(self, seed: int, trailing: object) -> int:
        settings = merge_sampling_defaults(Sampling(), self.core.checkpoint.config.generation)
        return self.core.runner.slot_cache.allocate(SlotInputs(settings, seed, trailing))  # type: ignore[arg-type]

    def _read_prompt(self, slot: int, prompt: Prompt) -> None:
        start, launched = 0, None
        while launched is None:
            start, launched = self.core.runner.prefill(slot, prompt, start)
        launched.result()


def synchronize() -> None:
    """Wait until the device has finished all work."""
    if torch.accelerator.is_available():
        torch.get_device_module(torch.accelerator.current_accelerator()).synchronize()


def free_bytes() -> int:
    """Return the free memory of the GPU or NPU in bytes, or 0 without a GPU or NPU."""
    if not torch.accelerator.is_available():
        return 0
    return int(torch.get_device_module(torch.accelerator.current_accelerator()).mem_get_info()[0])


def timed(work: Callable[[], object]) -> float:
    """Run a function, wait for the device, and return the elapsed time in ms."""
    start = time.perf_counter()
    work()
    synchronize()
    return 1000 * (time.perf_counter() - start)
