"""State machine of the segments of a sequence's text: prompt, growth, end, repetition."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import torch

from runtime.engine.audio.guards import RunawayDetector, spent_after
from runtime.engine.execution.model_runner import ModelRunner
from runtime.engine.execution.prefix_cache import PrefixCache
from runtime.engine.execution.prompt import Prompt, PromptInputs, build_prompt
from runtime.engine.scheduling.in_flight import InFlight
from runtime.engine.scheduling.input_processor import SegmentPlan, seed_of_repeat
from runtime.engine.scheduling.sequence import Sequence, SequenceState
from runtime.engine.text.rules import frame_budget, least_frames
from runtime.engine.text.text_stream import Segment
from runtime.errors import GenerationFailed, SpeechError
from runtime.model.checkpoint import Checkpoint
from runtime.model.talker import Talker
from runtime.request import Guard, StopReason

log = logging.getLogger(__name__)
End = Callable[[Sequence, StopReason | SpeechError], None]


class SegmentRunner:
    """Engine thread only.

    Args:
        guarded: whether a segment that ends long before its text can is made again.
        end: ends a sequence.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        runner: ModelRunner,
        in_flight: InFlight,
        prefix_cache: PrefixCache,
        end: End,
        *,
        guarded: bool,
    ) -> None:
        self._checkpoint = checkpoint
        self._runner = runner
        self._in_flight = in_flight
        self._prefix_cache = prefix_cache
        self._end = end
        self._guarded = guarded
        self.embedding_source: Talker | None = None  # Embeds the text of sequences with cross-checkpoint embeddings.
        self.prefilling: deque[Sequence] = deque()  # Sequences whose prompts are not fully read.

    def start_segment(self, sequence: Sequence) -> None:
        """Take the next segment of the text up; its prompt is to be read. A request that fails here fails alone."""
        sequence.before = sequence.made
        segment = sequence.segment = sequence.text_stream.segments.popleft()
        if segment.pause and not sequence.is_repeat:
            sequence.pauses.append((sequence.before, segment.pause))
        try:
            plan = self._plan(sequence, segment)
            prompt_inputs, position = replace(plan.prompt_inputs, voice=sequence.voice), 0
            slot_cache, slot = self._runner.slot_cache, sequence.slot
            with self._runner.starting(slot):
                prompt = self.embed_prompt(
                    prompt_inputs, self.embedding_source if sequence.inputs.is_cross_embedded else None
                )
                seed = seed_of_repeat(sequence.seed) if sequence.is_repeat else sequence.seed
                slot_cache.restart(slot, prompt.trailing, is_open=prompt_inputs.is_open, seed=seed)
                if prompt.key and (prefix := self._prefix_cache.get(prompt.key)) is not None:
                    slot_cache.copy_prefix(slot, prefix)
                    position = prefix.length
        except SpeechError as error:
            self._end(sequence, error)
            return
        except Exception:
            log.exception("the prompt of request %d failed", sequence.ticket)
            self._end(sequence, GenerationFailed())
            return
        sequence.plan = plan
        sequence.prompt = prompt
        sequence.prefill_position = position
        sequence.segments += 1
        sequence.prompt_tokens += len(prompt.embeds)
        sequence.detector = RunawayDetector()
        sequence.limit = sequence.before + plan.limit
        sequence.set_state(SequenceState.PREFILL)
        self.prefilling.append(sequence)

    def _plan(self, sequence: Sequence, segment: Segment) -> SegmentPlan:
        """Plan a segment with the text received so far."""
        admission, tokenizer = sequence.admission.styled(segment.style), self._checkpoint.text_tokenizer
        before = sequence.before
        if not sequence.text_stream.by_token:
            sequence.spent_after = spent_after(segment.text)
            return admission.plan(segment.text, tokenizer, before, must_fit=False)
        body = segment.take_tokens()
        sequence.tokens = len(body)
        sequence.spent_after = 0
        if not segment.closed:
            return admission.plan_open(body, tokenizer, before)
        plan = admission.plan(segment.spoken, tokenizer, before, must_fit=False)
        return replace(plan, prompt_inputs=replace(plan.prompt_inputs, body=tuple(body)))

    def embed_prompt(self, prompt_inputs: PromptInputs, embedding_source: Talker | None = None) -> Prompt:
        checkpoint = self._checkpoint
        with torch.inference_mode():
            talker = checkpoint.talker
            prompt = build_prompt(prompt_inputs, checkpoint.config, checkpoint.text_tokenizer, talker, embedding_source)
            # The embedding source may have another dtype.
            return replace(prompt, embeds=prompt.embeds.to(talker.codec_head.weight.dtype))

    def start_decoding(self, sequence: Sequence, prompt: Prompt, now: float, *, keeps: bool) -> None:
        """A prompt was read and its first frame is known: frames may follow, and what is worth it is kept."""
        if prompt.key and keeps:
            slot_cache, slot = self._runner.slot_cache, sequence.slot
            with self._runner.starting(slot):
                self._prefix_cache.put(prompt.key, lambda: slot_cache.prefix_of(slot, prompt.constant))
        sequence.prefilled = sequence.prefilled or now
        sequence.set_state(SequenceState.DECODE)
        self.append_tokens(sequence)

    def append_tokens(self, sequence: Sequence) -> None:
        """Tokens for a segment whose text is open; before its first frame is known they wait in the text stream."""
        segment = sequence.segment
        if segment is None or sequence.state is not SequenceState.DECODE or not sequence.inputs.is_open:
            return
        tokens = segment.take_tokens()
        sequence.tokens += len(tokens)
        if segment.closed:
            tokens.append(self._checkpoint.config.tts_eos_token_id)
            budget = sequence.before + frame_budget(segment.spoken)
            if sequence.admission.asked is None and budget <= sequence.limit and sequence.plan is not None:
                sequence.plan = replace(sequence.plan, at_limit=StopReason.RUNAWAY)
                sequence.limit = max(budget, sequence.made + 1)
        if tokens:
            self._runner.slot_cache.append_text(sequence.slot, tokens, is_last=segment.closed)
        sequence.update_table()

    def stop_at_limit(self, sequence: Sequence) -> None:
        """A segment has made as many frames as it may."""
        assert sequence.plan is not None
        reason = sequence.plan.at_limit
        self.finish_segment(sequence, reason, Guard.BUDGET if reason is StopReason.RUNAWAY else None)

    def finish_segment(self, sequence: Sequence, reason: StopReason, guard: Guard | None = None) -> None:
        """A segment made its last frame: go on with the next, rest until there is one, or speak no more."""
        self._in_flight.discard_launches(sequence.slot)
        if reason is StopReason.EOS and self._is_short(sequence):
            if not sequence.is_repeat:
                self._repeat(sequence)
                return
            reason, guard = StopReason.SHORT, Guard.SHORT
        sequence.is_repeat = False
        sequence.guard = sequence.guard or guard
        if reason is not StopReason.EOS:
            sequence.cut_short = reason
        asked = sequence.admission.asked
        if asked is not None and sequence.made >= asked:
            sequence.set_state(SequenceState.DRAIN)
        else:
            self.resume(sequence)

    def resume(self, sequence: Sequence) -> None:
        """Take up what there is of the text behind a segment; without an end of the text the sequence rests."""
        if sequence.segment is not None and not sequence.segment.closed:
            # Its end came before that of its text, and nothing more of it is said.
            sequence.set_state(SequenceState.DRAIN)
        elif sequence.text_stream.segments:
            self.start_segment(sequence)
        else:
            sequence.set_state(SequenceState.DRAIN if sequence.text_stream.closed else SequenceState.AT_REST)

    def cut_segment(self, sequence: Sequence, guard: Guard, left_out: int) -> None:
        """End a segment whose audio the Code2Wav worker has cut, because it looped or fell silent after its text."""
        table, slot = sequence.table, sequence.slot
        # The next segment has begun, and stands behind what is left out.
        if sequence.before >= table.sent[slot] + left_out:
            table.sent[slot] += left_out
            sequence.guard = sequence.guard or guard
            return
        table.made[slot] = table.sent[slot]
        if sequence.state is SequenceState.DRAIN:  # It ended in the same turn.
            sequence.guard = sequence.guard or guard
            sequence.cut_short = StopReason.RUNAWAY
        else:
            self.finish_segment(sequence, StopReason.RUNAWAY, guard)

    def _is_short(self, sequence: Sequence) -> bool:
        """A segment has ended by itself with much less sound than its text can be said in."""
        segment = sequence.segment
        if segment is None or not segment.closed or not sequence.admission.may_repeat or not self._guarded:
            return False
        return sequence.made - sequence.before < least_frames(segment.spoken)

    def _repeat(self, sequence: Sequence) -> None:
        """Make a segment again with another seed, behind what of it has been made: that may have been heard already."""
        segment = sequence.segment
        assert segment is not None
        if sequence.text_stream.by_token:
            segment.tokens = self._checkpoint.text_tokenizer.body(segment.spoken)
        sequence.text_stream.segments.appendleft(segment)
        sequence.is_repeat = True
        sequence.repeated += 1
        sequence.segments -= 1
        self.start_segment(sequence)
