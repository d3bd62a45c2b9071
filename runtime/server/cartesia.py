"""Cartesia's ``/tts/websocket`` as a state machine without input or output of its own.

A context is one growing text and one stream of sound, sent as base64 in JSON; several share a socket. It is
``free -> open -> complete -> free`` and gets exactly one last message, ``done`` or ``error``, unless it is cancelled:
then it gets none, because Cartesia's client has forgotten the name by then and takes a ``done`` of a stranger for the
end of what it listens to. Its text goes to the engine as it comes. Every message bears a ``context_id``, because
clients look for it before anything else. Thread: event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime import errors
from runtime.errors import SpeechError
from runtime.request import AudioChunk, Broken, Finished, ModelCard, Queued, Reference, SpeechEvent, Started
from runtime.server import cartesia_contexts as replies
from runtime.server import schema
from runtime.server.cartesia_contexts import Context, RecentNames
from runtime.server.cartesia_schema import Generation, read_generation
from runtime.server.casting import Casting
from runtime.server.effects import Append, Cancel, Command, FinishText, Flush, Outgoing, Recall, Submit
from runtime.server.pcm_formats import PcmWriter
from runtime.server.replies import BYTES_PER_SAMPLE, PIECE_BYTES, Reply
from runtime.server.spool import Spool
from runtime.server.voice_library import VoiceLibrary
from runtime.server.word_times import TimedWords, WordTimes
from runtime.settings import Limits
from runtime.speech_rate import is_speakable

_IDLE_S = 300.0  # Cartesia's own: clients keep a socket ready for as long
_MAX_NAMES = 64  # of ended contexts for which messages may still be on their way


class CartesiaSession:
    """One client on one socket."""

    def __init__(
        self,
        *,
        limits: Limits,
        cards: Sequence[ModelCard],
        library: VoiceLibrary,
        session_id: str,
        clock: Callable[[], float],
    ) -> None:
        self.closed = False
        self._limits = limits
        self._casting = Casting(cards, library)
        self._models = frozenset(card.name for card in cards)
        self._id = session_id
        self._clock = clock
        self._began = self._last_event = clock()
        self._open: dict[str, Context] = {}
        self._muted = RecentNames(_MAX_NAMES)  # refused: all that was sent meanwhile is ignored, up to its end
        self._cancelled = RecentNames(_MAX_NAMES)  # an end that was sent meanwhile is ignored
        self._numbers = 0
        self._commands: list[Command] = []
        self._spool = Spool()

    # --- what comes out

    def commands(self) -> list[Command]:
        """Return what the process must do now; each command once."""
        commands, self._commands = self._commands, []
        return commands

    def take(self) -> Outgoing | None:
        """Return what goes to the client next, or None. After a Close there is nothing more."""
        return self._spool.take()

    @property
    def deadline(self) -> float | None:
        """When `tick` is due: the end of the session, or before it of our patience with who says nothing."""
        if self.closed:
            return None
        end = self._began + self._limits.session_s
        if any(one.is_complete for one in self._open.values()):
            return end
        # A context that is still open may hold a slot, a socket without any holds nothing.
        return min(end, self._last_event + self._patience)

    @property
    def is_congested(self) -> bool:
        """The client does not take its replies; read no more of it until it does."""
        return self._spool.is_congested

    # --- what goes in

    def receive_text(self, text: str) -> None:
        """Take a text message."""
        if self.closed:
            return
        self._last_event = self._clock()
        try:
            fields = schema.decode(text)
        except errors.InvalidMessage as error:
            self.shut(error, 1007)
            return
        try:
            schema.check_size(text, self._limits.max_message_bytes)
            message = read_generation(fields, self._limits)
        except errors.BadRequest as error:
            self._refuse_message(fields, error)
            return
        if message.cancel:
            self._cancel(message.context_id)
        else:
            self._generate(message)

    def receive_bytes(self) -> None:
        """Take a binary message; the client has none to send."""
        self.shut(errors.InvalidMessage(why="binary messages are not taken"), 1003)

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """Take an event of the engine; one of a context that was cancelled meanwhile is dropped."""
        one = self._by_number(number)
        if one is None:
            return
        self._last_event = self._clock()
        match event:
            case Queued() | Started():
                pass  # there is no message for it
            case AudioChunk():
                self._hear(one, event.pcm)
            case Finished():
                self._finish(one)
            case Broken():
                self._fail(one, event.error)

    def on_refused(self, number: int, error: SpeechError) -> None:
        """Take the engine's refusal of a Submit."""
        if one := self._by_number(number):
            self._fail(one, error)

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """Take what a Recall brought."""
        one = self._by_number(number)
        if one is None:
            return
        if isinstance(result, SpeechError):
            self._fail(one, result)
        else:
            one.reference = result
            self._tell(one)

    def tick(self) -> None:
        """Close the session if its deadline has passed."""
        if self.deadline is None or self._clock() < self.deadline:
            return
        if self._clock() >= self._began + self._limits.session_s:
            self.shut(errors.SessionTooLong(limit=self._limits.session_s), 1008)
        else:
            self.shut(errors.SessionIdle(limit=self._patience), 1008)

    def shut(self, error: SpeechError, code: int) -> None:
        """End every context and the session because the server must."""
        if self.closed:
            return
        for one in tuple(self._open.values()):
            self._release(one)
            self._say(one.name, replies.error(error, one.name, self._id), is_end=True)
        self._spool.say(replies.error(error, None, self._id))
        self._spool.close(code, error.code)
        self.closed = True

    def gone(self) -> None:
        """Give everything back: the client is not there any more."""
        for one in tuple(self._open.values()):
            self._release(one)
        self._spool.clear()
        self.closed = True

    # --- the client's messages

    def _generate(self, message: Generation) -> None:
        if message.context_id is None and message.goes_on:
            error: SpeechError = errors.InvalidConfig(
                where="context_id", why="a text that goes on needs one", param="context_id"
            )
            self._spool.say(replies.error(error, None, self._id))
            return
        name = message.context_id or f"context-{self._numbers + 1}"
        if name in self._muted:
            if not message.goes_on:
                self._muted.discard(name)
            return
        one = self._open.get(name)
        is_blank = not message.transcript.strip()
        if one is None and is_blank and not message.goes_on:
            if name not in self._cancelled:
                self._say(name, replies.done(name), is_end=True)  # the end of a text that never was
            self._cancelled.discard(name)
            return
        if one is not None and one.is_complete:
            if not is_blank:  # a second end is none
                error = errors.OutOfOrder(what="transcript", why="the text of that context was said to be complete")
                self._say(name, {**replies.error(error, name, self._id), "done": False})
            return
        try:
            self._extend(one or self._opened(name, message), message)
        except errors.BadRequest as refusal:
            self._refuse(name, refusal, goes_on=message.goes_on)

    def _opened(self, name: str, message: Generation) -> Context:
        if len(self._open) >= self._limits.max_contexts:
            raise errors.TooManyContexts(limit=self._limits.max_contexts)
        role = message.cast(self._casting, self._models)
        form = message.output_format
        self._cancelled.discard(name)
        self._numbers += 1
        one = self._open[name] = Context(
            number=self._numbers,
            name=name,
            how=message,
            role=role,
            writer=PcmWriter(form.encoding, form.sample_rate),
            words=WordTimes() if message.add_timestamps else None,
            said_at=self._clock(),
        )
        if role.stored is not None:
            self._commands.append(Recall(one.number, role.stored))
        return one

    def _extend(self, one: Context, message: Generation) -> None:
        one.chars += len(message.transcript)
        limit = self._limits.max_text_chars
        if one.chars > limit:
            raise errors.TextTooLong(count=one.chars, unit="characters", limit=limit, param="transcript")
        one.pending += message.transcript
        if one.words is not None:
            one.words.add(message.transcript)
        if message.flush:
            one.flushes += 1
            self._say(one.name, replies.flush_done(one))
        if message.goes_on:
            self._tell(one, is_flushed=message.speaks_at_once)
        else:
            one.is_complete = True
            self._tell(one)
        if one.pending and message.speaks_at_once:
            one.pending += " "  # it waits for its voice; what comes next is no part of its last word

    def _cancel(self, name: str | None) -> None:
        if name is None:
            return
        self._muted.discard(name)
        self._spool.drop_all_about(name)  # its last message too, if it was to have one by now
        if one := self._open.get(name):
            self._release(one)
            if not one.is_complete:
                self._cancelled.add(name)

    # --- contexts

    @property
    def _patience(self) -> float:
        return self._limits.idle_s if self._open else max(_IDLE_S, self._limits.idle_s)

    def _by_number(self, number: int) -> Context | None:
        return next((one for one in self._open.values() if one.number == number), None)

    def _tell(self, one: Context, *, is_flushed: bool = False) -> None:
        """Hand the engine the text that it has not got, as soon as there is something to speak and a voice for it."""
        if not one.is_submitted:
            if one.is_complete and not is_speakable(one.pending):
                self._finish(one)
                return
            if not one.is_ready or not is_speakable(one.pending):
                return
            one.is_submitted = True
            self._commands.append(Submit(one.number, one.request()))
            if one.is_complete:
                return
        elif one.pending:
            self._commands.append(Append(one.number, one.pending))
        one.pending = ""
        if one.is_complete:
            self._commands.append(FinishText(one.number))
        elif is_flushed:
            self._commands.append(Flush(one.number))

    def _hear(self, one: Context, pcm: bytes) -> None:
        for start in range(0, len(pcm), PIECE_BYTES):
            piece = pcm[start : start + PIECE_BYTES]
            samples = len(piece) // BYTES_PER_SAMPLE
            one.owed_samples += samples
            self._send(one, one.writer.add(piece))
            if one.words is not None:
                self._time(one, one.words.hear(samples))

    def _send(self, one: Context, data: bytes) -> None:
        if not data:
            return
        now = self._clock()
        message = replies.chunk(one, data, (now - one.said_at) * 1000)
        self._say(one.name, message, number=one.number, samples=one.owed_samples)
        one.said_at, one.owed_samples = now, 0

    def _time(self, one: Context, times: TimedWords) -> None:
        if times.words:
            self._say(one.name, replies.timestamps(one, times), number=one.number)

    def _finish(self, one: Context) -> None:
        self._send(one, one.writer.finish())
        if one.words is not None:
            self._time(one, one.words.finish())
        self._open.pop(one.name, None)
        self._say(one.name, replies.done(one.name), is_end=True)

    def _fail(self, one: Context, error: SpeechError) -> None:
        self._open.pop(one.name, None)
        self._refuse(one.name, error, goes_on=not one.is_complete)

    def _release(self, one: Context) -> None:
        """Give the context's slot back; its sound that was not taken yet goes too."""
        del self._open[one.name]
        if one.is_submitted:
            self._commands.append(Cancel(one.number))
        self._spool.drop_sound_of(one.number)

    def _say(
        self, name: str, message: Reply, *, number: int | None = None, samples: int = 0, is_end: bool = False
    ) -> None:
        """Queue a message about a context."""
        self._spool.say(message, number=number, samples=samples, is_end=is_end, about=name)

    # --- refusals

    def _refuse(self, name: str, error: SpeechError, *, goes_on: bool) -> None:
        """Refuse a context, whether it is open or not; what the client had sent for it already is ignored."""
        if one := self._open.get(name):
            self._release(one)
        if goes_on:
            self._muted.add(name)
        self._say(name, replies.error(error, name, self._id), is_end=True)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        name = fields.get("context_id")
        if not isinstance(name, str):
            self._spool.say(replies.error(error, None, self._id))
        elif name not in self._muted:
            self._refuse(name, error, goes_on=fields.get("continue") is True)
