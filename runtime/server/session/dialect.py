"""Base class of speech sessions, which are state machines without I/O.

A session converts client messages into commands for the engine and messages for the client. The connection calls
`commands` and `pop_message` to get them. This is the design of ``websockets.protocol.Protocol``. A session uses no
asyncio and no sockets, and receives the clock as an argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from runtime.errors import BadRequest, Expired, InvalidMessage, SessionIdle, SessionTooLong, SpeechError
from runtime.request import AudioChunk, Broken, Finished, Mode, ModelCard, Reference, SpeechEvent, Started
from runtime.server.descriptions import finish_notes
from runtime.server.session.commands import AudioMessage, Command, DecodeReference, Outgoing, ReadStoredVoice
from runtime.server.session.send_queue import SendQueue
from runtime.server.session.utterance import ChosenVoice, SpeechConfig, Utterance
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from runtime.server.wire import SAMPLE_BYTES, Reply, check_size, decode, split_pcm
from runtime.settings import Limits

_NOTICE_S = 60.0  # Seconds between the warning to the client and the end of the session.

Speaking = TypeVar("Speaking", bound=Utterance[Any])
Config = TypeVar("Config", bound=SpeechConfig)

# Maximum number of JSON values in a message. Commas in its text are also counted as values, so the maximum length of
# the text is added to this limit.
_MAX_OTHER_VALUES = 4096
_MAX_NAMES = 64  # Maximum number of stored names of refused contexts, whose messages may still arrive.
_MAX_STEPS = 16  # Maximum number of steps of `work` that run in one iteration of the event loop.


class RecentNames:
    """Set of names with a maximum size, which removes its oldest name when it is full."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}  # Names in order of age, the oldest first.

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def remember(self, name: str) -> None:
        self.forget(name)
        self._names[name] = None
        if len(self._names) > _MAX_NAMES:
            del self._names[next(iter(self._names))]

    def forget(self, name: str) -> None:
        self._names.pop(name, None)


class Dialect(ABC, Generic[Speaking]):
    """Base class of the session of one client on one socket.

    Thread: event loop.
    """

    gives_notice = False  # True if the session warns the client before its time limit.

    def __init__(
        self, *, limits: Limits, cards: Sequence[ModelCard], library: VoiceLibrary, clock: Callable[[], float]
    ) -> None:
        self.closed = False  # True if the session has closed. Further input is ignored.
        self.has_work = False  # True if `work` must be called again, in another iteration of the event loop.
        self._is_new = True  # True until the first message arrives.
        self._limits = limits
        self._clock = clock
        self._timers = SessionTimers(limits, clock, gives_notice=self.gives_notice)
        self._library = library
        self._resolver = VoiceResolver(cards, library)
        self.utterances: dict[int, Speaking] = {}  # Utterances with an open request or queued text, by number.
        self._uttered = 0  # Number of the most recent utterance.
        # Voices that wait for a `DecodeReference` or `ReadStoredVoice` command, by the number of the upload.
        self._reading: dict[int, ChosenVoice[Any]] = {}
        self._uploads = 0
        self._muted = RecentNames()  # Names of refused contexts. Messages for these contexts are ignored.
        self._commands: list[Command] = []
        self.send_queue = SendQueue()

    # --- Methods that return output for the client and commands for the engine.

    def commands(self) -> list[Command]:
        """Remove and return all commands that the engine has not received yet."""
        commands = self._commands.copy()
        self._commands.clear()  # The list is cleared and not replaced, because the utterances use the same list.
        return commands

    def pop_message(self) -> Outgoing | None:
        """Remove and return the next message for the client, or return None.

        A Close is always the last message.
        """
        item = self.send_queue.pop_message()
        if isinstance(item, AudioMessage) and (utterance := self.utterances.get(item.number)) is not None:
            utterance.sent_samples += item.samples
        return item

    @property
    def deadline(self) -> float | None:
        """Return the time at which `tick` must be called, or None if the session has closed.

        The time is in seconds on the session's clock.
        """
        return None if self.closed else min([self._timers.deadline(self._silence_s), *self._deadlines()])

    @property
    def is_congested(self) -> bool:
        """True if the session should not read input, because too many messages are unsent."""
        return self.send_queue.is_congested

    # --- Methods that process input of the client and events of the engine.

    def receive_text(self, text: str) -> None:
        """Process a text message from the client."""
        if self.closed:
            return
        self._is_new = False
        self._timers.restart_idle()
        try:
            # Parsing too many values would block the event loop. `decode` estimates their number from commas, so the
            # limit also allows for a text that consists of commas.
            fields = decode(text, self._limits.max_text_chars + _MAX_OTHER_VALUES)
        except InvalidMessage as error:
            self._refuse_no_json(text, error)
            return
        try:
            check_size(text, self._size_limit(fields))
            message = self._read(fields)
        except BadRequest as error:
            self._refuse_message(fields, error)
        else:
            self._handle(message)

    def receive_bytes(self) -> None:
        """Close the session, because no API accepts binary messages from clients."""
        self.close_with(InvalidMessage(why="binary messages are not supported"), 1003)

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """Process an event of the engine for the utterance `number`.

        The event is ignored if the utterance was already aborted.
        """
        utterance = self.utterances.get(number)
        if utterance is None:
            return
        match event:
            case Finished():
                del self.utterances[number]
                utterance.notes += finish_notes(event)
            case Broken():
                del self.utterances[number]
            case Started(seed=seed, notes=notes):
                utterance.seed = seed
                utterance.notes += notes
            case AudioChunk(pcm=pcm):
                utterance.samples += len(pcm) // SAMPLE_BYTES
        self._on_event(utterance, event)

    def on_refused(self, number: int, error: SpeechError) -> None:
        """End the utterance `number`, because the engine has refused its request."""
        if (utterance := self.utterances.pop(number, None)) is not None:
            self._fail(utterance, error)

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """Process the result of reading reference audio or a stored voice."""
        voice = self._reading.pop(number, None)
        if voice is not None and not self.closed:
            voice.reference = result
            self._on_voice_ready(voice)

    def tick(self) -> None:
        """Process all deadlines that have passed.

        A pause in the text can start speech, and a timeout closes the session.
        """
        if self.closed:
            return
        self._check_deadlines(self._clock())
        if (error := self._timers.expired(self._silence_s)) is not None:
            self._expire(error)
        elif (remaining_s := self._timers.notice()) is not None:
            self._give_notice(remaining_s)

    def work(self) -> None:
        """Do a limited number of steps of the session's pending work.

        After the call, `has_work` is True if more work may be pending.
        """
        steps = (not self.closed and self._step() for _ in range(_MAX_STEPS))
        self.has_work = all(steps)

    def close_with(self, error: SpeechError, code: int) -> None:
        """Abort all utterances, send a server error, and close the session."""
        if not self.closed:
            self._abort_all(error)
            self._send_error(error)
            self._close(code, error.code)

    def on_disconnect(self) -> None:
        """Cancel all utterances and drop all unsent messages after a disconnect."""
        for utterance in tuple(self.utterances.values()):
            self._release(utterance)
        self.send_queue.clear()
        self.closed = True

    # --- Helper methods for subclasses.

    def _named(self, name: str) -> Speaking | None:
        """Return the open utterance with this name, or None."""
        return next((utterance for utterance in self.utterances.values() if utterance.name == name), None)

    def _number(self, utterance: Speaking) -> Speaking:
        """Register an utterance under a new number, so that it receives the engine's events."""
        self.utterances.pop(utterance.number, None)
        self._uttered += 1
        utterance.number = self._uttered
        self.utterances[utterance.number] = utterance
        return utterance

    def _release(self, utterance: Speaking) -> None:
        """Cancel an utterance before its end and drop its unsent audio."""
        if self.utterances.pop(utterance.number, None) is not None:
            utterance.cancel()
            self.send_queue.drop_audio_of(utterance.number)
            utterance.samples = utterance.sent_samples

    def _chosen(
        self, config: Config, resolved: ResolvedVoice, recording: str | Reference | None = None
    ) -> ChosenVoice[Config]:
        """Return the selected voice, and add a command to read its reference if necessary."""
        voice = ChosenVoice(config, resolved)
        if resolved.stored is None and isinstance(recording, Reference):
            voice.reference = recording
        elif resolved.stored is not None or (resolved.mode is Mode.BASE and recording is not None):
            voice.needs_reference = True
            self._uploads += 1
            self._reading[self._uploads] = voice
            if resolved.stored is not None:
                self._commands.append(ReadStoredVoice(self._uploads, resolved.stored, resolved.param))
            elif isinstance(recording, str):
                self._commands.append(DecodeReference(self._uploads, recording))
        return voice

    def _send_pcm(self, utterance: Speaking, pcm: bytes) -> None:
        for piece in split_pcm(pcm):
            self.send_queue.add_audio(piece, number=utterance.number, samples=len(piece) // SAMPLE_BYTES)

    def _send_about(self, name: str, message: Reply, *, number: int | None = None, samples: int = 0) -> None:
        """Queue a message of the context `name`, which `drop_context` can remove."""
        self.send_queue.add_message(message, number=number, samples=samples, about=name)

    def _close(self, code: int, reason: str = "") -> None:
        self.send_queue.close(code, reason)
        self.closed = True

    # --- Methods that subclasses override.

    @property
    def _silence_s(self) -> float | None:
        """Return the idle timeout in seconds, or None while a complete text is being spoken."""
        if not all(utterance.takes_text for utterance in self.utterances.values()):
            return None
        return self._limits.config_s if self._is_new else self._limits.idle_s

    def _deadlines(self) -> Iterator[float]:
        """Yield the deadlines of all utterances, at which `tick` must be called."""
        pauses = (utterance.text.pause.due for utterance in self.utterances.values())
        return (due for due in pauses if due is not None)

    def _check_deadlines(self, now: float) -> None:
        """Process the expired deadlines of all utterances."""
        for utterance in tuple(self.utterances.values()):
            if utterance.text.pause.has_paused(now):
                utterance.flush()

    def _step(self) -> bool:
        """Do one step of pending work, such as the end of a sentence.

        Returns:
            True if more steps may follow.
        """
        return False

    def _size_limit(self, fields: dict[str, Any]) -> int:
        """Return the maximum size in bytes of a message with these fields."""
        return self._limits.max_message_bytes

    @abstractmethod
    def _read(self, fields: dict[str, Any]) -> Any:
        """Validate a decoded client message and return the message object.

        Raises:
            BadRequest: The message is invalid in this API.
        """

    @abstractmethod
    def _handle(self, message: Any) -> None: ...

    def _refuse_no_json(self, text: str, error: InvalidMessage) -> None:
        self.close_with(error, error.close_code)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        self._send_error(error)

    @abstractmethod
    def _on_event(self, utterance: Speaking, event: SpeechEvent) -> None:
        """Report an event of the engine to the client.

        A final event closes the utterance.
        """

    @abstractmethod
    def _fail(self, utterance: Speaking, error: SpeechError) -> None:
        """Report a failed utterance to the client and close the utterance."""

    def _on_voice_ready(self, voice: ChosenVoice[Any]) -> None:
        """Continue the utterances that were waiting for the voice's reference."""
        for utterance in [utterance for utterance in self.utterances.values() if utterance.voice is voice]:
            if isinstance(voice.reference, SpeechError):
                del self.utterances[utterance.number]
                self._fail(utterance, voice.reference)
            else:
                self._send_text(utterance)

    def _send_text(self, utterance: Speaking) -> None:
        utterance.send_text()

    def _expire(self, error: Expired) -> None:
        self.close_with(error, error.close_code)

    def _give_notice(self, remaining_s: float) -> None:
        """Warn the client of the session's remaining time."""

    def _abort_all(self, error: SpeechError) -> None:
        """Cancel all utterances, and report `error` to the client for every utterance."""
        for utterance in tuple(self.utterances.values()):
            self._release(utterance)
            self._fail(utterance, error)

    @abstractmethod
    def _send_error(self, error: SpeechError) -> None:
        """Report an error to the client that does not belong to an utterance."""


class SingleErrorDialect(Dialect[Speaking]):
    """Base class of sessions that close the socket after the first error."""

    def _fail(self, utterance: Speaking, error: SpeechError) -> None:
        self.close_with(error, error.close_code)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        self.close_with(error, error.close_code)

    def _abort_all(self, error: SpeechError) -> None:
        for utterance in tuple(self.utterances.values()):
            self._release(utterance)


class SessionTimers:
    """Timers of one session: idle timeout, maximum duration, and a warning before the end.

    `silence_s` is the current idle timeout in seconds, or None for no idle timeout.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float], *, gives_notice: bool = False) -> None:
        self._limits = limits
        self._clock = clock
        self._last_event = clock()
        self._end = clock() + limits.session_s
        # Seconds before the end at which the client is warned. None if the dialect sends no warning, or has already
        # sent it.
        self._notice_s = min(_NOTICE_S, limits.session_s / 10) if gives_notice else None

    def restart_idle(self) -> None:
        """Restart the idle timer after a message or an event."""
        self._last_event = self._clock()

    def deadline(self, silence_s: float | None) -> float:
        """Return the time at which the timers must be checked again, on the session's clock."""
        end = self._end - (self._notice_s or 0.0)
        return end if silence_s is None else min(end, self._last_event + silence_s)

    def expired(self, silence_s: float | None) -> Expired | None:
        """Return the error of the earliest timeout that has expired, or None."""
        now = self._clock()
        if silence_s is not None and self._last_event + silence_s <= min(now, self._end):
            return SessionIdle(limit=silence_s)
        return SessionTooLong(limit=self._limits.session_s) if now >= self._end else None

    def notice(self) -> float | None:
        """Return the remaining seconds of the session if the client must be warned now, or None."""
        now = self._clock()
        if self._notice_s is None or now < self._end - self._notice_s:
            return None
        self._notice_s = None
        return self._end - now
