"""State machine that speaks the segments of a request's text one after another.

        start_segment            start_decoding             finish_segment
    ────────────────► PREFILL ────────────────► DECODE ────────────────────► next action
                         ▲  prompt, first frame   │ ▲    EOS, limit, guard      │
                         │                        └─┘                           │
                         │                   append_tokens                      │
                         ├───────────────── START, REPEAT ◄─────────────────────┤
                         │ resume: more text                                    │
                         └───────────── WAIT_FOR_TEXT ◄─────────────────────────┤
                                                  │ resume: end of the text     │
                                                  └────────► DRAIN ◄────────────┘

`choose_next_action` selects the action after the end of a segment. The other methods execute the action.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from enum import Enum, auto

import torch

from runtime.engine.audio.guards import RunawayDetector, estimate_speech_frames
from runtime.engine.execution.model_runner import ModelRunner
from runtime.engine.execution.prefix_cache import PrefixCache
from runtime.engine.execution.prompt import Prompt, PromptInputs, build_prompt
from runtime.engine.scheduling.in_flight import InFlight
from runtime.engine.scheduling.input_processor import SegmentPlan, retry_seed
from runtime.engine.scheduling.sequence import Sequence, SequenceState
from runtime.engine.text.rules import frame_budget
from runtime.engine.text.text_stream import Segment
from runtime.errors import GenerationFailed, SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.talker import Talker
from runtime.request import Guard, StopReason
from runtime.shared.text.speech_rate import min_frames

log = logging.getLogger(__name__)


class NextAction(Enum):
    """Action after the end of a segment."""

    START = auto()  # Start the next segment of the text.
    REPEAT = auto()  # The same segment is generated again with another seed.
    WAIT_FOR_TEXT = auto()  # Wait for more text.
    DRAIN = auto()  # Wait until the remaining audio is emitted. No more frames are generated.


def choose_next_action(
    *, is_too_short: bool, has_all_frames: bool, is_segment_open: bool, has_next: bool, is_text_closed: bool
) -> NextAction:
    """Return the action after the last frame of a segment.

    Args:
        is_too_short: True if the segment has much less audio than its text needs, and was not repeated yet.
        has_all_frames: True if the request set a number of frames, and all frames are generated.
        is_segment_open: True if generation ended before the text of the segment was complete. The later text of the
            request is not spoken.
        has_next: True if another segment can start.
        is_text_closed: True if no more text will arrive.
    """
    if is_too_short:
        return NextAction.REPEAT
    if has_all_frames or is_segment_open:
        return NextAction.DRAIN
    if has_next:
        return NextAction.START
    return NextAction.DRAIN if is_text_closed else NextAction.WAIT_FOR_TEXT


class SegmentRunner:
    """Executor of the segments of all sequences of one checkpoint.

    Thread: engine.

    Args:
        guarded: True if a segment that ends much too early for its text is generated again.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        runner: ModelRunner,
        in_flight: InFlight,
        prefix_cache: PrefixCache,
        *,
        guarded: bool,
    ) -> None:
        self._checkpoint = checkpoint
        self._runner = runner
        self._in_flight = in_flight
        self._prefix_cache = prefix_cache
        self._guarded = guarded
        # Talker of another checkpoint, which embeds the text of sequences with cross-checkpoint embeddings.
        self.embedding_source: Talker | None = None
        self.prefilling: deque[Sequence] = deque()  # Sequences whose prompts are only partly prefilled.

    def start_segment(self, sequence: Sequence) -> None:
        """Start the next segment of the text: embed its prompt and queue it for prefill.

        Raises:
            SpeechError: The request must end. Other requests are not affected.
        """
        sequence.before = sequence.sampled_frames
        segment = sequence.segment = sequence.text_stream.segments.popleft()
        if segment.pause and not sequence.is_repeat:
            sequence.pauses.append((sequence.before, segment.pause))
        try:
            plan = self._plan(sequence, segment)
            prompt_inputs, position = replace(plan.prompt_inputs, voice=sequence.voice), 0
            slot_cache, slot = self._runner.slot_cache, sequence.slot
            with self._runner.prompt_stream(slot):
                prompt = self.embed_prompt(
                    prompt_inputs, self.embedding_source if sequence.inputs.is_cross_embedded else None
                )
                seed = retry_seed(sequence.seed) if sequence.is_repeat else sequence.seed
                slot_cache.restart(slot, prompt.trailing, is_open=prompt_inputs.is_open, seed=seed)
                if prompt.key and (prefix := self._prefix_cache.get(prompt.key)) is not None:
                    slot_cache.copy_prefix(slot, prefix)
                    position = prefix.length
        except SpeechError:
            raise
        except Exception:
            log.exception("the prompt of request %d failed", sequence.ticket)
            raise GenerationFailed from None
        sequence.plan = plan
        sequence.prompt = prompt
        sequence.prefill_position = position
        sequence.segments += 1
        sequence.prompt_tokens += len(prompt.inputs)
        sequence.detector = RunawayDetector()
        sequence.limit = sequence.before + plan.limit
        sequence.set_state(SequenceState.PREFILL)
        self.prefilling.append(sequence)

    def _plan(self, sequence: Sequence, segment: Segment) -> SegmentPlan:
        """Plan a segment with the text received so far."""
        admission, tokenizer = sequence.admission.styled(segment.style), self._checkpoint.text_tokenizer
        before = sequence.before
        if not sequence.text_stream.by_token:
            sequence.expected_speech_frames = estimate_speech_frames(segment.text)
            return admission.plan(segment.text, tokenizer, before, must_fit=False)
        body = segment.take_tokens()
        sequence.tokens = len(body)
        sequence.expected_speech_frames = 0
        if not segment.closed:
            return admission.plan_open(body, tokenizer, before)
        plan = admission.plan(segment.spoken, tokenizer, before, must_fit=False)
        return replace(plan, prompt_inputs=replace(plan.prompt_inputs, body=tuple(body)))

    def embed_prompt(self, prompt_inputs: PromptInputs, embedding_source: Talker | None = None) -> Prompt:
        checkpoint = self._checkpoint
        with torch.inference_mode():
            config, tokenizer, talker = checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker
            return build_prompt(prompt_inputs, config, tokenizer, talker, embedding_source)

    def caches_prefix(self, prompt: Prompt) -> bool:
        """True if the prefix of a prompt will be cached after the first frame."""
        return bool(prompt.key) and self._prefix_cache.stores(prompt.key)

    def record_prefill(self, sequence: Sequence, position: int) -> None:
        """Record that the prompt of a sequence is prefilled up to `position`."""
        sequence.prefill_position = position
        if sequence.prompt is not None and position == len(sequence.prompt.inputs):
            self.discard_prompt(sequence)

    def discard_prompt(self, sequence: Sequence) -> None:
        """Remove a sequence from the prefill, if it has a prompt."""
        if sequence.prompt is not None:
            self.prefilling.remove(sequence)
            sequence.prompt = None

    def start_decoding(self, sequence: Sequence, prompt: Prompt, now: float, *, keeps: bool) -> None:
        """Set a sequence to the state DECODE after the prefill of a segment.

        If the first frame is not part of a decode step, it has been generated, too.

        Args:
            prompt: Prompt of the segment.
            now: Current time in seconds.
            keeps: True to cache the prefix of the prompt.
        """
        if prompt.key and keeps:
            slot_cache, slot = self._runner.slot_cache, sequence.slot
            with self._runner.prompt_stream(slot):
                self._prefix_cache.put(prompt.key, lambda: slot_cache.prefix_of(slot, prompt.constant))
        sequence.prefilled = sequence.prefilled or now
        sequence.set_state(SequenceState.DECODE)
        self.append_tokens(sequence)

    def append_tokens(self, sequence: Sequence) -> None:
        """Move the new tokens of an open segment from the text stream to the slot.

        Before the first frame of the segment, this method does nothing.
        """
        segment = sequence.segment
        if segment is None or sequence.state is not SequenceState.DECODE or not sequence.inputs.is_open:
            return
        tokens = segment.take_tokens()
        sequence.tokens += len(tokens)
        if segment.closed:
            tokens.append(self._checkpoint.config.tts_eos_token_id)
            budget = sequence.before + frame_budget(segment.spoken)
            if sequence.admission.requested_frames is None and budget <= sequence.limit and sequence.plan is not None:
                sequence.plan = replace(sequence.plan, at_limit=StopReason.RUNAWAY)
                sequence.limit = max(budget, sequence.sampled_frames + 1)
        if tokens:
            self._runner.slot_cache.append_token_ids(sequence.slot, tokens, is_last=segment.closed)
        sequence.update_table()

    def stop_at_limit(self, sequence: Sequence) -> None:
        """Finish a segment that has reached its frame limit.

        Raises:
            SpeechError: See `start_segment`.
        """
        assert sequence.plan is not None
        reason = sequence.plan.at_limit
        self.finish_segment(sequence, reason, Guard.BUDGET if reason is StopReason.RUNAWAY else None)

    def finish_segment(self, sequence: Sequence, reason: StopReason, guard: Guard | None = None) -> None:
        """Finish a segment after its last frame, and continue with the next action.

        Args:
            reason: Reason why the segment ended.
            guard: Kind of runaway that was detected, or None.

        Raises:
            SpeechError: See `start_segment`.
        """
        self._in_flight.discard_launches(sequence.slot)
        sequence.table.discard_launches(sequence.slot)
        is_short = reason is StopReason.EOS and self._is_short(sequence)
        if is_short and not sequence.is_repeat:
            self._take_step(sequence, is_too_short=True)
            return
        if is_short:
            reason, guard = StopReason.SHORT, Guard.SHORT
        sequence.is_repeat = False
        sequence.guard = sequence.guard or guard
        if reason is not StopReason.EOS:
            sequence.cut_reason = reason
        requested_frames = sequence.admission.requested_frames
        self._take_step(
            sequence, has_all_frames=requested_frames is not None and sequence.sampled_frames >= requested_frames
        )

    def resume(self, sequence: Sequence) -> None:
        """Continue a sequence that has waited for text, after its text has changed.

        Raises:
            SpeechError: See `start_segment`.
        """
        self._take_step(sequence)

    def _take_step(self, sequence: Sequence, *, is_too_short: bool = False, has_all_frames: bool = False) -> None:
        segment, text_stream = sequence.segment, sequence.text_stream
        step = choose_next_action(
            is_too_short=is_too_short,
            has_all_frames=has_all_frames,
            is_segment_open=segment is not None and not segment.closed,
            has_next=bool(text_stream.segments),
            is_text_closed=text_stream.closed,
        )
        match step:
            case NextAction.START:
                self.start_segment(sequence)
            case NextAction.REPEAT:
                self._repeat(sequence)
            case NextAction.WAIT_FOR_TEXT:
                sequence.set_state(SequenceState.WAITING_FOR_TEXT)
            case NextAction.DRAIN:
                sequence.set_state(SequenceState.DRAIN)

    def cut_segment(self, sequence: Sequence, guard: Guard, cut_frames: int) -> None:
        """End a segment whose audio was cut because of a loop or a long silence.

        If the cut frames belong to an earlier segment, they are counted as emitted, and the current segment continues.
        Otherwise the cut frames and all later frames are removed.

        Args:
            guard: Kind of runaway that was detected.
            cut_frames: Number of frames after the emitted frames whose audio was cut.

        Raises:
            SpeechError: See `start_segment`.
        """
        table, slot = sequence.table, sequence.slot
        if sequence.before >= table.emitted[slot] + cut_frames:
            table.skip_frames(slot, cut_frames)
            sequence.guard = sequence.guard or guard
            return
        table.discard_pending(slot)
        if sequence.state is SequenceState.DRAIN:  # The segment may already have ended in this iteration.
            sequence.guard = sequence.guard or guard
            sequence.cut_reason = StopReason.RUNAWAY
        else:
            self.finish_segment(sequence, StopReason.RUNAWAY, guard)

    def _is_short(self, sequence: Sequence) -> bool:
        """True if a segment has much less audio than its text needs and may be repeated."""
        segment = sequence.segment
        if segment is None or not segment.closed or not sequence.admission.may_repeat or not self._guarded:
            return False
        return sequence.sampled_frames - sequence.before < min_frames(segment.spoken)

    def _repeat(self, sequence: Sequence) -> None:
        """Generate a segment again with another seed, after the frames so far.

        The listener may already have heard the frames so far.
        """
        segment = sequence.segment
        assert segment is not None
        if sequence.text_stream.by_token:
            segment.tokens = self._checkpoint.text_tokenizer.encode_text(segment.spoken)
        sequence.text_stream.segments.appendleft(segment)
        sequence.is_repeat = True
        sequence.repeated += 1
        sequence.segments -= 1
        self.start_segment(sequence)
