"""Engine of all loaded checkpoints.

The engine thread generates frames, and Code2Wav workers decode them to audio.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Self

from runtime.device import Device, open_device
from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_worker import Code2WavWorker
from runtime.engine.core import Clock, CoreConfig, CoreHost, EngineCore
from runtime.engine.execution.completion_waiter import CompletionWaiter
from runtime.engine.execution.heartbeat import Heartbeat
from runtime.engine.loading.loader import CheckpointLoader
from runtime.engine.loading.registry import Registry, RegistryEntry
from runtime.engine.open_requests import Command, OpenRequests, Submission
from runtime.engine.scheduling.input_processor import Admission
from runtime.engine.scheduling.sequence import Sequence
from runtime.engine.scheduling.waiting_queue import WaitingQueue
from runtime.engine.text.text_stream import TextStream
from runtime.engine.validation_thread import ValidationThread
from runtime.errors import EngineDead, ModeNotServed, Overloaded, SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import (
    Broken,
    EngineLoad,
    Finished,
    Mode,
    ModelCard,
    Reference,
    Refused,
    RequestStats,
    Sink,
    SpeechEvent,
    SpeechRequest,
    Started,
    StopReason,
    VoicePrompt,
)
from runtime.settings import Settings

log = logging.getLogger(__name__)

SEED_BITS = 53  # Number of bits of a random seed. A JavaScript number represents integers of this size exactly.
IDLE_S = 0.5  # Maximum sleep in seconds of the engine thread if there are no open requests.
PAUSE_S = 0.02  # Maximum sleep in seconds of the engine thread if there are open requests.
MAX_TEXT_WORK_S = 0.005  # Maximum seconds for text updates in an iteration. After this time, no further update starts.
MAX_TEXT_SHARE = 0.2  # Maximum fraction of the engine thread's time for long text updates if any request has a slot.

TextChange = Callable[[TextStream], None]
Validated = tuple[Admission, TextStream] | SpeechError
Progress = Callable[[int, int, str], None]  # Arguments: number of loaded checkpoints, total number, current step.


class Engine:
    """Speech engine for all loaded checkpoints.

    Any thread may call the methods of the interface `SpeechEngine`, which never wait for the device. All other methods
    run on the engine thread. Before `start`, they may also run on the caller's thread, as in `speak`.
    """

    def __init__(self, registry: Registry, device: Device, settings: Settings, clock: Clock = time.monotonic) -> None:
        self.registry = registry
        self.device = device
        self.settings = settings
        self.clock = clock
        self.loader = CheckpointLoader(registry, device, settings, self._new_core)
        self.alive = True
        self._wake = threading.Event()
        self.code2wav_worker = Code2WavWorker(self.loader.prepare_code2wav_thread, self._wake.set)
        # The lock is reentrant, because a sink that fails while the caller holds the lock cancels its request.
        self._lock = threading.RLock()
        self._tickets = itertools.count(1)
        # Requests by ticket until the engine thread admits them to the waiting queue.
        self._submissions: dict[int, Submission] = {}
        self._validation = ValidationThread()
        self.commands: deque[Command] = deque()
        # Queued text updates of each request by ticket, in round-robin order.
        self._text_changes: dict[int, deque[TextChange]] = {}
        self._next_text_at = 0.0
        # Number of samples that were acknowledged since the last iteration, by ticket.
        self._sent_samples: dict[int, int] = {}
        self._open = OpenRequests(settings)
        self._heartbeat = Heartbeat(clock)
        self.completion_waiter = CompletionWaiter(self._wake.set, device.enter_thread)
        self._closing = False
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, settings: Settings, progress: Progress = lambda loaded, of, step: None) -> Self:
        """Create an engine, and load and warm up the checkpoints in the settings.

        A setting can delay loading until the first use of a checkpoint.

        Args:
            progress: Called with the number of loaded checkpoints, the total number and the current step.

        Raises:
            SetUpError: A checkpoint, the device or a setting cannot be used.
        """
        device = open_device(settings.engine.device, eager=settings.engine.eager)
        progress(0, len(settings.models), "reading configurations")
        engine = cls(Registry.read(settings.models), device, settings)
        entries = engine.registry.entries
        if settings.engine.loads == "start":
            for number, entry in enumerate(entries):
                report_step = partial(progress, number, len(entries))
                report_step(f"loading {entry.name}")
                engine.loader.load(entry, report_step)
        progress(len(engine.registry.cores), len(entries), "starting")
        return engine

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        """Return the model cards of all checkpoints in the settings, loaded or not."""
        return self.registry.cards(self.device.name, self.settings.limits)

    def start(self) -> None:
        """Start the engine's threads."""
        self.code2wav_worker.start(separate_urgent=self.device.max_in_flight > 0)
        if self.device.max_in_flight:
            self.completion_waiter.start((Stream.FRAMES, Stream.PROMPTS))
        for core in self.registry.cores:
            core.voice_cache.start(self.loader.prepare_thread)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()
        self._validation.start()

    def close(self, timeout_s: float | None = None) -> None:
        """Stop the engine's threads, and end open requests with EngineDead.

        Args:
            timeout_s: Maximum seconds to wait for the engine thread, or None for no limit.
        """
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        else:
            self._shut_down()
        self._validation.close(timeout_s)

    # --- Methods for requests that any thread may call.

    def submit(self, request: SpeechRequest, sink: Sink, ticket: int | None = None) -> int:
        """Accept a request, and return its ticket: the request number for all other methods.

        The request is validated on another thread. The engine's threads call `sink` with every event of the request.
        The only event of a refused request is `Refused` with one of these errors:

        * BadRequest: The request is invalid.
        * Overloaded: All slots and waiting places are taken, and no other caller has more open requests than this
          caller. A background request is refused if any other request is open.
        * EngineDead: The engine has stopped.
        * CheckpointUnusable: The checkpoint was loaded at first use, and loading failed.

        Args:
            ticket: Number that the caller has chosen, or None for the next number.
        """
        ticket = next(self._tickets) if ticket is None else ticket
        self._submissions[ticket] = Submission(request, self._closing_sink(ticket, sink))
        self._validation.add_job(len(request.text), partial(self._accept, ticket), partial(self._refuse, ticket))
        return ticket

    def append_text(self, ticket: int, text: str) -> None:
        """Append text to a request that was submitted with ``open_text``."""
        self._change_text(ticket, lambda text_stream: text_stream.append_text(text))

    def flush(self, ticket: int) -> None:
        """Speak all text received so far, even if the last word or sentence is incomplete."""
        self._change_text(ticket, TextStream.flush)

    def finish_text(self, ticket: int) -> None:
        """Mark the text of a request as complete."""
        self._change_text(ticket, TextStream.finish)

    def ack_sent(self, ticket: int, samples: int) -> None:
        """Report the total number of audio samples that were sent to a request's listener.

        This method is called several times per second, so it does not wake the engine thread. The next engine iteration
        starts after at most ``PAUSE_S`` seconds and reads the value.
        """
        self._sent_samples[ticket] = samples

    def ack_played(self, ticket: int, ms: float) -> None:
        """Report the total milliseconds of audio that a request's listener has played."""
        self._command(ticket, lambda core: core.ack_played(ticket, ms))

    def cancel(self, ticket: int) -> None:
        """Cancel a request, which then ends within the duration of one frame.

        If the validation of the request has not begun, it is skipped. Tickets of unknown or ended requests are ignored.
        """
        with self._lock:
            submission = self._submissions.get(ticket)
            if submission is not None and not submission.is_validating:
                del self._submissions[ticket]
            else:
                submission = None
            open_request = self._open.get(ticket)
            sequence = None if open_request is None else open_request.entry.waiting.withdraw(ticket)
        if submission is not None:
            submission.sink(Finished(stop_reason=StopReason.CANCELLED, stats=RequestStats()))
        elif sequence is not None:  # The checkpoint of this request is still being loaded.
            sequence.emit_final_event(StopReason.CANCELLED, RequestStats())
        else:
            self._command(ticket, lambda core: core.cancel(ticket))

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Encode a voice reference to a voice prompt, which clients can store.

        Another thread calls `done` with the prompt or an error.
        """
        work = partial(self._prepare, reference, mode, done)
        self._validation.add_job(len(reference.text or ""), work, done)

    def load(self) -> EngineLoad:
        """Return the current load of all checkpoints: slots, requests, frames and device memory."""
        cores = self.registry.cores
        running = [sequence for core in cores for sequence in tuple(core.sequences.values())]
        active = sum(not sequence.request.is_background for sequence in running)
        slots = sum(map(self._open.slots, self.registry.entries))
        wordless = sum(entry.waiting.waiting_for_text for entry in self.registry.entries)
        with self._lock:
            waiting = self._open.foreground_count - active - wordless
        return EngineLoad(
            slots=slots,
            active=active,
            waiting=max(0, waiting),
            waiting_for_text=wordless + sum(core.waiting_for_text for core in cores),
            frames=sum(core.frames_made for core in cores),
            uncaptured=sum(core.code2wav_streams.uncaptured for core in cores),
            free_bytes=self.device.free_bytes(),
            total_bytes=self.device.total_bytes(),
        )

    def busy_since(self) -> float | None:
        """Return the start time of the oldest step that a thread or the device has not finished.

        The time is in seconds of the engine's clock, or None if all threads and the device are idle.
        """
        heartbeats = (self._heartbeat, *self.code2wav_worker.heartbeats)
        started_at = [
            *(heartbeat.since for heartbeat in heartbeats),
            *(core.in_flight.since for core in self.registry.cores),
        ]
        return min((since for since in started_at if since is not None), default=None)

    def stacks(self) -> str:
        """Return the stack traces of all threads as text.

        The stack traces contain no text from clients.
        """
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return "\n".join(
            f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
            for ident, frame in sys._current_frames().items()
        )

    # --- Method that runs the engine on the caller's thread.

    def speak(self, request: SpeechRequest) -> Iterator[SpeechEvent]:
        """Serve one request on the caller's thread, and yield its events.

        The command line and tests use this method instead of `start`.

        Raises:
            SpeechError: The request was refused; see `submit`.
        """
        events: deque[SpeechEvent] = deque()
        ticket = self.submit(request, events.append)
        try:
            while ticket in self._open or events:
                while events:
                    if isinstance(event := events.popleft(), Refused):
                        raise event.error
                    yield event
                self.tick()
        finally:  # The caller may stop the iteration before the last event.
            self.cancel(ticket)
            self.run_commands()

    # --- Methods that run on the validation thread.

    def _accept(self, ticket: int) -> None:
        """Validate a submitted request, and queue it for the engine thread.

        Raises:
            SpeechError: The request is refused; see `submit`.
        """
        with self._lock:
            submission = self._submissions.get(ticket)
            if submission is None:  # The request was cancelled.
                return
            submission.is_validating = True
        request = submission.request
        entries = self.registry.needed(request)
        entry = entries[0]
        core = entry.core if all(needed.core for needed in entries) else None
        with self._lock:
            # The queue is checked before the validation, which takes up to 0.1 s. If the queue is full, the request is
            # refused fast.
            self._find_place(entry, request)
        admitted = None if core is None else core.validate_request(request)
        with self._lock:
            if (preempted := self._find_place(entry, request)) is not None:
                self._preempt(*preempted)
            for other in self._open.background:
                self._command(other, partial(EngineCore.cancel, ticket=other))
            self._open.add_open_request(ticket, entry, request)
            sequence = Sequence(ticket, request, submission.sink)
            if core is not None and admitted is not None:
                sequence.admit(*admitted, self._seed(request), self.clock())
                self._start_request(core, sequence)
            else:
                self._await_checkpoint(entries, sequence)
        self._wake.set()

    def _refuse(self, ticket: int, error: SpeechError) -> None:
        with self._lock:
            submission = self._submissions.pop(ticket, None)
        if submission is not None:  # The request was not cancelled at the same time.
            submission.sink(Refused(error))

    def _prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Validate a voice reference, and queue it for encoding.

        Raises:
            EngineDead: The engine has stopped.
            BadRequest: The reference cannot be used, or no loaded checkpoint serves the mode.
        """
        if not self.alive:
            raise EngineDead
        core = self.registry.usable(mode).core
        if core is None:
            raise self.registry.mode_error(mode)
        if mode is not Mode.BASE:
            raise ModeNotServed(param="task_type", mode=mode, known=Mode.BASE)
        admission, _ = core.validate_request(SpeechRequest(text="A", mode=mode, reference=reference))
        assert admission.reference is not None
        assert admission.voice_key is not None
        core.voice_cache.prepare(admission.reference, admission.voice_key, done)

    # --- Methods that run on the engine thread.

    def tick(self) -> bool:
        """Run one engine iteration for every loaded checkpoint.

        Returns:
            True if work was done. The next iteration should then follow without a wait.
        """
        cores, is_asynchronous = self.registry.cores, self.device.max_in_flight > 0
        self._heartbeat.step()
        with self.device.stream(Stream.FRAMES):
            worked = self.run_commands()
            self._record_sent(cores)
            worked |= self._change_texts()
            for core in cores:
                core.collect()
                worked |= core.process_outputs()
                core.retire()
                if is_asynchronous:
                    # The device would be idle while the host prepares prompts.
                    worked |= core.decode()
                    self._heartbeat.step()
                core.report_waiting_for_text()
                core.admit()
                self._heartbeat.step()
                worked |= core.prefill()
                self._heartbeat.step()
                if not is_asynchronous:
                    # The call returns after the frame, so prompts come first.
                    worked |= core.decode()
        if not worked and not self.completion_waiter.is_running:
            worked = any(core.in_flight.wait() for core in cores)
        self._heartbeat.mark_idle()
        return worked

    @property
    def busy(self) -> bool:
        """True if at least one request has not ended."""
        return bool(self.commands) or any(core.busy for core in self.registry.cores)

    def _run(self) -> None:
        self.loader.prepare_thread()
        try:
            while not self._closing:
                self._wake.clear()
                if not self.tick():
                    self._wake.wait(PAUSE_S if self.busy else IDLE_S)
        except Exception:
            log.critical("the engine thread died", exc_info=True)
        finally:
            self._shut_down()

    def _shut_down(self) -> None:
        with self._lock:
            self.alive = False
            waiting = [sequence for entry in self.registry.entries for sequence in entry.waiting.remove_loaded()]
        self.run_commands()
        for sequence in waiting:
            sequence.emit_final_event(EngineDead(), RequestStats())
        for core in self.registry.cores:
            core.finish_all_requests(EngineDead())
            core.voice_cache.close()
        self.code2wav_worker.close()
        self.completion_waiter.close()

    def run_commands(self) -> bool:
        took = bool(self.commands)
        while self.commands:
            self._heartbeat.step()
            self.commands.popleft()()
        return took

    def _record_sent(self, cores: list[EngineCore]) -> None:
        """Pass the acknowledgements of sent audio to all engine cores."""
        sent_samples: dict[int, int] = {}
        # The loop does not iterate over the dict, because other threads add entries at the same time.
        while self._sent_samples:
            ticket, samples = self._sent_samples.popitem()
            sent_samples[ticket] = samples
        for core in cores if sent_samples else ():
            core.ack_sent(sent_samples)

    def _change_texts(self) -> bool:
        """Apply queued text updates, round-robin over the requests.

        Return True if updates remain. An update takes up to 0.1 s. While requests have slots, updates use at most
        `MAX_TEXT_SHARE` of the thread's time.
        """
        start = self.clock()
        if start < self._next_text_at and any(core.sequences for core in self.registry.cores):
            return bool(self._text_changes)
        while self._text_changes and self.clock() - start < MAX_TEXT_WORK_S:
            self._heartbeat.step()
            ticket = next(iter(self._text_changes))
            changes = self._text_changes.pop(ticket)
            open_request = self._open.get(ticket)
            if open_request is not None and open_request.entry.core is not None:
                change = changes.popleft()
                if changes:
                    self._text_changes[ticket] = changes
                open_request.entry.core.change_text(ticket, change)
        end = self.clock()
        if end - start > MAX_TEXT_WORK_S:
            self._next_text_at = start + (end - start) / MAX_TEXT_SHARE
        return bool(self._text_changes)

    # --- Methods that load checkpoints and admit the requests that wait for them.

    def _new_core(self, checkpoint: Checkpoint, slots: int, length: int, waiting: WaitingQueue) -> EngineCore:
        host = CoreHost(self.device, self.code2wav_worker, self._wake.set, self.completion_waiter.expect, self.clock)
        return EngineCore(CoreConfig(self.settings, slots, length), checkpoint, waiting, host)

    def _await_checkpoint(self, entries: tuple[RegistryEntry, ...], sequence: Sequence) -> None:
        """Queue a request until its checkpoints are loaded, and start loading missing ones.

        The caller holds the lock.
        """
        entries[0].waiting.add_without_checkpoint(sequence)
        for needed in entries:
            if needed.core is None and not needed.is_loading:
                needed.is_loading = True
                threading.Thread(target=self._load_late, args=(needed,), name="loader", daemon=True).start()
        if self._is_settled(sequence):  # The checkpoint may have been loaded after `_accept` has checked it.
            self.commands.append(partial(self.admit_waiting, entries[0], {}))

    def _load_late(self, entry: RegistryEntry) -> None:
        """Load a checkpoint at first use, then admit the requests that waited for it.

        Thread: loader.
        """
        try:
            self.loader.load(entry)
        except Exception:
            log.exception("a checkpoint could not be loaded")
            entry.has_failed = True
        entries = self.registry.entries
        with self._lock:
            waiting = [(other, sequence) for other in entries for sequence in other.waiting.without_checkpoint()]
        # The validation takes up to 0.1 s, so it runs on this thread instead of the engine thread.
        validated = {
            sequence.ticket: self._validate(other, sequence.request)
            for other, sequence in waiting
            if self._is_settled(sequence)
        }
        self.commands.extend(partial(self.admit_waiting, other, validated) for other in entries)
        self._wake.set()

    def admit_waiting(self, entry: RegistryEntry, validated: Mapping[int, Validated]) -> None:
        """Admit or refuse the requests that waited for their checkpoints to be loaded.

        Args:
            entry: Registry entry of the checkpoint.
            validated: Results of earlier validations by ticket. Other requests are validated now.
        """
        with self._lock:
            released = entry.waiting.remove_loaded(self._is_settled)
        core = entry.core
        if core is not None and self._thread is not None:
            self.loader.prepare_thread()
            core.voice_cache.start(self.loader.prepare_thread)
        for sequence in released:
            result = validated.get(sequence.ticket) or self._validate(entry, sequence.request)
            if isinstance(result, SpeechError):
                sequence.emit_final_event(result, RequestStats())
            elif core is not None:
                sequence.admit(*result, self._seed(sequence.request), self.clock())
                with self._lock:
                    self._start_request(core, sequence)

    # --- Helper methods for the methods above.

    def _validate(self, entry: RegistryEntry, request: SpeechRequest) -> Validated:
        """Validate a request whose checkpoints are loaded or have failed."""
        try:
            self.registry.needed(request)
            assert entry.core is not None, "it is loaded, or has failed and was refused"
            return entry.core.validate_request(request)
        except SpeechError as error:
            return error

    def _is_settled(self, sequence: Sequence) -> bool:
        """True if all checkpoints that a request needs are loaded or have failed."""
        try:
            return all(entry.core is not None for entry in self.registry.needed(sequence.request))
        except SpeechError:  # The admission of the request raises the same error later.
            return True

    @staticmethod
    def _seed(request: SpeechRequest) -> int:
        return secrets.randbits(SEED_BITS) if request.seed is None else request.seed

    def _find_place(self, entry: RegistryEntry, request: SpeechRequest) -> tuple[int, Overloaded] | None:
        """Return the request to preempt, if any, or raise if a request cannot be accepted.

        The caller holds the lock.
        """
        if not self.alive:
            raise EngineDead
        return self._open.make_room(entry, request)

    def _preempt(self, ticket: int, error: SpeechError) -> None:
        """Queue a command that ends a request, unless it has a slot by then."""
        opened = self._open[ticket]
        opened.is_preempted = True

        def preempt(core: EngineCore) -> None:
            opened.is_preempted = core.preempt(ticket, error)

        self._command(ticket, preempt)

    def _change_text(self, ticket: int, change: TextChange) -> None:
        self._command(ticket, lambda core: self._text_changes.setdefault(ticket, deque()).append(change))

    def _start_request(self, core: EngineCore, sequence: Sequence) -> None:
        """Queue a validated request for its engine core, and the commands that it received.

        The caller holds the lock.
        """
        self.commands.append(partial(core.add_request, sequence))
        self.commands.extend(self._submissions.pop(sequence.ticket).deferred)

    def _command(self, ticket: int, action: Callable[[EngineCore], None]) -> None:
        """Queue a command for the engine core of a request.

        Commands run in the order of the calls.
        """

        def command() -> None:
            if (opened := self._open.get(ticket)) is not None and opened.entry.core is not None:
                action(opened.entry.core)

        with self._lock:
            submission = self._submissions.get(ticket)
            (self.commands if submission is None else submission.deferred).append(command)
        self._wake.set()

    def _closing_sink(self, ticket: int, sink: Sink) -> Sink:
        """Return a sink that passes events to a client's sink.

        The ticket is removed at the final event. If the client's sink raises an exception, the request is cancelled.
        """

        def call_sink(event: SpeechEvent) -> None:
            if isinstance(event, Started):
                self._open[ticket].has_begun = True
            if isinstance(event, Finished | Broken | Refused):
                with self._lock:
                    self._open.remove(ticket)
                    self._submissions.pop(ticket, None)
            try:
                sink(event)
            except Exception:
                log.exception("the sink of request %d failed", ticket)
                self.cancel(ticket)

        return call_sink
