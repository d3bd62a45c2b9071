"""Runs one checkpoint: prefill, decode and Code2Wav scheduling. Engine thread unless a method says otherwise."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.device.open_device import choose_sound_dtype
from runtime.engine.code2wav_scheduler import Code2WavScheduler, Codes
from runtime.engine.code2wav_streams import Code2WavStreams
from runtime.engine.code2wav_worker import Code2WavWorker
from runtime.engine.guards import RunawayDetector, spent_after
from runtime.engine.in_flight import Expect, InFlight
from runtime.engine.intake import seed_of_repeat
from runtime.engine.model_runner import STARTS, FrameLost, FrameResult, ModelRunner
from runtime.engine.prefix_cache import PrefixCache
from runtime.engine.prompt import Prompt, Utterance, build_prompt
from runtime.engine.scheduler import BACKLOG, ENDLESS, SCARCE, Scheduler, SequenceTable, Slots
from runtime.engine.sequence import Sequence, State
from runtime.engine.slots import fill_in
from runtime.engine.text import frame_budget, least_frames
from runtime.engine.text_stream import TextStream
from runtime.engine.voice_cache import VoiceCache
from runtime.engine.waiting import WaitingQueue
from runtime.errors import GenerationFailed, NonFiniteOutput, SpeechError
from runtime.model.checkpoint import Checkpoint
from runtime.request import SAMPLE_RATE, AudioChunk, Guard, Mode, Sampling, ShortOfText, Started, StopReason
from runtime.settings import EngineSettings, Limits, ModeSettings
from runtime.shared.speech_rate import pause_frames

log = logging.getLogger(__name__)
PAUSE_NOTE = "There is no letter or digit in the text; it is a pause."
Clock = Callable[[], float]

CPU_PREFILLS = 2  # where they take as long together as one after the other, and frames wait
CPU_SOUND_WORK = 4  # row-frames a call: 35 ms of the demo voice, and more at once are no cheaper each
DEVICE_SOUND_WORK = 512
DEVICE_COMPANY = 0.125  # share of the speaking rows that one call decodes, where chunks can wait


class EngineCore:
    """Runs one checkpoint. A turn of the engine calls collect, take_in, retire, admit, prefill and decode.

    Sound goes to the Code2Wav worker whenever some is due.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        dtype: torch.dtype,
        slots: int,
        length: int,
        settings: EngineSettings,
        modes: Mapping[Mode, ModeSettings],
        limits: Limits,
        waiting: WaitingQueue,
        worker: Code2WavWorker,
        wake: Callable[[], None],
        expect: Expect,
        clock: Clock,
    ) -> None:
        self.checkpoint, self.device, self.slots, self.modes, self.clock = checkpoint, device, slots, modes, clock
        self.length = length
        on_cpu = device.torch_device.type == "cpu"
        self._prefills = CPU_PREFILLS if on_cpu else STARTS[-1]
        prompts = max((mode.prefills or self._prefills for mode in modes.values()), default=self._prefills)
        self.runner = ModelRunner(checkpoint, device, dtype, slots, length, settings.prompt_piece, prompts)
        tokenizer = checkpoint.speech_tokenizer
        self.guarded = settings.guard
        self.samples_per_frame = tokenizer.config.code2wav.samples_per_frame
        self.frame_s = self.samples_per_frame / SAMPLE_RATE
        self.code2wav_streams = Code2WavStreams(
            tokenizer.code2wav, self.slots, device, choose_sound_dtype(settings.sound_dtype, device)
        )
        self.scheduler = Scheduler(
            frame_s=self.frame_s,
            lead_cap_s=settings.lead_cap_s,
            reader_frames=max(2, round(settings.reader_s / self.frame_s)),
            sound_work=settings.sound_work or (CPU_SOUND_WORK if on_cpu else DEVICE_SOUND_WORK),
            company=0.0 if on_cpu else DEVICE_COMPANY,
        )
        self.voice_cache = VoiceCache(checkpoint, device, settings.prompt_cache, self.code2wav_streams.after)
        self.prefix_cache = PrefixCache(settings.prompt_cache)
        self.waiting = waiting
        waiting.open(self.voice_cache, slots, limits.queue_s, wake)
        self.holders: dict[int, Sequence] = {}  # by slot
        self.frames_made = 0  # of all requests since the start, as sound
        self.prefilling: deque[Sequence] = deque()  # they hold a slot; their prompts are not read to the end
        self.table = SequenceTable(self.slots)
        self.in_flight = InFlight(self.table, self.slots, device.max_in_flight, expect, clock)
        # Codes of the frames that have no sound yet, a ring a slot.
        self.codes: Codes = np.zeros((self.slots, BACKLOG, checkpoint.config.talker.num_code_groups), np.int64)
        self.code2wav_scheduler = Code2WavScheduler(
            *(device, self.code2wav_streams, self.scheduler, self.table, self.codes, self.holders, worker, clock, wake),
            guarded=self.guarded,
        )

    def prepare(self, tell: Callable[[str], None]) -> None:
        """Capture what the device can hold as graphs, and run everything once; ``tell`` hears how far that is."""
        try:
            if self.device.holds_graphs:
                tell(f"compiling kernels of {self.checkpoint.name}")
                self.device.precompile(
                    [*self.runner.works(), *self.code2wav_streams.graphs.works(), *self.code2wav_streams.after.works()]
                )
            self.runner.capture(lambda done, of: tell(f"capturing graphs of {self.checkpoint.name}: {done} of {of}"))
            self.code2wav_streams.prepare(
                lambda done, of: tell(f"capturing sound of {self.checkpoint.name}: {done} of {of}")
            )
        except Exception:
            log.exception("graphs of %s could not be captured; what has none is run eagerly", self.checkpoint.name)
        self.warm()

    def warm(self) -> None:
        """Run what requests run once, so that the first of them does not pay for what is only slow at first."""
        slot_cache, config = self.runner.slot_cache, self.checkpoint.config
        speaker = next(iter(config.talker.spk_id), None)
        utterance = Utterance("A", Mode.CUSTOM_VOICE, config.layouts[0], "auto", speaker)
        slot, read, first = slot_cache.next_free, 0, None
        with self.runner.starting(slot):
            prompt = self._embedded(utterance)
            slot_cache.take(fill_in(Sampling(), config.generation), 0, prompt.trailing)
        while first is None:
            read, first = self.runner.prefill(slot, prompt, read)
        first.result()
        self.runner.step(np.array([slot])).result()
        for stream in (Stream.FIRST_SOUND, Stream.SOUND):
            with self.device.stream(stream):
                self.code2wav_streams.open(slot)
                size = 1
                while size <= min(self.scheduler.sound_work, max(one.max_chunk_frames for one in self.modes.values())):
                    codes = torch.zeros((1, size, config.talker.num_code_groups), dtype=torch.int64)
                    self.code2wav_streams.decode([slot], codes, stream)
                    size *= 2
        slot_cache.give_back(slot)
        self.voice_cache.warm()

    @property
    def busy(self) -> bool:
        return bool(self.holders) or len(self.waiting) > 0

    @property
    def short_of_text(self) -> int:
        """How many requests hold a slot and have spoken all the text that has come. Thread: any."""
        return int(np.count_nonzero(self._short))

    @property
    def _short(self) -> NDArray[np.bool_]:
        """Rows whose frames are made as far as the text goes. Shapes: [S]."""
        return (self.table.made > 0) & (self.table.text <= self.table.made)

    # --- what clients do

    def enter(self, sequence: Sequence) -> None:
        if sequence.text_stream.is_silent:
            self._keep_silent(sequence)
        else:
            self.waiting.enter(sequence, self.clock())

    def change_text(self, ticket: int, change: Callable[[TextStream], None]) -> None:
        """More text, or its end."""
        sequence = self.waiting.find(ticket) or self._holder(ticket)
        if sequence is None or sequence.text_stream.closed:
            return
        try:
            change(sequence.text_stream)
        except SpeechError as error:
            self.waiting.leave(ticket)
            self.end(sequence, error)
            return
        if sequence.text_stream.is_silent:
            self.waiting.leave(ticket)
            self._keep_silent(sequence)
        elif sequence.slot < 0:
            self.waiting.look(sequence, self.clock())
        elif sequence.resting:
            self._go_on(sequence)
        else:
            self._grow(sequence)

    def taken(self, ticket: int, samples: int) -> None:
        if (sequence := self._holder(ticket)) is not None:
            self.table.taken[sequence.slot] = samples // self.samples_per_frame

    def played(self, ticket: int, ms: float) -> None:
        """The listener's own word on how much it still has to hear."""
        sequence = self._holder(ticket)
        if sequence is not None and sequence.first_sound is not None:
            left_s = float(self.table.sent[sequence.slot]) * self.frame_s - ms / 1000
            self.table.dry_at[sequence.slot] = self.clock() + max(0.0, left_s)

    def cancel(self, ticket: int) -> None:
        """End a request wherever it is; its sink hears of nothing but the end after this."""
        sequence = self.waiting.leave(ticket) or self._holder(ticket)
        if sequence is not None:
            self.end(sequence, StopReason.CANCELLED)

    # --- the turn

    def collect(self) -> None:
        """Write down the sound that the Code2Wav worker has handed out, and give it more."""
        worked = False
        for output in self.code2wav_scheduler.collect():
            worked, chunk, sequences, sounds, at = True, output.chunk, output.sequences, output.sounds, output.at
            # A request that was cancelled meanwhile has lost its slot, perhaps to another.
            current = [index for index, sequence in enumerate(sequences) if self.holders.get(sequence.slot) is sequence]
            frames = chunk.frames if sounds is None else np.array([sound.frames for sound in sounds], np.int64)
            self.frames_made += int(frames[current].sum())
            starved = self.scheduler.hand_out(self.table, chunk.slots[current], frames[current], at)
            for was_dry, index in zip(starved, current, strict=True):
                sequence, sound = sequences[index], None if sounds is None else sounds[index]
                sequence.underruns += int(was_dry)
                sequence.first_sound = sequence.first_sound or at
                if sound is None or not sequence.opened:
                    self.end(sequence, GenerationFailed())
                elif sound.error is not None:
                    self.end(sequence, sound.error)
                elif sound.guard is not None:
                    self._stop(sequence, sound.guard, int(chunk.frames[index]) - sound.frames)
        if worked:
            self.code2wav_scheduler.offer()

    def take_in(self) -> bool:
        """Keep the frames that the device has finished, but for those of rows that have given them up."""
        worked = False
        for output in self.in_flight.outputs():
            worked = True
            if output.result is None:
                for slot in output.slots:
                    self.end(self.holders[int(slot)], GenerationFailed())
                continue
            for slot, prompt, finite, ended in zip(
                output.slots, output.prompts, output.result.finite, output.result.ended, strict=False
            ):
                sequence = self.holders[int(slot)]
                if ended and sequence.following is not None:  # that was sound of no frame
                    sequence.opened, sequence.following = False, None
                self._begins_to_speak(sequence, prompt, keeps=bool(finite))
            if not output.prompts:
                self.code2wav_scheduler.pace.turn_s = output.took_s
            self._keep(output.slots, output.result)
        if worked:
            self.code2wav_scheduler.offer()
        return worked

    def retire(self) -> None:
        """End the requests whose sound has all been handed out."""
        table = self.table
        for slot in np.flatnonzero(table.ended & (table.made == table.sent) & ~table.in_code2wav):
            sequence = self.holders[int(slot)]
            self.end(sequence, sequence.cut_short or StopReason.EOS)

    def tell_short(self) -> None:
        """Tell the requests that have said all the text that has come, once its sound is out."""
        table = self.table
        for slot in np.flatnonzero(self._short & (table.made == table.sent) & ~table.in_code2wav & ~table.ended):
            sequence = self.holders[int(slot)]
            chars = len(sequence.text_stream.text)
            if sequence.short_at != chars and sequence.text_stream.is_spent:
                sequence.short_at = chars
                sequence.sink(ShortOfText(chars))

    def admit(self) -> None:
        """Give free slots to the requests that wait longest; tell the others their place when it has changed."""
        now = self.clock()
        for sequence, error in self.waiting.read(now):
            self.end(sequence, error)
        while self.waiting.ready and self.runner.slot_cache.free:
            self._begin(self.waiting.next(), now)
        for sequence, error in self.waiting.expired(now):
            self.end(sequence, error)
        self.waiting.tell_places()

    def prefill(self) -> bool:
        """Prefill the next chunk of some prompts at once; the last chunk of a prompt ends in its first frame."""
        if self.in_flight.prefill_chunks:  # one at a time; requests that come meanwhile are read together in the next
            return False
        most = max(
            (self.modes[sequence.request.mode].prefills or self._prefills for sequence in self.prefilling), default=0
        )
        sequences = list(self.prefilling)[: min(most, STARTS[-1])]
        if sequences:
            self._prefill_chunks(sequences)
            self.take_in()
        return bool(sequences)

    def decode(self) -> bool:
        """Launch one decode step for every row that may run, unless enough of them are in flight."""
        self.code2wav_scheduler.offer_again()
        if not self.in_flight.may_begin:
            return False
        began = self.clock()
        is_scarce = self.waiting.ready > 0 or len(self.holders) > max(1, SCARCE * self.slots)
        is_scarce &= not self.scheduler.is_ample(self.code2wav_scheduler.pace)
        slots = self.scheduler.runnable(self.table, began, is_scarce=is_scarce)
        if not len(slots):
            return False
        self._begin_frame(slots, began)
        self.take_in()
        return True

    def end(self, sequence: Sequence, outcome: StopReason | SpeechError) -> None:
        """Free whatever the request holds and say its last word."""
        now = self.clock()
        if sequence.slot >= 0:
            with self.code2wav_scheduler.silencing(sequence):
                self.in_flight.give_up(sequence.slot)
                self.table.clear(sequence.slot)
            del self.holders[sequence.slot]
            if sequence.prompt is not None:
                self.prefilling.remove(sequence)
            self.runner.slot_cache.give_back(sequence.slot)
            self.waiting.slot_freed(now - sequence.admitted)
        stats = sequence.stats(now, self.frame_s, sequence.samples // self.samples_per_frame)
        sequence.end(outcome, stats)
        log.info("request %d ended: %s", sequence.ticket, sequence.describe(outcome, stats))

    def end_all(self, error: SpeechError) -> None:
        """End everybody for a reason that is not the requests' own."""
        for sequence in [*self.waiting.drain(), *self.holders.values()]:
            self.end(sequence, error)

    # --- parts

    def _begin_frame(self, slots: Slots, began: float) -> None:
        """Begin a frame of some rows. Where that fails each half is tried again, until the faulty row fails alone.

        A frame that fails has moved nothing on (runtime/engine/frame.py), so the others make the frame they would have.
        """
        try:
            self.in_flight.frame(self.runner.step(slots), began)
            return
        except Exception as error:
            log.exception("a frame of %d rows failed", len(slots))
            is_over = len(slots) == 1 or isinstance(error, FrameLost)
        if is_over:
            for slot in slots:
                self.end(self.holders[int(slot)], GenerationFailed())
            return
        for half in np.array_split(slots, 2):
            while self.in_flight.wait():  # what came out meanwhile may have ended a row
                self.take_in()
            if len(left := half[self.table.speaking[half]]):
                self._begin_frame(left, began)

    def _begin(self, sequence: Sequence, now: float) -> None:
        """Take a slot for a request, and its first part up. A request that fails here fails alone."""
        admission, mode = sequence.admission, self.modes[sequence.request.mode]
        sequence.state = State.AT_WORK
        sequence.admitted = now
        sequence.slot = self.runner.slot_cache.next_free
        with self.runner.starting(sequence.slot):
            self.runner.slot_cache.take(admission.settings, sequence.seed, None, holds_end=sequence.request.holds_end)
        self.holders[sequence.slot] = sequence
        table = self.table
        table.clear(sequence.slot)
        table.acknowledged[sequence.slot] = sequence.request.acknowledged
        table.dry_at[sequence.slot] = sequence.asked  # the request whose text came first is served first
        table.first_chunk[sequence.slot] = sequence.request.first_chunk_frames or mode.first_chunk_frames
        table.largest_chunk[sequence.slot] = mode.max_chunk_frames
        table.batch[sequence.slot] = mode.sound_batch
        sequence.sink(Started(seed=sequence.seed, checkpoint=self.checkpoint.name, notes=admission.notes))
        self._next_part(sequence)

    def _keep_silent(self, sequence: Sequence) -> None:
        """Serve a text without a word: a pause in its rhythm, which takes no slot."""
        pause = pause_frames(sequence.text_stream.text)
        sequence.samples, sequence.first_sound = pause * self.samples_per_frame, self.clock()
        sequence.sink(
            Started(seed=sequence.seed, checkpoint=self.checkpoint.name, notes=(*sequence.admission.notes, PAUSE_NOTE))
        )
        no_codes = np.empty((0, self.codes.shape[-1]), np.int64)
        sequence.sink(AudioChunk(pcm=bytes(2 * sequence.samples), codes=no_codes, first_sample=0))
        self.end(sequence, StopReason.EOS)

    def _next_part(self, sequence: Sequence) -> None:
        """Take the next part of the text up; its prompt is read from the next turn on."""
        text_stream, tokenizer = sequence.text_stream, self.checkpoint.text_tokenizer
        sequence.before = int(self.table.made[sequence.slot])
        part = sequence.part = text_stream.parts.popleft()
        try:
            if text_stream.by_token:
                body = part.take_tokens()
                plan = sequence.admission.plan_open(body, tokenizer, sequence.before)
                if part.closed:
                    plan = sequence.admission.plan(part.spoken, tokenizer, sequence.before, must_fit=False)
                    plan = replace(plan, utterance=replace(plan.utterance, body=tuple(body)))
                sequence.tokens, sequence.spent_after = len(body), 0
            else:
                plan = sequence.admission.plan(part.text, tokenizer, sequence.before, must_fit=False)
                sequence.spent_after = spent_after(part.text)
            utterance, read = replace(plan.utterance, voice=sequence.voice), 0
            with self.runner.starting(sequence.slot):
                prompt = self._embedded(utterance)
                seed = seed_of_repeat(sequence.seed) if sequence.is_repeat else sequence.seed
                self.runner.slot_cache.restart(sequence.slot, prompt.trailing, is_open=utterance.is_open, seed=seed)
                if prompt.key and (prefix := self.prefix_cache.get(prompt.key)) is not None:
                    self.runner.slot_cache.copy_prefix(sequence.slot, prefix)
                    read = prefix.length
        except SpeechError as error:
            self.end(sequence, error)
            return
        except Exception:
            log.exception("the prompt of request %d failed", sequence.ticket)
            self.end(sequence, GenerationFailed())
            return
        sequence.plan, sequence.prompt, sequence.prefill_position, sequence.resting, sequence.growing = (
            plan,
            prompt,
            read,
            False,
            utterance.is_open,
        )
        sequence.parts += 1
        sequence.prompt_tokens += len(prompt.embeds)
        sequence.detector = RunawayDetector()
        self.table.limit[sequence.slot] = sequence.before + plan.limit
        self.table.text[sequence.slot] = sequence.before + int(self.runner.slot_cache.text_frames[sequence.slot])
        self.prefilling.append(sequence)

    def _prefill_chunks(self, sequences: list[Sequence]) -> None:
        """Prefill the next chunk of some prompts at once, and have the first frames made of those that are through."""
        wanted = [
            (sequence.slot, sequence.prompt, sequence.prefill_position)
            for sequence in sequences
            if sequence.prompt is not None
        ]
        slots = np.array([sequence.slot for sequence in sequences])
        try:
            stops = self.runner.prefill_chunks(wanted)
            through = [stop == len(prompt.embeds) for stop, (_, prompt, _) in zip(stops, wanted, strict=True)]
            if not all(through):
                with self.device.stream(Stream.STARTS):
                    self.in_flight.prefilling(slots[np.logical_not(through)], self.device.mark())
            if any(through):
                prompts = [prompt for (_, prompt, _), is_through in zip(wanted, through, strict=True) if is_through]
                spoken = [sequence for sequence, is_through in zip(sequences, through, strict=True) if is_through]
                self.in_flight.first_frames(
                    self.runner.first(slots[through], partial(self.code2wav_scheduler.follow, spoken)), prompts
                )
        except Exception as error:
            log.exception("the prefill of %d requests failed", len(sequences))
            if len(sequences) == 1 or isinstance(error, FrameLost):
                for sequence in sequences:
                    self.end(sequence, GenerationFailed())
            else:  # each alone: the one at fault fails again, and no other with it
                for sequence in sequences:
                    self._prefill_chunks([sequence])
            return
        for sequence, stop, is_through in zip(sequences, stops, through, strict=True):
            sequence.prefill_position = stop
            if is_through:
                self.prefilling.remove(sequence)
                sequence.prompt = None

    def _embedded(self, utterance: Utterance) -> Prompt:
        checkpoint = self.checkpoint
        with torch.inference_mode():
            return build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)

    def _begins_to_speak(self, sequence: Sequence, prompt: Prompt, *, keeps: bool) -> None:
        """A prompt was read and its first frame is known: frames may follow, and what is worth it is kept."""
        if prompt.key and keeps:
            with self.runner.starting(sequence.slot):
                self.prefix_cache.keep(
                    prompt.key, lambda: self.runner.slot_cache.prefix_of(sequence.slot, prompt.constant)
                )
        sequence.prefilled = sequence.prefilled or self.clock()
        self.table.speaking[sequence.slot] = True
        self._grow(sequence)

    def _keep(self, slots: Slots, result: FrameResult) -> None:
        """Keep every row's new frame until its sound is made; a row without one has come to its end."""
        table, ended, finite = self.table, result.ended, result.finite
        good = finite & ~ended
        kept = slots[good]
        self.codes[kept, table.made[kept] % BACKLOG] = result.codes[good]
        table.made[kept] += 1
        for slot in slots[~finite]:
            self.end(self.holders[int(slot)], NonFiniteOutput())
        for slot in slots[finite & ended]:
            self._part_ends(self.holders[int(slot)], StopReason.EOS)
        for slot in kept[table.made[kept] >= table.limit[kept]]:
            sequence = self.holders[int(slot)]
            assert sequence.plan is not None
            guard = Guard.BUDGET if sequence.plan.at_limit is StopReason.RUNAWAY else None
            self._part_ends(sequence, sequence.plan.at_limit, guard)

    def _part_ends(self, sequence: Sequence, reason: StopReason, guard: Guard | None = None) -> None:
        """A part made its last frame: go on with the next, rest until there is one, or speak no more."""
        self.table.speaking[sequence.slot] = False
        self.in_flight.give_up(sequence.slot)
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
        if asked is not None and self.table.made[sequence.slot] >= asked:
            self.table.ended[sequence.slot] = True
            return
        sequence.resting = True
        self._go_on(sequence)

    def _is_short(self, sequence: Sequence) -> bool:
        """A part has ended by itself with much less sound than its text can be said in."""
        part = sequence.part
        if part is None or not part.closed or not sequence.admission.may_repeat or not self.guarded:
            return False
        return int(self.table.made[sequence.slot]) - sequence.before < least_frames(part.spoken)

    def _repeat(self, sequence: Sequence) -> None:
        """Make a part again with another seed, behind what of it has been made: that may have been heard already."""
        part = sequence.part
        assert part is not None
        if sequence.text_stream.by_token:
            part.tokens = self.checkpoint.text_tokenizer.body(part.spoken)
        sequence.text_stream.parts.appendleft(part)
        sequence.is_repeat = True
        sequence.repeated += 1
        sequence.parts -= 1
        self._next_part(sequence)

    def _go_on(self, sequence: Sequence) -> None:
        """Take up what there is of the text for a request that rests; without an end of the text it rests on."""
        if sequence.part is not None and not sequence.part.closed:
            # Its end came before that of its text, and nothing more of it is said.
            self.table.ended[sequence.slot] = True
        elif sequence.text_stream.parts:
            self._next_part(sequence)
        elif sequence.text_stream.closed:
            self.table.ended[sequence.slot] = True
        else:
            self.table.text[sequence.slot] = self.table.made[sequence.slot]  # what was said so far is not held back

    def _grow(self, sequence: Sequence) -> None:
        """Tokens for a part whose text is open; before its first frame is known they wait in the text stream."""
        slot_cache, slot, part = self.runner.slot_cache, sequence.slot, sequence.part
        if part is None or not sequence.growing or not self.table.speaking[slot]:
            return
        tokens = part.take_tokens()
        sequence.tokens += len(tokens)
        if part.closed:
            slot_cache.append_text(slot, [*tokens, self.checkpoint.config.tts_eos_token_id])
            slot_cache.close_text(slot)
            sequence.growing = False
            budget = sequence.before + frame_budget(part.spoken)
            if sequence.admission.asked is None and budget <= self.table.limit[slot] and sequence.plan is not None:
                sequence.plan = replace(sequence.plan, at_limit=StopReason.RUNAWAY)
                self.table.limit[slot] = max(budget, int(self.table.made[slot]) + 1)
        elif tokens:
            slot_cache.append_text(slot, tokens)
        self.table.text[slot] = min(sequence.before + int(slot_cache.text_frames[slot]), ENDLESS)

    def _stop(self, sequence: Sequence, guard: Guard, left_out: int) -> None:
        """End a part whose sound the Code2Wav worker has cut off, because it looped or fell silent after its text."""
        table, slot = self.table, sequence.slot
        # The next part has begun, and stands behind what is left out.
        if sequence.before >= table.sent[slot] + left_out:
            table.sent[slot] += left_out
            sequence.guard = sequence.guard or guard
            return
        table.made[slot] = table.sent[slot]
        if table.ended[slot]:  # it came to its end in the same moment
            sequence.guard, sequence.cut_short = sequence.guard or guard, StopReason.RUNAWAY
        else:
            self._part_ends(sequence, StopReason.RUNAWAY, guard)

    def _holder(self, ticket: int) -> Sequence | None:
        return next((sequence for sequence in self.holders.values() if sequence.ticket == ticket), None)
