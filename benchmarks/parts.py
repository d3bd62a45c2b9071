"""The engine's parts, one by one, without its threads: the only file here that knows the engine from within."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device.cpu import Now
from runtime.device.interface import Track
from runtime.engine.engine import Engine
from runtime.engine.intake import admit
from runtime.engine.prompt import Prompt, build_prompt
from runtime.engine.runner import FrameResult, Pending
from runtime.engine.slots import fill_in
from runtime.engine.station import Station
from runtime.request import Mode, Sampling, SpeechRequest
from runtime.settings import Settings

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one."


class Parts:
    """The first loaded checkpoint, with rows that are at a given position of their slots."""

    def __init__(self, settings: Settings) -> None:
        began, free = time.perf_counter(), free_bytes()
        self.engine = Engine.open(settings)
        synchronize()
        self.start_s = time.perf_counter() - began
        self.device_bytes = free - free_bytes()
        self.station: Station = self.engine.registry.stations[0]
        self._prompt = self._a_prompt(settings)
        for tensor in (*self.station.runner.arena.keys, *self.station.runner.arena.values):
            tensor.zero_()  # what was never written may hold anything, and not every anything multiplies as fast

    @property
    def longest(self) -> int:
        """Positions of a slot."""
        return self.station.length

    @torch.inference_mode()
    def begin(self, batch: int, context: int) -> NDArray[np.int64]:
        """Take slots whose next frame is at position ``context``."""
        arena, slots = self.station.runner.arena, self.begin_streams(batch)
        for slot in slots:
            self._read(int(slot), self._prompt)
            arena.position[slot] = context
            arena.host_position[slot] = context
        synchronize()  # the frames' track knows nothing of this thread's work
        return slots

    @torch.inference_mode()
    def begin_streams(self, batch: int) -> NDArray[np.int64]:
        """Take slots with a fresh stream of sound each."""
        settings = fill_in(Sampling(), self.station.checkpoint.config.generation)
        arena = self.station.runner.arena
        slots = [arena.take(settings, row, self._prompt.trailing) for row in range(batch)]
        for slot in slots:
            self.station.streams.open(slot)
        return np.array(slots)

    def end(self, slots: NDArray[np.int64]) -> None:
        for slot in slots:
            self.station.runner.arena.give_back(int(slot))

    def launch(self, slots: NDArray[np.int64]) -> Callable[[], FrameResult]:
        """Start the next frame of some rows; what is returned waits for it."""
        return self.station.runner.step(slots).result

    @torch.inference_mode()
    def prefill(self, positions: int) -> None:
        """Read a prompt of so many positions, up to and with its first frame."""
        runner, embeds = self.station.runner, self._prompt.embeds
        repeated = embeds.repeat(-(-positions // len(embeds)), 1)[:positions]
        slot = runner.arena.take(fill_in(Sampling(), self.station.checkpoint.config.generation), 0, [])
        self._read(slot, Prompt(repeated, []))
        runner.arena.give_back(slot)

    @torch.inference_mode()
    def predict(self, batch: int) -> None:
        """The code predictor alone, greedy: codes 1 to Q-1 of one frame of every row."""
        self._predictor(batch)()

    @cache  # noqa: B019  # a graph for each number of rows, as long as the parts live
    def _predictor(self, batch: int) -> Callable[[], object]:
        frame, device = self.station.runner.frame, self.station.runner.device
        weight, predictor = frame.talker.codec_head.weight, frame.talker.code_predictor
        hidden = torch.ones((batch, weight.shape[1]), device=weight.device, dtype=weight.dtype)
        rows = torch.arange(batch, device=weight.device)
        codes = torch.empty((batch, frame.config.talker.num_code_groups), device=weight.device, dtype=torch.int64)
        finite = torch.empty_like(codes, dtype=torch.bool)
        arena, fused = frame.arena, frame.fused

        def draw(codebook: int, logits: Tensor, embedded: Tensor | None) -> None:
            if fused is None:
                code = logits.argmax(dim=-1)
                if embedded is not None:
                    embedded.copy_(frame.talker.embed_code(codebook, code))
                return
            assert frame.talker.tables is not None
            table = None if embedded is None else frame.talker.tables.of(codebook)
            slots = (arena.predictor_level.every, arena.seed, arena.frame)
            fused.draw(logits, rows, *slots, codebook, codes, finite, None, table, embedded, settled=True)

        def predict() -> None:
            x = predictor.begin(hidden, frame.ops)
            x[:, 1] = 0
            predictor.predict(x, frame.cache, frame.ops, draw)

        synchronize()
        return device.capture(predict, Track.FRAMES).replay if device.holds_graphs else predict

    def decode(self, slots: NDArray[np.int64], frames: int) -> None:
        """Sound of so many frames of every stream, in one call."""
        groups = self.station.checkpoint.config.talker.num_code_groups
        codes = torch.zeros((len(slots), frames, groups), dtype=torch.int64)
        self.station.streams.decode([int(slot) for slot in slots], codes)

    def _read(self, slot: int, prompt: Prompt) -> None:
        start, pending = 0, None
        while pending is None:
            start, pending = self.station.runner.prefill(slot, prompt, start)
        pending.result()

    @torch.inference_mode()
    def _a_prompt(self, settings: Settings) -> Prompt:
        checkpoint, mode = self.station.checkpoint, self.engine.cards[0].modes[0]
        request = SpeechRequest(text=TEXT, mode=mode if mode is not Mode.BASE else Mode.VOICE_DESIGN)
        admission, feed = admit(request, checkpoint, settings.limits, self.station.length)
        utterance = admission.plan(feed.text, checkpoint.text_tokenizer).utterance
        prompt = build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)
        return replace(prompt, constant=0, key="")


@contextmanager
def without_networks(station: Station) -> Iterator[None]:
    """Put answers of the right shape in place of the networks, so that what is left of a turn is the host's own."""
    groups = station.checkpoint.config.talker.num_code_groups
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, (256, station.slots, groups))
    turn = 0

    def step(slots: NDArray[np.int64]) -> Pending:
        nonlocal turn
        turn += 1
        told = np.column_stack((codes[turn % 256, : len(slots)], np.zeros(len(slots)), np.ones(len(slots))))
        return Pending(slots, torch.from_numpy(told.astype(np.int64)), Now())

    sound = rng.integers(-8000, 8000, station.samples_per_frame * 16, dtype=np.int16).tobytes()

    def decode(slots: list[int], codes: torch.Tensor, track: Track, **_: bool) -> list[bytes | None]:
        return [sound[: 2 * station.samples_per_frame * codes.shape[1]]] * len(slots)

    with patch.object(station.runner, "step", step), patch.object(station.streams, "decode", decode):
        yield


def synchronize() -> None:
    """Wait for everything that was given to the device."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def free_bytes() -> int:
    """Free memory of the card, whoever has taken the rest; 0 without one."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0


def timed(work: Callable[[], object]) -> float:
    """Milliseconds until the device is done with it."""
    start = time.perf_counter()
    work()
    synchronize()
    return 1000 * (time.perf_counter() - start)
