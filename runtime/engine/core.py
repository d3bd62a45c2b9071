"""Engine core of one checkpoint: prefill, decode and Code2Wav.

Thread: engine thread, unless a method names another thread.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.device.open_device import choose_cache_dtype, choose_code2wav_dtype
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.audio.code2wav_worker import Code2WavWorker
from runtime.engine.audio.voice_cache import VoiceCache
from runtime.engine.execution.graphs import GraphPool
from runtime.engine.execution.model_runner import FrameResult, ModelRunner, UnreadableFrame
from runtime.engine.execution.prefix_cache import PrefixCache
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.prompt_batches import (
    JOINING_POSITIONS,
    MIN_JOINED_ROWS,
    PIECE_POSITIONS,
    PROMPT_BATCH_SIZES,
)
from runtime.engine.execution.slots import SlotInputs
from runtime.engine.scheduling.code2wav_scheduler import Code2WavScheduler
from runtime.engine.scheduling.in_flight import Expect, InFlight
from runtime.engine.scheduling.input_processor import Admission, admit
from runtime.engine.scheduling.scheduler import YIELD_BUSY_SHARE, Scheduler, SequenceTable, Slots
from runtime.engine.scheduling.segment_runner import SegmentRunner
from runtime.engine.scheduling.sequence import Sequence, SequenceState
from runtime.engine.scheduling.waiting_queue import WaitingQueue
from runtime.engine.text.text_stream import TextStream
from runtime.errors import GenerationFailed, NonFiniteOutput, SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import SAMPLE_RATE, Started, StopReason, WaitingForText
from runtime.settings import Settings
from runtime.shared.text.speech_rate import pause_frames

log = logging.getLogger(__name__)
PAUSE_NOTE = "The text has no letter or digit; it becomes a pause."
Clock = Callable[[], float]

# Maximum number of prompts per prefill on a CPU. A batch of prompts is not faster than a sequence of single prompts,
# and delays frames longer.
CPU_PREFILLS = 2
# Maximum number of frames, summed over all rows, in one Code2Wav call. With the demo voice, such a call takes 35 ms. A
# call with more frames is not cheaper per frame.
CPU_CODE2WAV_FRAMES = 4
DEVICE_CODE2WAV_FRAMES = 512
# Minimum fraction of the speaking rows that one Code2Wav call should contain. Chunks that are not urgent are delayed
# until enough rows are ready.
DEVICE_BATCH_FILL_RATIO = 0.125
# Minimum fraction of the slots that must be speaking before prompts and first frames become part of decode steps
# (`MIN_JOINED_ROWS` is the minimum number).
DEVICE_JOINING_SHARE = 0.875


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Settings and sizes of one engine core.

    `length` is the number of positions (tokens and frames) per slot.
    """

    settings: Settings
    slots: int
    length: int


@dataclass(frozen=True, slots=True)
class CoreHost:
    """Device, worker, clock and callbacks that all cores of an engine share.

    `wake` wakes the engine thread. `expect` registers a device event that will wake the engine thread.
    """

    device: Device
    worker: Code2WavWorker
    wake: Callable[[], None]
    expect: Expect
    clock: Clock


class EngineCore:
    """Engine core of one checkpoint, which serves all requests for this checkpoint.

    Each engine iteration (`Engine.tick`) calls collect, process_outputs, retire, report_waiting_for_text, admit,
    prefill and decode. Prefill and decode process outputs again, because some devices finish a launch before it
    returns. The Code2Wav worker decodes the generated frames to audio in chunks.
    """

    def __init__(self, config: CoreConfig, checkpoint: Checkpoint, waiting: WaitingQueue, host: CoreHost) -> None:
        self.checkpoint = checkpoint
        self.device = device = host.device
        settings = config.settings
        self.slots = slots = config.slots
        length = config.length
        self.modes = settings.modes
        self.waiting = waiting
        self.clock = host.clock
        engine, code2wav = settings.engine, checkpoint.speech_tokenizer.code2wav
        on_cpu, dtype = device.torch_device.type == "cpu", checkpoint.talker.dtype
        self._prefills = CPU_PREFILLS if on_cpu else PROMPT_BATCH_SIZES[-1]
        prompts = max((mode.prefills or self._prefills for mode in self.modes.values()), default=self._prefills)
        graphs = GraphPool(device)
        cache_dtype = choose_cache_dtype(engine.kv_cache, device, dtype)
        self.runner = ModelRunner(
            checkpoint, device, dtype, slots, length, engine.prompt_piece, prompts, graphs, cache_dtype
        )
        self.samples_per_frame = code2wav.config.samples_per_frame
        self.frame_s = self.samples_per_frame / SAMPLE_RATE
        code2wav_dtype = choose_code2wav_dtype(engine.sound_dtype, device, dtype, checkpoint.quantization)
        self.code2wav_streams = Code2WavStreams(
            code2wav, slots, device, code2wav_dtype, graphs=graphs, shapes=engine.code2wav_graph_shapes
        )
        self.scheduler = Scheduler(
            frame_s=self.frame_s,
            lead_cap_s=engine.lead_cap_s,
            reader_frames=max(2, round(engine.reader_s / self.frame_s)),
            sound_work=engine.sound_work or (CPU_CODE2WAV_FRAMES if on_cpu else DEVICE_CODE2WAV_FRAMES),
            batch_fill_ratio=0.0 if on_cpu else DEVICE_BATCH_FILL_RATIO,
            first_alone=on_cpu,
            min_joining_rows=math.inf if on_cpu else max(MIN_JOINED_ROWS, DEVICE_JOINING_SHARE * slots),
        )
        self.voice_cache = VoiceCache(checkpoint, device, engine.prompt_cache, self.code2wav_streams.after)
        self.prefix_cache = PrefixCache(engine.prompt_cache)
        # Function that validates a request on any thread.
        self.validate_request: partial[tuple[Admission, TextStream]] = partial(
            admit, checkpoint=checkpoint, limits=settings.limits, slot_length=length
        )
        self.sequences: dict[int, Sequence] = {}  # Running sequences by slot.
        self.frames_made = 0  # Number of frames with audio since the start, except frames of canary requests.
        self.table = SequenceTable(slots)
        self.in_flight = InFlight(slots, device.max_in_flight, host.expect, host.clock)
        self.segment_runner = SegmentRunner(
            checkpoint, self.runner, self.in_flight, self.prefix_cache, guarded=engine.guard
        )
        self.code2wav_scheduler = Code2WavScheduler(
            self.code2wav_streams,
            self.scheduler,
            self.table,
            self.sequences,
            host.worker,
            host.clock,
            guarded=engine.guard,
        )
        waiting.open(self.voice_cache, slots, settings.limits.queue_s, host.wake)

    @property
    def busy(self) -> bool:
        return bool(self.sequences) or len(self.waiting) > 0

    @property
    def waiting_for_text(self) -> int:
        """Return the number of requests with a slot that wait for more text.

        Thread: any.
        """
        return int(np.count_nonzero(self._waits_for_text))

    @property
    def _waits_for_text(self) -> NDArray[np.bool_]:
        """Return a mask of the rows that have generated all frames that their text allows.

        Shapes: [S].
        """
        return (self.table.sampled > 0) & (self.table.text_limit <= self.table.sampled)

    def share_voice_cache_of(self, reader: EngineCore, *, may_cross_embed: bool) -> None:
        """Use the voice cache of another checkpoint, which encodes voices for this checkpoint.

        Call this method only while no request waits for a voice.

        Args:
            reader: Engine core of the other checkpoint.
            may_cross_embed: True if a request may also use the embeddings of the other checkpoint
                (execution/cross_checkpoint_embeddings.py).
        """
        self.voice_cache = self.waiting.voices = reader.voice_cache
        self.validate_request = partial(self.validate_request, may_cross_embed=may_cross_embed)
        self.segment_runner.embedding_source = reader.checkpoint.talker if may_cross_embed else None
        self.runner.frame.set_embedding_source(self.segment_runner.embedding_source)

    # --- Methods that execute commands of clients.

    def add_request(self, sequence: Sequence) -> None:
        if sequence.text_stream.is_silent:
            self._emit_silence(sequence)
        else:
            self.waiting.add_request(sequence, self.clock())

    def change_text(self, ticket: int, change: Callable[[TextStream], None]) -> None:
        """Call `change` with the text stream of a request, and process the changed text.

        A change appends text, requests a flush, or marks the end of the text.
        """
        sequence = self.waiting.find(ticket) or self._sequence_of(ticket)
        if sequence is None or sequence.text_stream.closed:
            return
        try:
            change(sequence.text_stream)
        except SpeechError as error:
            self.waiting.remove_request(ticket)
            self.finish_request(sequence, error)
            return
        if sequence.text_stream.is_silent:
            self.waiting.remove_request(ticket)
            self._emit_silence(sequence)
        elif sequence.slot < 0:
            self.waiting.update_request(sequence, self.clock())
        elif sequence.state is SequenceState.WAITING_FOR_TEXT:
            with self._finishing_on_error(sequence):
                self.segment_runner.resume(sequence)
        else:
            self.segment_runner.append_tokens(sequence)

    def ack_sent(self, samples: Mapping[int, int]) -> None:
        """Record the number of audio samples that were sent to each listener.

        Args:
            samples: Total number of sent samples by request ticket. Tickets of other checkpoints are ignored.
        """
        for slot, sequence in self.sequences.items():
            if (sent := samples.get(sequence.ticket)) is not None:
                # Samples of pauses are subtracted, because they do not belong to any frame.
                spoken = max(0, sent - sequence.paused)
                self.table.record_sent(slot, spoken // self.samples_per_frame)

    def ack_played(self, ticket: int, ms: float) -> None:
        """Update the estimate of the time at which a listener's audio buffer becomes empty.

        Args:
            ticket: Number of the request.
            ms: Total milliseconds of audio that the listener has played.
        """
        sequence = self._sequence_of(ticket)
        if sequence is not None and sequence.first_audio_at is not None:
            sent_s = float(self.table.emitted[sequence.slot]) * self.frame_s + sequence.paused / SAMPLE_RATE
            buffered_s = sent_s - ms / 1000
            self.table.record_buffer(sequence.slot, self.clock() + max(0.0, buffered_s))

    def cancel(self, ticket: int) -> None:
        """End a request in any state, and emit its final event."""
        sequence = self.waiting.remove_request(ticket) or self._sequence_of(ticket)
        if sequence is not None:
            self.finish_request(sequence, StopReason.CANCELLED)

    def preempt(self, ticket: int, error: SpeechError) -> bool:
        """Refuse a request that waits for a slot: end it with an error.

        Returns:
            True if the request was waiting. Otherwise nothing is changed.
        """
        sequence = self.waiting.remove_request(ticket)
        if sequence is not None:
            self.finish_request(sequence, error)
        return sequence is not None

    # --- Methods that perform the steps of an engine iteration.

    def collect(self) -> None:
        """Collect the results of finished Code2Wav calls, and submit the next chunks of frames.

        The audio itself has already been emitted by the worker.
        """
        for sequence, audio in self.code2wav_scheduler.collect():
            self.frames_made += 0 if sequence.request.is_background else audio.frames
            if audio.error is not None:
                self.finish_request(sequence, audio.error)
            elif audio.guard is not None:
                with self._finishing_on_error(sequence):
                    self.segment_runner.cut_segment(sequence, audio.guard, audio.cut_frames)

    def process_outputs(self) -> bool:
        """Process the outputs of finished device launches.

        Returns:
            True if at least one launch has finished.
        """
        worked = False
        for output in self.in_flight.outputs():
            worked = True
            if output.has_failed:
                self._fail(output.slots)
                continue
            if output.is_prefill and output.result is not None:
                has_frame = output.result.has_frame
                self.code2wav_scheduler.emit_first_audio(output.slots[has_frame], output.result.codes[has_frame])
            for row, (slot, prompt) in enumerate(zip(output.slots, output.prompts, strict=False)):
                sequence, result = self.sequences[int(slot)], output.result
                if result is not None and result.ended[row]:
                    self.code2wav_scheduler.discard_first_audio(sequence)
                keeps = result is not None and bool(result.finite[row])
                self.segment_runner.start_decoding(sequence, prompt, self.clock(), keeps=keeps)
            if output.result is None:
                continue
            if not output.is_prefill:
                self.code2wav_scheduler.pace.step_s = output.took_s
            self._store_frames(output.slots, output.result)
        if worked:
            self.code2wav_scheduler.submit_tasks()
        return worked

    def retire(self) -> None:
        """End the requests whose last audio has been emitted."""
        table = self.table
        for slot in np.flatnonzero(table.ended & (table.sampled == table.emitted) & ~table.in_code2wav):
            sequence = self.sequences[int(slot)]
            text_stream = sequence.text_stream
            if text_stream.pause and text_stream.closed and not text_stream.segments:
                sequence.emit_pause(text_stream.pause, self._no_codes)
            self.finish_request(sequence, sequence.stop_reason)

    def report_waiting_for_text(self) -> None:
        """Emit `WaitingForText` for requests whose received text is completely spoken."""
        table = self.table
        is_emitted = (table.sampled == table.emitted) & ~table.in_code2wav
        for slot in np.flatnonzero(self._waits_for_text & is_emitted & ~table.ended):
            sequence = self.sequences[int(slot)]
            chars = sequence.text_stream.chars
            if sequence.reported_chars != chars and sequence.text_stream.waits_for_text:
                sequence.reported_chars = chars
                sequence.sink(WaitingForText(chars))

    def admit(self) -> None:
        """Assign free slots to waiting requests, and report new queue positions."""
        now = self.clock()
        for sequence, error in self.waiting.collect_voices(now):
            self.finish_request(sequence, error)
        while self.waiting.ready and self.runner.slot_cache.free:
            self._begin(self.waiting.next(), now)
        for sequence, error in self.waiting.remove_expired(now):
            self.finish_request(sequence, error)
        self.waiting.report_places(now)

    def prefill(self) -> bool:
        """Launch the prefill of the next chunk of one or more prompts.

        If a chunk is the last one of its prompt, the first frame is launched after it, or is part of a later decode
        step (`Scheduler.joins_first_frames`).

        Returns:
            True if a prefill was launched.
        """
        # Only one prefill runs at a time. Requests that arrive during a prefill share the next one.
        if self.in_flight.is_prefilling:
            return False
        joinable = self._joinable_sequences()
        prefilling = [sequence for sequence in self.segment_runner.prefilling if sequence not in joinable]
        most = max((self.modes[sequence.request.mode].prefills or self._prefills for sequence in prefilling), default=0)
        sequences = prefilling[: min(most, PROMPT_BATCH_SIZES[-1])]
        if sequences:
            self._prefill_chunks(sequences)
            self.process_outputs()
        return bool(sequences)

    def decode(self) -> bool:
        """Launch a decode step for all sequences that can continue, and joining prompts.

        Returns:
            True if a decode step was launched.
        """
        self.code2wav_scheduler.resubmit_tasks()
        if not self.in_flight.may_launch_step:
            return False
        prompts = self._joining_prompts()
        if not prompts and not self.table.speaking.any():
            return False
        began = self.clock()
        is_scarce = self.waiting.ready > 0 or len(self.sequences) > max(1, YIELD_BUSY_SHARE * self.slots)
        is_scarce &= not self.scheduler.is_decoding_fast(self.code2wav_scheduler.pace)
        yields_to_first_audio = self.scheduler.yields_to_first_audio(self.code2wav_scheduler.pace)
        slots = self.scheduler.runnable(
            self.table, began, is_scarce=is_scarce, yields_to_first_audio=yields_to_first_audio
        )
        if not len(slots) and not prompts:
            return False
        self._decode_step(slots, began, prompts)
        self.process_outputs()
        return True

    def finish_request(self, sequence: Sequence, outcome: StopReason | SpeechError) -> None:
        """Release the resources of a request, and emit its final event."""
        now = self.clock()
        if sequence.slot >= 0:
            self.code2wav_scheduler.stop_audio(sequence)
            self.in_flight.discard_launches(sequence.slot)
            self.table.clear(sequence.slot)
            del self.sequences[sequence.slot]
            self.segment_runner.discard_prompt(sequence)
            self.runner.slot_cache.release(sequence.slot)
            self.waiting.record_released_slot(sequence.request.caller, now - sequence.admitted)
        stats = sequence.stats(now, self.samples_per_frame, self.frame_s)
        sequence.emit_final_event(
            outcome, stats, tuple(note for note in sequence.text_stream.notes if note not in sequence.reported_notes)
        )
        # Background requests are canary requests of the server, which are logged only at debug level.
        level = logging.DEBUG if sequence.request.is_background else logging.INFO
        log.log(level, "request %d ended: %s", sequence.ticket, sequence.describe(outcome, stats))

    @contextmanager
    def _finishing_on_error(self, sequence: Sequence) -> Iterator[None]:
        try:
            yield
        except SpeechError as error:
            self.finish_request(sequence, error)

    def finish_all_requests(self, error: SpeechError) -> None:
        """End all requests of this checkpoint with an error."""
        for sequence in [*self.waiting.remove_all(), *self.sequences.values()]:
            self.finish_request(sequence, error)

    # --- Helper methods for the steps of an engine iteration.

    def _begin(self, sequence: Sequence, now: float) -> None:
        """Take a slot for a request and start its first segment."""
        admission = sequence.admission
        inputs = SlotInputs(
            admission.settings,
            sequence.seed,
            bans_eos=sequence.request.bans_eos,
            is_cross_embedded=admission.is_cross_embedded,
        )
        slot = self.runner.slot_cache.allocate(inputs)
        sequence.take_slot(slot, inputs, self.table, self.modes[sequence.request.mode], now)
        self.sequences[slot] = sequence
        self._emit_started(sequence)
        with self._finishing_on_error(sequence):
            self.segment_runner.start_segment(sequence)

    def _emit_silence(self, sequence: Sequence) -> None:
        """Emit the silence of a text that consists of pauses only, without a slot."""
        text_stream = sequence.text_stream
        has_rhythm = bool(text_stream.text.strip()) or not text_stream.pause
        in_marks = pause_frames(text_stream.text) * self.samples_per_frame if has_rhythm else 0
        sequence.record_first_audio(self.clock())
        self._emit_started(sequence, *([] if text_stream.pause else [PAUSE_NOTE]))
        sequence.emit_pause(in_marks + text_stream.pause, self._no_codes)
        self.finish_request(sequence, StopReason.EOS)

    @property
    def _no_codes(self) -> NDArray[np.int64]:
        return np.empty((0, self.code2wav_streams.groups), np.int64)

    def _emit_started(self, sequence: Sequence, *notes: str) -> None:
        sequence.reported_notes = (*sequence.admission.notes, *notes, *sequence.text_stream.notes)
        sequence.sink(Started(seed=sequence.seed, checkpoint=self.checkpoint.name, notes=sequence.reported_notes))

    def _prefill_chunks(self, sequences: list[Sequence]) -> None:
        """Prefill the next chunk of several prompts, and launch the first frames of full prompts."""
        chunks = [
            (sequence.slot, sequence.prompt, sequence.prefill_position)
            for sequence in sequences
            if sequence.prompt is not None
        ]
        slots = np.array([sequence.slot for sequence in sequences])
        try:
            stops = self.runner.prefill_chunks(chunks)
            is_complete = [stop == len(prompt.inputs) for stop, (_, prompt, _) in zip(stops, chunks, strict=True)]
            if not all(is_complete):
                with self.device.stream(Stream.PROMPTS):
                    self.in_flight.add_launch(
                        Stream.PROMPTS, slots[np.logical_not(is_complete)], self.device.record_event()
                    )
            prompts = [prompt for (_, prompt, _), is_last in zip(chunks, is_complete, strict=True) if is_last]
            if prompts and self._joins_first_frames(prompts):
                event = self.runner.end_prefill(slots[is_complete])
                self.in_flight.add_launch(Stream.PROMPTS, slots[is_complete], event, prompts=prompts)
            elif prompts:
                complete = [sequence for sequence, is_last in zip(sequences, is_complete, strict=True) if is_last]
                first = self.runner.first(
                    slots[is_complete], partial(self.code2wav_scheduler.launch_first_audio, complete)
                )
                self.table.record_launched(first.slots)
                self.in_flight.add_launch(Stream.PROMPTS, first.slots, first.event, first, prompts)
        except Exception as error:
            log.exception("the prefill of %d requests failed", len(sequences))
            if len(sequences) == 1 or isinstance(error, UnreadableFrame):
                self._fail(slots)
            else:  # Repeat the prefill for each row separately, because only the faulty row should fail.
                for sequence in sequences:
                    self._prefill_chunks([sequence])
            return
        for sequence, stop in zip(sequences, stops, strict=True):
            self.segment_runner.record_prefill(sequence, stop)

    def _joinable_sequences(self) -> list[Sequence]:
        """Return the sequences whose prompts decode steps should prefill."""
        if not self.scheduler.joins_first_frames(self.table):
            return []
        return [
            sequence
            for sequence in self.segment_runner.prefilling
            if sequence.may_join
            and sequence.prompt is not None
            and self.runner.joining_pieces(sequence.prompt)
            # The prompt stream may still process the prompt of an earlier sequence in the slot.
            and not self.in_flight.is_prefilling_slot(sequence.slot)
        ]

    def _joining_prompts(self) -> dict[int, Prompt]:
        """Return the prompts that the next decode step should prefill, by slot."""
        prompts: dict[int, Prompt] = {}
        pieces = 0
        for sequence in self._joinable_sequences():
            assert sequence.prompt is not None
            pieces += self.runner.joining_pieces(sequence.prompt)
            most = self.modes[sequence.request.mode].prefills or math.inf
            if len(prompts) >= most or pieces * PIECE_POSITIONS > JOINING_POSITIONS[-1]:
                break
            prompts[sequence.slot] = sequence.prompt
        return prompts

    def _joins_first_frames(self, prompts: list[Prompt]) -> bool:
        """True if the first frames after these prompts are part of a decode step.

        A separate first frame shows whether the prefix of its prompt is finite and may be cached.
        """
        return self.scheduler.joins_first_frames(self.table) and not any(
            map(self.segment_runner.caches_prefix, prompts)
        )

    def _decode_step(self, slots: Slots, began: float, prompts: Mapping[int, Prompt]) -> None:
        """Launch a frame of some rows, and the prefill of new prompts.

        If the launch fails, the prompts are prefilled separately, and both halves of the rows are retried, until only
        the faulty row fails. A failed frame changes no state (execution/frame.py), so the other rows get the same frame
        as without the failure.

        Args:
            prompts: Prompts by slot, for other slots than `slots`.
        """
        every = np.concatenate((np.array([*prompts], np.int64), slots))
        try:
            step = self.runner.step(every, [*prompts.items()])
            self.table.record_launched(every)
            self.in_flight.add_launch(Stream.FRAMES, every, step.event, step, [*prompts.values()], began)
            for slot, prompt in prompts.items():
                self.segment_runner.record_prefill(self.sequences[slot], len(prompt.inputs))
            return
        except Exception as error:
            log.exception("a frame of %d rows failed", len(every))
            is_over = (len(slots) == 1 and not prompts) or isinstance(error, UnreadableFrame)
        if is_over:
            self._fail(every)
            return
        if prompts:
            for slot in prompts:
                self.sequences[slot].may_join = False
            # The prompt stream does not wait for the values of the slots that the failed launch has written.
            self.device.record_event().synchronize()
            if len(slots):
                self._decode_step(slots, began, {})
            return
        for half in np.array_split(slots, 2):
            while self.in_flight.wait():  # Read all earlier results first, because a result may end a row.
                self.process_outputs()
            if len(remaining := half[self.table.speaking[half]]):
                self._decode_step(remaining, began, {})

    def _store_frames(self, slots: Slots, result: FrameResult) -> None:
        """Store the new frame of every row for Code2Wav.

        A row without a frame has ended.
        """
        table, ended, finite = self.table, result.ended, result.finite
        good_slots = slots[result.has_frame]
        self.code2wav_scheduler.store_frames(good_slots, result.codes[result.has_frame])
        for slot in slots[~finite]:
            self.finish_request(self.sequences[int(slot)], NonFiniteOutput())
        for slot in slots[finite & ended]:
            sequence = self.sequences[int(slot)]
            with self._finishing_on_error(sequence):
                self.segment_runner.finish_segment(sequence, StopReason.EOS)
        for slot in good_slots[table.sampled[good_slots] >= table.limit[good_slots]]:
            sequence = self.sequences[int(slot)]
            with self._finishing_on_error(sequence):
                self.segment_runner.stop_at_limit(sequence)

    def _fail(self, slots: Slots) -> None:
        """End the requests in these slots with an error."""
        for slot in slots:
            self.finish_request(self.sequences[int(slot)], GenerationFailed())

    def _sequence_of(self, ticket: int) -> Sequence | None:
        return next((sequence for sequence in self.sequences.values() if sequence.ticket == ticket), None)
