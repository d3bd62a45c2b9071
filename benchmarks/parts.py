"""The engine's parts, one by one, without its threads: the only file here that knows the engine from within."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device.cpu import Now
from runtime.device.fused import Lookup, Sampled
from runtime.device.interface import Stream
from runtime.engine.core import EngineCore
from runtime.engine.engine import Engine
from runtime.engine.input_processor import admit
from runtime.engine.model_runner import FrameResult, LaunchedFrame
from runtime.engine.prompt import Prompt, build_prompt
from runtime.engine.slots import SlotInputs, fill_in
from runtime.request import Mode, Sampling, SpeechRequest
from runtime.settings import Settings

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one."


class Parts:
    """The first loaded checkpoint, with rows that are at a given position of their slots."""

    def __init__(self, settings: Settings, tell: Callable[[str], None] = lambda step: None) -> None:
        began, free = time.perf_counter(), free_bytes()
        self.engine = Engine.open(settings, lambda loaded, of, step: tell(step))
        synchronize()
        self.start_s = time.perf_counter() - began
        self.device_bytes = free - free_bytes()
        self.core: EngineCore = self.engine.registry.cores[0]
        self._settings = settings
        self._prompt = replace(self.prompt(TEXT), constant=0, key="")
        self._kept: list[Callable[[], object]] = []
        for tensor in (*self.core.runner.slot_cache.keys, *self.core.runner.slot_cache.values):
            tensor.zero_()  # what was never written may hold anything, and not every anything multiplies as fast

    @property
    def longest(self) -> int:
        """Positions of a slot."""
        return self.core.length

    @torch.inference_mode()
    def begin(self, batch: int, context: int) -> NDArray[np.int64]:
        """Take slots whose next frame is at position ``context``."""
        slot_cache, slots = self.core.runner.slot_cache, self.begin_streams(batch)
        for slot in slots:
            self._read(int(slot), self._prompt)
            slot_cache.position[slot] = context
            slot_cache.host_position[slot] = context
        synchronize()  # the frames' stream knows nothing of this thread's work
        return slots

    @torch.inference_mode()
    def begin_streams(self, batch: int) -> NDArray[np.int64]:
        """Take slots with a fresh stream of sound each."""
        settings = fill_in(Sampling(), self.core.checkpoint.config.generation)
        slot_cache = self.core.runner.slot_cache
        slots = [slot_cache.take(SlotInputs(settings, row, self._prompt.trailing)) for row in range(batch)]
        for slot in slots:
            self.core.code2wav_streams.open(slot)
        return np.array(slots)

    def end(self, slots: NDArray[np.int64]) -> None:
        for slot in slots:
            self.core.runner.slot_cache.give_back(int(slot))

    def launch(self, slots: NDArray[np.int64]) -> Callable[[], FrameResult]:
        """Start the next frame of some rows; what is returned waits for it."""
        return self.core.runner.step(slots).result

    @torch.inference_mode()
    def prefill(self, positions: int) -> None:
        """Read a prompt of so many positions, up to and with its first frame."""
        runner, embeds = self.core.runner, self._prompt.embeds
        repeated = embeds.repeat(-(-positions // len(embeds)), 1)[:positions]
        slot = runner.slot_cache.take(SlotInputs(fill_in(Sampling(), self.core.checkpoint.config.generation), 0, []))
        self._read(slot, Prompt(repeated, []))
        runner.slot_cache.give_back(slot)

    @torch.inference_mode()
    def predict(self, batch: int) -> None:
        """The code predictor alone, greedy: codes 1 to Q-1 of one frame of every row."""
        predict = self._predictor(batch)
        with self.core.device.stream(Stream.FRAMES):  # its graph shares the memory of that stream's
            predict()

    @cache  # noqa: B019  # a graph for each number of rows, as long as the parts live
    def _predictor(self, batch: int) -> Callable[[], object]:
        frame, device = self.core.runner.frame, self.core.runner.device
        norm, predictor = frame.talker.model.norm.weight, frame.talker.code_predictor
        hidden = torch.ones((batch, len(norm)), device=norm.device, dtype=norm.dtype)
        rows = torch.arange(batch, device=norm.device)
        codes = torch.empty((batch, frame.config.talker.num_code_groups), device=norm.device, dtype=torch.int64)
        sampled = Sampled(codes, torch.empty_like(codes, dtype=torch.bool))
        slot_cache, fused = frame.slot_cache, frame.fused

        def draw(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            if fused is None:
                code = logits.argmax(dim=-1)
                if embedded is not None:
                    embedded.copy_(frame.talker.embed_code(codebook, code))
                return
            assert frame.talker.tables is not None
            lookup = None if embedded is None else Lookup(frame.talker.tables.of(codebook), embedded)
            state = slot_cache.predictor_level.sampling(slot_cache.seed, slot_cache.frame)
            fused.sample(logits, rows, state, codebook, sampled, None, lookup, settled=True)

        def predict() -> None:
            x = predictor.begin(hidden, frame.ops)
            x[:, 1] = 0
            if frame.scripted is not None:
                level, cache = slot_cache.levels[1].of(rows, None), frame.cache
                settings = level.temperature, level.top_k, level.top_p, level.greedy, level.widest_k, level.any_top_p
                frame.scripted(x, cache.keys, cache.values, cache.cos, cache.sin, *settings, None)
                return
            predictor.predict(x, frame.cache, frame.ops, draw)

        synchronize()
        self._kept.append(predict)  # and with it the memory that its graph reads
        return device.capture(predict, Stream.FRAMES).replay if device.holds_graphs else predict

    def decode(self, slots: NDArray[np.int64], frames: int) -> None:
        """Sound of so many frames of every stream, in one call."""
        groups = self.core.checkpoint.config.talker.num_code_groups
        codes = torch.zeros((len(slots), frames, groups), dtype=torch.int64)
        self.core.code2wav_streams.decode([int(slot) for slot in slots], codes)

    def _read(self, slot: int, prompt: Prompt) -> None:
        start, launched = 0, None
        while launched is None:
            start, launched = self.core.runner.prefill(slot, prompt, start)
        launched.result()

    @torch.inference_mode()
    def prompt(self, text: str, frames: int | None = None) -> Prompt:
        """What a request for a text, and so many frames of it, begins with, in a voice that needs no recording."""
        checkpoint, mode = self.core.checkpoint, self.engine.cards[0].modes[0]
        mode = mode if mode is not Mode.BASE else Mode.VOICE_DESIGN
        request = SpeechRequest(text=text, mode=mode, max_frames=frames)
        admission, text_stream = admit(request, checkpoint, self._settings.limits, self.core.length)
        utterance = admission.plan(text_stream.text, checkpoint.text_tokenizer).prompt_inputs
        return build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)

    @torch.inference_mode()
    def speak(self, prompts: Sequence[Prompt], frames: int) -> None:
        """Have a request a prompt make its frames, all of them side by side; what ends goes on with the others."""
        runner, settings = self.core.runner, fill_in(Sampling(), self.core.checkpoint.config.generation)
        slots = [
            runner.slot_cache.take(SlotInputs(settings, row, prompt.trailing)) for row, prompt in enumerate(prompts)
        ]
        for slot, prompt in zip(slots, prompts, strict=True):
            self._read(slot, prompt)
        for _ in range(frames - 1):
            self.launch(np.array(slots))()
        self.end(np.array(slots))


@contextmanager
def without_networks(core: EngineCore) -> Iterator[None]:
    """Put answers of the right shape in place of the networks, so that what is left of a turn is the host's own."""
    groups = core.checkpoint.config.talker.num_code_groups
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, (256, core.slots, groups))
    turn = 0

    def step(slots: NDArray[np.int64]) -> LaunchedFrame:
        nonlocal turn
        turn += 1
        output = np.column_stack((codes[turn % 256, : len(slots)], np.zeros(len(slots)), np.ones(len(slots))))
        return LaunchedFrame(slots, torch.from_numpy(output.astype(np.int64)), Now())

    sound = rng.integers(-8000, 8000, core.samples_per_frame * 16, dtype=np.int16).tobytes()

    def decode(slots: list[int], codes: torch.Tensor, stream: Stream, **_: bool) -> list[bytes | None]:
        return [sound[: 2 * core.samples_per_frame * codes.shape[1]]] * len(slots)

    with patch.object(core.runner, "step", step), patch.object(core.code2wav_streams, "decode", decode):
        yield


def synchronize() -> None:
    """Wait for everything that was given to the device."""
    if torch.accelerator.is_available():
        torch.get_device_module(torch.accelerator.current_accelerator()).synchronize()


def free_bytes() -> int:
    """Free memory of the card or NPU, what others hold left out; 0 without one."""
    return _memory()[0]


def total_bytes() -> int:
    """Memory of the card or NPU; 0 without one."""
    return _memory()[1]


def _memory() -> tuple[int, int]:
    """Free and in all."""
    if not torch.accelerator.is_available():
        return 0, 0
    free, total = torch.get_device_module(torch.accelerator.current_accelerator()).mem_get_info()
    return int(free), int(total)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds until the device is done with it."""
    start = time.perf_counter()
    work()
    synchronize()
    return 1000 * (time.perf_counter() - start)
