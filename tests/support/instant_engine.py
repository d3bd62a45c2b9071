"""Engine that generates audio instantly without neural networks.

Checkpoints, request validation, segmentation of streamed text, slots and refusals are the same as in the real engine.
The first second of audio is available immediately. The rest is generated slightly faster than real time.
Therefore the audio of a long text arrives as a stream.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.device.cpu import CpuDevice
from runtime.engine.capacity.memory import CPU_SLOTS
from runtime.engine.core import PAUSE_NOTE
from runtime.engine.engine import SEED_BITS
from runtime.engine.loading.registry import Registry, RegistryEntry
from runtime.engine.scheduling.input_processor import Admission, admit
from runtime.engine.text.text_stream import Segment, TextStream
from runtime.errors import EngineDead, ModeNotServed, Overloaded, SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.request import (
    AudioChunk,
    Broken,
    EngineLoad,
    Finished,
    Mode,
    ModelCard,
    Queued,
    Reference,
    Refused,
    RequestStats,
    Sink,
    SpeechRequest,
    Started,
    StopReason,
    VoicePrompt,
    WaitingForText,
)
from runtime.server.speech_engine import Progress
from runtime.settings import Settings
from runtime.shared.text.speech_rate import FRAME_S, pause_frames
from tests.support.instant_speech import FRAME_SAMPLES, frames_of, speech

log = logging.getLogger(__name__)

AT_ONCE = 12  # Number of frames that are available immediately.
SPEED = float(os.environ.get("INSTANT_SPEED", "1.25"))  # Ratio of the generation speed of later frames to real time.
UNREAD = 250  # Maximum number of frames that are sent but not acknowledged.
MAX_CHUNK_FRAMES = 8  # Maximum number of frames per chunk.
TURN_S = 0.01
RETRY_AFTER_S = 2.0
X_VECTOR = 64  # Length of the x-vector. Any length works, because nothing reads the vector.


@dataclass(slots=True, eq=False)
class InstantSequence:
    """Speech request of the instant engine that is running or waits for a slot."""

    request: SpeechRequest
    sink: Sink
    checkpoint: Checkpoint
    admission: Admission
    text: TextStream
    seed: int
    submitted: float
    began: float | None = None  # Time at which the request got its slot. None while the request waits.
    pieces: deque[NDArray[np.int16]] = field(default_factory=deque)  # PCM of frames that have not been sent yet.
    has_codes: bool = True  # False if the next frames are a pause, which has no codes.
    said: int = 0  # Number of spoken characters of the open segment.
    made: int = 0  # Number of generated frames.
    taken: int = 0  # Number of acknowledged samples.
    chunk: int = 1  # Number of frames in the next chunk.
    place: int = -1  # Queue position in the last event.
    reported_chars: int = -1  # Number of characters in the last WaitingForText event.
    first_ms: float | None = None

    @property
    def is_ready(self) -> bool:
        return self.text.is_ready or self.text.is_silent

    def stats(self, now: float) -> RequestStats:
        began = now if self.began is None else self.began
        return RequestStats(
            queue_ms=1000 * (began - self.submitted),
            prefill_ms=1.0,
            ttfa_ms=self.first_ms,
            total_ms=1000 * (now - self.submitted),
            prompt_tokens=8,
            frames=self.made,
            audio_s=self.made * FRAME_S,
        )

    def read_on(self) -> None:
        """Generate the audio of the next segment if its text is complete or was flushed."""
        if self.text.is_silent and not self.made:
            self.has_codes = False
            in_marks = pause_frames(self.text.text) if self.text.text.strip() else 0
            self._add(np.zeros(FRAME_SAMPLES * (in_marks + round(self.text.pause / FRAME_SAMPLES)), np.int16))
        while self.text.segments and not self.pieces:
            part = self.text.segments[0]
            words = part.text[self.said :].strip()
            if not part.closed:
                return
            self.text.segments.popleft()
            self.said = 0
            if words:
                self._generate(words, part)

    def flush(self) -> None:
        """Generate the audio of all received text, even if its last segment is incomplete."""
        self.text.flush()
        if self.text.segments and not self.text.segments[-1].closed:
            part = self.text.segments[-1]
            words, self.said = part.text[self.said :].strip(), len(part.text)
            if words:
                self._generate(words, part)

    def _generate(self, words: str, part: Segment) -> None:
        """Append frames for the pause before a segment and for the text `words`."""
        pause, part.pause = part.pause, 0
        self._add(np.zeros(FRAME_SAMPLES * round(pause / FRAME_SAMPLES), np.int16))
        spoken = self.admission.styled(part.style).prompt_inputs
        manner = (spoken.mode, spoken.speaker, spoken.language, spoken.instruct, self.admission.voice_key, self.seed)
        self._add(speech(words, manner, frames_of(words)))

    def _add(self, sound: NDArray[np.int16]) -> None:
        self.pieces.extend(sound.reshape(-1, FRAME_SAMPLES))

    def may_make(self, now: float) -> int:
        """Return the number of frames to send in the next chunk, or 0 if the chunk must wait.

        The number is limited by the elapsed time and by the client's acknowledgements.
        """
        assert self.began is not None
        due = AT_ONCE + int(SPEED * (now - self.began) / FRAME_S) - self.made
        room = self.taken // FRAME_SAMPLES + UNREAD - self.made if self.request.acknowledged else due
        requested = self.admission.requested_frames
        left = len(self.pieces) if requested is None else requested - self.made
        wanted = min(self.chunk, len(self.pieces), left)
        return wanted if min(due, room) >= wanted else 0

    def next_chunk(self, frames: int) -> AudioChunk:
        sound = np.concatenate([self.pieces.popleft() for _ in range(frames)])
        codes = np.zeros((frames if self.has_codes else 0, 4), np.int64)
        first = self.made * FRAME_SAMPLES
        self.made += frames
        self.chunk = min(2 * self.chunk, MAX_CHUNK_FRAMES)
        return AudioChunk(pcm=sound.astype("<i2").tobytes(), codes=codes, first_sample=first)

    @property
    def reason(self) -> StopReason | None:
        """Return the stop reason of the request, or None if it is still running."""
        if self.admission.requested_frames is not None and self.made >= self.admission.requested_frames:
            return StopReason.MAX_TOKENS
        is_over = self.text.closed and not self.text.segments and not self.pieces
        return StopReason.EOS if is_over else None


class InstantEngine:
    """Implementation of `SpeechEngine` for tests, which generates audio without networks.

    All commands run on the engine's thread.
    """

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self.alive = True
        self._registry = registry
        self._settings = settings
        self._slots = settings.engine.max_slots or CPU_SLOTS
        self._device = CpuDevice()
        self._checkpoints = {entry.name: self._load(entry) for entry in registry.entries}
        self._lock = threading.Condition()
        self._commands: deque[Callable[[], None]] = deque()
        # Running and waiting requests in order of arrival. The key is the ticket (number) of the request.
        self._sayings: dict[int, InstantSequence] = {}
        self._tickets = itertools.count(1)
        self._frames = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @classmethod
    def open(cls, settings: Settings, progress: Progress = lambda loaded, of, step: None) -> Self:
        """Load the checkpoints of the settings without their weights, and return an engine.

        A missing or invalid checkpoint raises the same error as in the real engine.
        """
        progress(0, len(settings.models), "reading configurations")
        return cls(Registry.read(settings.models), settings)

    def _load(self, entry: RegistryEntry) -> Checkpoint:
        return load_checkpoint(entry.source, self._device.torch_device, torch.float32)

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        cards = self._registry.cards("cpu", self._settings.limits)
        return tuple(replace(card, loaded=True, slots=self._slots) for card in cards)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float | None = None) -> None:
        with self._lock:
            self.alive = False
            self._lock.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def stacks(self) -> str:
        return ""

    # --- Methods that any thread may call.

    def submit(self, request: SpeechRequest, sink: Sink, ticket: int | None = None) -> int:
        ticket = next(self._tickets) if ticket is None else ticket
        with self._lock:
            if self.alive:
                self._commands.append(partial(self._accept, ticket, request, sink))
                self._lock.notify()
                return ticket
        sink(Refused(EngineDead()))
        return ticket

    def append_text(self, ticket: int, text: str) -> None:
        self._command(ticket, lambda saying: saying.text.append_text(text))

    def flush(self, ticket: int) -> None:
        self._command(ticket, InstantSequence.flush)

    def finish_text(self, ticket: int) -> None:
        self._command(ticket, lambda saying: saying.text.finish())

    def ack_sent(self, ticket: int, samples: int) -> None:
        def take(saying: InstantSequence) -> None:
            saying.taken = samples

        self._command(ticket, take)

    def ack_played(self, ticket: int, ms: float) -> None: ...

    def cancel(self, ticket: int) -> None:
        self._command(ticket, lambda saying: self._end(ticket, saying, StopReason.CANCELLED))

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        with self._lock:
            self._commands.append(partial(self._prepare, reference, mode, done))
            self._lock.notify()

    def _prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        request = SpeechRequest(text="A", mode=mode, reference=reference)
        try:
            checkpoint, admission, _ = self._admitted(request)
        except SpeechError as error:
            done(error)
            return
        assert admission.voice_key is not None
        codes = None if reference.x_vector_only else np.zeros((admission.reference_frames, 4), np.int64)
        key = np.frombuffer(admission.voice_key.encode(), np.uint8)
        x_vector = np.resize(key, X_VECTOR).astype(np.float32)
        done(VoicePrompt(fingerprint=checkpoint.fingerprint, x_vector=x_vector, codes=codes))

    def load(self) -> EngineLoad:
        with self._lock:
            sayings = tuple(self._sayings.values())
        active = sum(saying.began is not None for saying in sayings)
        short = sum(saying.began is None and not saying.is_ready for saying in sayings)
        return EngineLoad(
            slots=self._slots,
            active=active,
            waiting=len(sayings) - active - short,
            waiting_for_text=short,
            frames=self._frames,
            free_bytes=self._device.free_bytes(),
            total_bytes=self._device.total_bytes(),
        )

    def busy_since(self) -> float | None:
        return None

    def _admitted(self, request: SpeechRequest) -> tuple[Checkpoint, Admission, TextStream]:
        entry = self._registry.entry(request.mode)
        if entry is None:
            raise ModeNotServed(param="task_type", mode=request.mode, known=", ".join(self._registry.modes))
        checkpoint = self._checkpoints[entry.name]
        longest = checkpoint.config.talker.max_position_embeddings
        length = min(self._settings.engine.max_model_len, longest)
        return checkpoint, *admit(request, checkpoint, self._settings.limits, length)

    def _command(self, ticket: int, tell: Callable[[InstantSequence], None]) -> None:
        def command() -> None:
            saying = self._sayings.get(ticket)
            if saying is None:
                return
            try:
                tell(saying)
            except SpeechError as error:
                self._end(ticket, saying, error)

        with self._lock:
            self._commands.append(command)
            self._lock.notify()

    # --- Methods that only the engine's thread may call.

    def _accept(self, ticket: int, request: SpeechRequest, sink: Sink) -> None:
        try:
            checkpoint, admission, text = self._admitted(request)
            waiting = sum(other.is_ready for other in self._sayings.values()) - self._slots
            if waiting >= self._settings.engine.max_waiting or request.is_background:
                raise Overloaded(slots=self._slots, waiting=max(0, waiting), retry_after_s=RETRY_AFTER_S)
        except SpeechError as error:
            sink(Refused(error))
            return
        seed = secrets.randbits(SEED_BITS) if request.seed is None else request.seed
        saying = InstantSequence(request, sink, checkpoint, admission, text, seed, time.monotonic())
        saying.chunk = request.first_chunk_frames or 1
        with self._lock:
            self._sayings[ticket] = saying

    def _run(self) -> None:
        try:
            while self.alive:
                self._turn()
                with self._lock:
                    if self.alive and not self._commands:
                        self._lock.wait(TURN_S if self._sayings else None)
        except Exception:
            log.critical("the engine thread died", exc_info=True)
        finally:
            with self._lock:
                self.alive = False
            while self._commands:
                self._commands.popleft()()
            for ticket, saying in tuple(self._sayings.items()):
                self._end(ticket, saying, EngineDead())

    def _turn(self) -> None:
        """Execute queued commands, assign free slots, and send all chunks that may be sent."""
        worked = True
        while worked and self.alive:
            while self._commands:
                self._commands.popleft()()
            self._admit()
            with self._lock:
                speaking = [(ticket, each) for ticket, each in self._sayings.items() if each.began is not None]
            worked = any([self._speak(ticket, saying) for ticket, saying in speaking])

    def _admit(self) -> None:
        with self._lock:
            ready = [saying for saying in self._sayings.values() if saying.began is None and saying.is_ready]
            free = self._slots - sum(saying.began is not None for saying in self._sayings.values())
        for saying in ready[:free]:
            saying.began = time.monotonic()
            pause = (PAUSE_NOTE,) if saying.text.is_silent and not saying.text.pause else ()
            notes = (*saying.admission.notes, *pause, *saying.text.notes)
            saying.sink(Started(seed=saying.seed, checkpoint=saying.checkpoint.name, notes=notes))
        for place, saying in enumerate(ready[free:]):
            if saying.place != place:
                saying.place = place
                saying.sink(Queued(place))

    def _speak(self, ticket: int, saying: InstantSequence) -> bool:
        """Send a request's next chunk if its audio is available, and return True if it was sent."""
        saying.read_on()
        now = time.monotonic()
        frames = saying.may_make(now)
        if frames:
            chunk = saying.next_chunk(frames)
            self._frames += frames
            if saying.first_ms is None:
                saying.first_ms = 1000 * (now - saying.submitted)
            saying.sink(chunk)
        if (reason := saying.reason) is not None:
            self._end(ticket, saying, reason)
        elif not saying.pieces and saying.text.waits_for_text and saying.reported_chars != saying.text.chars:
            saying.reported_chars = saying.text.chars
            saying.sink(WaitingForText(saying.reported_chars))
        return frames > 0

    def _end(self, ticket: int, saying: InstantSequence, end: StopReason | SpeechError) -> None:
        with self._lock:
            if self._sayings.pop(ticket, None) is None:
                return
        stats = saying.stats(time.monotonic())
        saying.sink(Broken(end, stats) if isinstance(end, SpeechError) else Finished(stop_reason=end, stats=stats))
