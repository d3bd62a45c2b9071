"""Base class of protocol sessions: state machines without I/O.

A session turns client messages into commands and responses. As with ``websockets.protocol.Protocol``, the connection
collects `commands` (for the engine) and calls `take` (messages for the client, in order). A session uses no asyncio,
sockets or torch; its clock is an argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from runtime.errors import BadRequest, Expired, InvalidMessage, SessionIdle, SessionTooLong, SpeechError
from runtime.request import AudioChunk, Broken, Finished, Mode, ModelCard, Reference, SpeechEvent, Started
from runtime.server.descriptions import end_notes
from runtime.server.session.commands import AudioMessage, Command, Decode, Outgoing, Recall
from runtime.server.session.send_queue import SendQueue
from runtime.server.session.utterance import ChosenVoice, SpeechConfig, Utterance
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from runtime.server.wire import SAMPLE_BYTES, Reply, check_size, decode, pieces
from runtime.settings import Limits

_NOTICE_S = 60.0  # Seconds before the end of a session at which the client is warned.

Speaking = TypeVar("Speaking", bound=Utterance[Any])
Config = TypeVar("Config", bound=SpeechConfig)

_MAX_OTHER_VALUES = 4096  # Maximum number of JSON values in a message, not counting the characters of its text.
_MAX_NAMES = 64  # Maximum number of stored names of refused contexts. Messages for them may still arrive.


class RecentNames:
    """Set of limited size that removes its oldest members."""

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
    """Protocol session of one client on one socket.

    Thread: event loop.
    """

    gives_notice = False  # True if the session warns the client before its time limit.

    def __init__(
        self, *, limits: Limits, cards: Sequence[ModelCard], library: VoiceLibrary, clock: Callable[[], float]
    ) -> None:
        self.closed = False  # True if the session has closed. Further input is ignored.
        self._is_new = True  # True until the first message arrives.
        self._limits = limits
        self._clock = clock
        self._timers = SessionTimers(limits, clock, gives_notice=self.gives_notice)
        self._library = library
        self._resolver = VoiceResolver(cards, library)
        self.utterances: dict[int, Speaking] = {}  # Utterances, by number, for which the engine may emit more events.
        self._uttered = 0  # Number of the last utterance.
        # Voices whose reference is being decoded, by number of the upload.
        self._reading: dict[int, ChosenVoice[Any]] = {}
        self._uploads = 0
        self._muted = RecentNames()  # Names of refused contexts. Messages for these contexts are ignored.
        self._commands: list[Command] = []
        self.send_queue = SendQueue()

    # --- Output.

    def commands(self) -> list[Command]:
        """Return and remove the pending commands."""
        commands = self._commands.copy()
        self._commands.clear()  # The list is cleared in place, because the utterances share it.
        return commands

    def take(self) -> Outgoing | None:
        """Remove and return the next message for the client, or None.

        No message follows a Close.
        """
        item = self.send_queue.take()
        if isinstance(item, AudioMessage) and (utterance := self.utterances.get(item.number)) is not None:
            utterance.sent_samples += item.samples
        return item

    @property
    def deadline(self) -> float | None:
        """Return the time of the next `tick` on the session's clock, or None after a Close."""
        return None if self.closed else min([self._timers.deadline(self._silence_s), *self._dues()])

    @property
    def is_congested(self) -> bool:
        """True if the client does not read its messages.

        Its input should not be read either.
        """
        return self.send_queue.is_congested

    # --- Input.

    def receive_text(self, text: str) -> None:
        """Process a text message."""
        if self.closed:
            return
        self._is_new = False
        self._timers.stirred()
        try:
            # A text may consist of commas only. Parsing an unlimited number of values would block the event loop.
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
        """Refuse a binary message.

        No API expects one from clients.
        """
        self.close_with(InvalidMessage(why="binary messages are not taken"), 1003)

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """Process an event of the engine.

        It is dropped if its utterance was aborted in the meantime.
        """
        utterance = self.utterances.get(number)
        if utterance is None:
            return
        match event:
            case Finished():
                del self.utterances[number]
                utterance.notes += end_notes(event)
            case Broken():
                del self.utterances[number]
            case Started(seed=seed, notes=notes):
                utterance.seed = seed
                utterance.notes += notes
            case AudioChunk(pcm=pcm):
                utterance.samples += len(pcm) // SAMPLE_BYTES
        self._on_event(utterance, event)

    def on_refused(self, number: int, error: SpeechError) -> None:
        """Process the engine's refusal of a Submit."""
        if (utterance := self.utterances.pop(number, None)) is not None:
            self._fail(utterance, error)

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """Process the result of a Decode or Recall command."""
        voice = self._reading.pop(number, None)
        if voice is not None and not self.closed:
            voice.reference = result
            self._on_voice_ready(voice)

    def tick(self) -> None:
        """Handle expired deadlines: speak text after a pause, or end the session at a timeout."""
        if self.closed:
            return
        self._check_deadlines(self._clock())
        if (error := self._timers.expired(self._silence_s)) is not None:
            self._expire(error)
        elif (remaining_s := self._timers.notice()) is not None:
            self._give_notice(remaining_s)

    def close_with(self, error: SpeechError, code: int) -> None:
        """End all speech and the session with a server error."""
        if not self.closed:
            self._abort_all(error)
            self._send_error(error)
            self._close(code, error.code)

    def on_disconnect(self) -> None:
        """Release all resources after a disconnect."""
        for utterance in tuple(self.utterances.values()):
            self._release(utterance)
        self.send_queue.clear()
        self.closed = True

    # --- Helpers of the subclasses.

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
            self.send_queue.drop_sound_of(utterance.number)
            utterance.samples = utterance.sent_samples

    def _chosen(
        self, config: Config, resolved: ResolvedVoice, recording: str | Reference | None = None
    ) -> ChosenVoice[Config]:
        """Return the chosen voice, and request its reference if it has one."""
        voice = ChosenVoice(config, resolved)
        if resolved.stored is None and isinstance(recording, Reference):
            voice.reference = recording
        elif resolved.stored is not None or (resolved.mode is Mode.BASE and recording is not None):
            voice.needs_reference = True
            self._uploads += 1
            self._reading[self._uploads] = voice
            if resolved.stored is not None:
                self._commands.append(Recall(self._uploads, resolved.stored, resolved.param))
            elif isinstance(recording, str):
                self._commands.append(Decode(self._uploads, recording))
        return voice

    def _send_sound(self, utterance: Speaking, pcm: bytes) -> None:
        for piece in pieces(pcm):
            self.send_queue.sound(piece, number=utterance.number, samples=len(piece) // SAMPLE_BYTES)

    def _send_about(self, name: str, message: Reply, *, number: int | None = None, samples: int = 0) -> None:
        """Queue a message that belongs to a context and can be dropped with its other messages."""
        self.send_queue.say(message, number=number, samples=samples, about=name)

    def _close(self, code: int, reason: str = "") -> None:
        self.send_queue.close(code, reason)
        self.closed = True

    # --- Methods that subclasses override.

    @property
    def _silence_s(self) -> float | None:
        """Return the idle timeout of the client in seconds, or None if none of its texts is open."""
        if not all(utterance.takes_text for utterance in self.utterances.values()):
            return None
        return self._limits.config_s if self._is_new else self._limits.idle_s

    def _dues(self) -> Iterator[float]:
        """Yield further times at which `tick` is due."""
        return (utterance.text.due for utterance in self.utterances.values() if utterance.text.due is not None)

    def _check_deadlines(self, now: float) -> None:
        """Process the times in `_dues` that are due."""
        for utterance in tuple(self.utterances.values()):
            if utterance.text.has_paused(now):
                utterance.flush()

    def _size_limit(self, fields: dict[str, Any]) -> int:
        """Return the maximum size of this message in bytes."""
        return self._limits.max_message_bytes

    @abstractmethod
    def _read(self, fields: dict[str, Any]) -> Any:
        """Validate a decoded message.

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
        """Report a failed utterance to the client and close it."""

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
        """Report to the client that every utterance has ended with this error."""
        for utterance in tuple(self.utterances.values()):
            self._release(utterance)
            self._fail(utterance, error)

    @abstractmethod
    def _send_error(self, error: SpeechError) -> None:
        """Report an error that does not belong to an utterance."""


class SingleErrorDialect(Dialect[Speaking]):
    """Session in which every error is sent once and then closes the socket."""

    def _fail(self, utterance: Speaking, error: SpeechError) -> None:
        self.close_with(error, error.close_code)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        self.close_with(error, error.close_code)

    def _abort_all(self, error: SpeechError) -> None:
        for utterance in tuple(self.utterances.values()):
            self._release(utterance)


class SessionTimers:
    """Timers of one session.

    `silence_s` is the current idle timeout, or None if there is no timeout.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float], *, gives_notice: bool = False) -> None:
        self._limits = limits
        self._clock = clock
        self._last_event = clock()
        self._end = clock() + limits.session_s
        # None if the dialect has no warning, or if the warning was sent.
        self._notice_s = min(_NOTICE_S, limits.session_s / 10) if gives_notice else None

    def stirred(self) -> None:
        """Restart the idle timer, because a message has arrived."""
        self._last_event = self._clock()

    def deadline(self, silence_s: float | None) -> float:
        """Return the time at which the timers must be checked again."""
        end = self._end - (self._notice_s or 0.0)
        return end if silence_s is None else min(end, self._last_event + silence_s)

    def expired(self, silence_s: float | None) -> Expired | None:
        """Return the timeout that ends the session now, or None.

        If several are due, the earliest is returned.
        """
        now = self._clock()
        if silence_s is not None and self._last_event + silence_s <= min(now, self._end):
            return SessionIdle(limit=silence_s)
        return SessionTooLong(limit=self._limits.session_s) if now >= self._end else None

    def notice(self) -> float | None:
        """Return the remaining seconds once, when the warning is due.

        Returns:
            None at other times.
        """
        now = self._clock()
        if self._notice_s is None or now < self._end - self._notice_s:
            return None
        self._notice_s = None
        return self._end - now
