"""Tests with random client actions: slots are never lost or shared, and all requests end.

Fake networks generate frames and samples that contain the request's seed and the number of the frame. Therefore tests
are fast, and each sample can be traced to its request. All other components are those of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from torch import Tensor

from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_streams import FirstAudio
from runtime.engine.core import EngineCore
from runtime.engine.execution.model_runner import FrameResult, LaunchedFrame
from runtime.engine.execution.prompt import Prompt
from runtime.errors import Busy, GenerationFailed
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Broken, Finished, Layout, Refused, Split, Started
from runtime.settings import Limits
from tests.support.engines import MAX_TICKS, EventRecorder, VirtualClock, core_of, custom_voice, engine_of
from tests.support.examples import examples
from tests.support.frames import Slots, launched

pytestmark = pytest.mark.usefixtures("each_device")

SLOTS, GROUPS, PIECE = 3, 2, 16
MAX_WAITING, QUEUE_S = 4, 3.0
TEXTS = ("Hello world. ", "you", " speak.\n", "...", "<|im_end|>", "x" * 70, " a b c d e f g")


class Stand:
    """Replacement for the talker and Code2Wav of one engine core."""

    def __init__(self, core: EngineCore) -> None:
        self.slot_cache, self.device = core.runner.slot_cache, core.device
        core.runner.prefill_chunks = self.prefill_chunks  # type: ignore[method-assign]
        core.runner.first = self.first  # type: ignore[method-assign]
        core.runner.step = self.step  # type: ignore[method-assign]
        core.code2wav_streams.launch_first_audio = self.launch_first_audio  # type: ignore[method-assign]
        core.code2wav_streams.decode = self.decode  # type: ignore[method-assign, assignment]
        self.fails = self.has_failed = False
        self.made = np.zeros(SLOTS, np.int64)  # Number of frames of the current segment, by slot.

    def prefill_chunks(self, wanted: Sequence[tuple[int, Prompt, int]]) -> list[int]:
        return [
            min(start + PIECE, prompt.constant if start < prompt.constant else len(prompt.embeds))
            for _, prompt, start in wanted
        ]

    def first(self, slots: Slots, then: Callable[[Tensor], None]) -> LaunchedFrame:
        with self.device.stream(Stream.PROMPTS):
            self.slot_cache.write(slots.tolist())
            self.made[slots] = 0
            frames = self.frames(slots)
            made = launched(slots, frames, self.device)
            then(torch.from_numpy(frames.codes))
        return made

    def step(self, slots: Slots, prompts: Sequence[tuple[int, Prompt]] = ()) -> LaunchedFrame:
        return launched(slots, self.frames(slots), self.device)

    def frames(self, slots: Slots) -> FrameResult:
        """Return random frames for these slots.

        Some seeds yield non-finite values after four frames. Segments end with EOS.
        """
        if self.fails:
            self.fails, self.has_failed = False, True
            raise RuntimeError
        seeds = self.slot_cache.seed.numpy()[slots]
        self.made[slots] += 1
        frames = self.made[slots]
        held = np.array([int(self.slot_cache.eos_banned_until[slot]) for slot in slots]) >= frames
        ended, finite = (frames > 3 + seeds % 17) & ~held, (seeds % 7 != 0) | (frames < 5)
        return FrameResult(np.stack([seeds, frames], axis=1), ended, finite)

    def launch_first_audio(self, slots: Sequence[int], codes: Tensor) -> list[FirstAudio]:
        sane = torch.zeros(1, dtype=torch.int16)
        sounds = [torch.cat([row[:1].to(torch.int16).repeat(1920), sane]) for row in codes]
        return [FirstAudio(sound, 1920, self.device.record_event()) for sound in sounds]

    def decode(self, slots: Sequence[int], codes: Any, stream: Stream, **_: bool) -> list[bytes | None]:
        return [np.repeat(row[:, 0], 1920).astype(np.int16).tobytes() for row in codes.numpy()]


class Walk(RuleBasedStateMachine):
    """State machine of clients that connect, send text, read slowly and disconnect.

    The clients also acknowledge audio.
    """

    checkpoint: Checkpoint

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        limits = Limits(max_text_chars=60, queue_s=QUEUE_S)
        self.engine = engine_of(
            self.checkpoint,
            slots=SLOTS,
            limits=limits,
            clock=self.clock,
            max_waiting=MAX_WAITING,
            prompt_piece=PIECE,
            length=200,
        )
        self.stand = Stand(core_of(self.engine))
        self.heards: dict[int, EventRecorder] = {}
        self.seeds: dict[int, int] = {}
        self.checked: dict[int, int] = {}  # Number of checked events of each request.

    @initialize()
    def begin(self) -> None:
        self.submit(1, 5, False, Layout.STREAMING, Split.AUTO, False, False)

    @rule(
        seed=st.integers(1, 10_000),
        frames=st.none() | st.integers(1, 30),
        is_open=st.booleans(),
        layout=st.sampled_from(Layout),
        split=st.sampled_from(Split),
        acknowledged=st.booleans(),
        bans_eos=st.booleans(),
    )
    def submit(
        self,
        seed: int,
        frames: int | None,
        is_open: bool,
        layout: Layout,
        split: Split,
        acknowledged: bool,
        bans_eos: bool,
    ) -> None:
        recorder = EventRecorder()
        request = custom_voice(
            "Hello world. You speak.",
            seed=seed,
            max_frames=frames,
            open_text=is_open,
            layout=layout,
            split=split,
            acknowledged=acknowledged,
            bans_eos=bans_eos,
        )
        ticket = self.engine.submit(request, recorder, len(self.heards) + 1)
        if recorder.events and isinstance(refused := recorder.events[-1], Refused):
            assert isinstance(refused.error, Busy)
            waiting = len([recorder for recorder in self.heards.values() if not recorder.ended]) - SLOTS
            is_too_long = (core_of(self.engine).waiting.wait_s(waiting) or 0.0) > QUEUE_S
            assert waiting >= MAX_WAITING or (waiting > 0 and is_too_long)
            return
        self.heards[ticket], self.seeds[ticket] = recorder, seed

    @rule(back=st.integers(0, 9), text=st.sampled_from(TEXTS))
    def append(self, back: int, text: str) -> None:
        self.engine.append_text(len(self.heards) - back, text)

    @rule(back=st.integers(0, 9))
    def flush(self, back: int) -> None:
        self.engine.flush(len(self.heards) - back)

    @rule(back=st.integers(0, 9))
    def finish(self, back: int) -> None:
        self.engine.finish_text(len(self.heards) - back)

    @rule(back=st.integers(0, 9))
    def cancel(self, back: int) -> None:
        self.engine.cancel(len(self.heards) - back)

    @rule(back=st.integers(0, 9), share=st.floats(0, 1))
    def take(self, back: int, share: float) -> None:
        ticket = len(self.heards) - back
        if ticket in self.heards:
            self.engine.ack_sent(ticket, int(share * len(self.heards[ticket].pcm)))
            self.engine.ack_played(ticket, share * len(self.heards[ticket].pcm) / 24)

    @rule(count=st.integers(1, 6), turn_s=st.sampled_from([0.0, 0.01, 0.1, 1.0]))
    def turn(self, count: int, turn_s: float) -> None:
        for _ in range(count):
            self.engine.tick()
            self.clock.now += turn_s

    @rule()
    def fail(self) -> None:
        self.stand.fails = True

    @invariant()
    def every_slot_has_one_owner(self) -> None:
        core = core_of(self.engine)
        assert sorted([*core.sequences, *core.runner.slot_cache.free_slots]) == list(range(SLOTS))
        assert all(sequence.slot == slot for slot, sequence in core.sequences.items())
        assert {id(sequence) for sequence in core.segment_runner.prefilling} <= {
            id(sequence) for sequence in core.sequences.values()
        }
        assert (core.table.pending >= 0).all()

    @invariant()
    def everybody_hears_its_own_sound_and_nothing_after_the_end(self) -> None:
        for ticket, recorder in self.heards.items():
            if self.checked.get(ticket) == len(recorder.events):
                continue  # Events are only appended and never changed, so earlier checks stay valid.
            self.checked[ticket] = len(recorder.events)
            at = 0
            for chunk in recorder.chunks:
                assert chunk.first_sample == at
                at += len(chunk.pcm) // 2
                assert (chunk.codes[:, 0] == self.seeds[ticket]).all()
            assert (recorder.pcm == np.int16(self.seeds[ticket])).all()
            assert len(recorder.events_of(Started)) <= 1
            ends = [place for place, event in enumerate(recorder.events) if isinstance(event, Finished | Broken)]
            assert ends in ([], [len(recorder.events) - 1])
            if ends and isinstance(end := recorder.events[-1], Broken) and isinstance(end.error, GenerationFailed):
                assert self.stand.has_failed, "nothing fails that was not told to"
            if ends:
                assert recorder.end.stats.frames == at // 1920
                frames = np.concatenate([chunk.codes[:, 1] for chunk in recorder.chunks] or [np.empty(0, np.int64)])
                assert np.isin(np.diff(frames), [1, *(1 - frames)]).all(), "in order, anew for every part"

    def teardown(self) -> None:
        """Assert that every request ends."""
        for ticket in self.heards:
            self.engine.finish_text(ticket)
        self.stand.fails = False
        for _ in range(MAX_TICKS):
            self.engine.tick()
            self.clock.now += 0.01
            for ticket, recorder in self.heards.items():
                self.engine.ack_sent(ticket, len(recorder.pcm))
            if all(recorder.ended for recorder in self.heards.values()):
                break
        self.engine.tick()
        assert all(recorder.ended for recorder in self.heards.values())
        assert self.engine.load().active == self.engine.load().waiting == 0


@pytest.mark.examples
@pytest.mark.logs_errors
def test_random_client_actions_lose_no_slot_and_end_every_request(quick: Checkpoint) -> None:
    Walk.checkpoint = quick
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Walk,
        settings=settings(
            max_examples=examples(24), stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
