"""Speaks Cartesia's ``/tts/websocket`` as a state machine without input or output of its own.

A context is one growing text and one stream of sound, sent as base64 in JSON; several share a socket. It is ``free ->
open -> complete -> free`` and gets exactly one last message, ``done`` or ``error``, unless it is cancelled: then it
gets none, because Cartesia's client has forgotten the name by then and takes a ``done`` of a stranger for the end of
what it listens to. One that has been heard as far as its text goes expires if no more text comes. Its text goes to the
engine as it comes; a flush ends a request and begins the next, in the same voice and with the same seed, so that
``flush_done`` comes after the sound of what was flushed. Every message bears a ``context_id``, because clients look
for it before anything else. Thread: event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime import errors
from runtime.errors import SpeechError
from runtime.request import (
    AudioChunk,
    Broken,
    Finished,
    ModelCard,
    Queued,
    Reference,
    ShortOfText,
    SpeechEvent,
    Started,
)
from runtime.server.cartesia import contexts as replies
from runtime.server.cartesia.contexts import Context, RecentNames
from runtime.server.cartesia.schema import Generation, read_generation
from runtime.server.cartesia.word_times import TimedWords, WordTimes
from runtime.server.commands import Append, Cancel, Command, FinishText, Flush, Outgoing, Recall, Submit
from runtime.server.native import schema
from runtime.server.native.replies import BYTES_PER_SAMPLE, PIECE_BYTES, Reply
from runtime.server.plain_send_queue import PlainSendQueue
from runtime.server.text_filter import text_filter
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import VoiceResolver
from runtime.settings import Limits
from runtime.shared.speech_rate import is_speakable

_IDLE_S = 300.0  # Cartesia's own: clients keep a socket ready for as long
_MAX_SEGMENTS = 64  # of one context, that wait for their turn
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
        expiry_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.closed = False
        self._limits = limits
        self._resolver = VoiceResolver(cards, library)
        self._models = frozenset(card.name for card in cards)
        self._id = session_id
        self._expiry_s = expiry_s
        self._clock = clock
        self._began = self._last_event = clock()
        self._open: dict[str, Context] = {}
        self._muted = RecentNames(_MAX_NAMES)  # refused: all that was sent meanwhile is ignored, up to its end
        self._cancelled = RecentNames(_MAX_NAMES)  # an end that was sent meanwhile is ignored
        self._numbers = 0
        self._commands: list[Command] = []
        self._send_queue = PlainSendQueue()

    # --- what comes out

    def commands(self) -> list[Command]:
        """Return what the process must do now; each command once."""
        commands, self._commands = self._commands, []
        return commands

    def take(self) -> Outgoing | None:
        """Return what goes to the client next, or None. After a Close there is nothing more."""
        return self._send_queue.take()

    @property
    def deadline(self) -> float | None:
        """When `tick` is due: the end of the session, or before it the time that its client may be silent."""
        if self.closed:
            return None
        lulls = [one.lull.due for one in self._open.values() if one.may_pause and one.lull.due is not None]
        expiries = [at for one in self._open.values() if (at := one.expires_at(self._expiry_s)) is not None]
        end = min([self._began + self._limits.session_s, *lulls, *expiries])
        if any(one.is_complete for one in self._open.values()):
            return end
        # A context that is still open may hold a slot, a socket without any holds nothing.
        return min(end, self._last_event + self._idle_limit_s)

    @property
    def is_congested(self) -> bool:
        """The client does not take its replies; read no more of it until it does."""
        return self._send_queue.is_congested

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
            case Queued():
                pass  # there is no message for it
            case Started():
                one.seed = event.seed
            case AudioChunk():
                self._hear(one, event.pcm)
            case ShortOfText(chars):
                if chars == one.head.told_chars:
                    one.short_since = self._clock()
            case Finished():
                self._end_segment(one)
                self._tell(one)
                if one.short_since is None and one.segments and not one.head.is_submitted:
                    one.short_since = self._clock()
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
        """Speak the sentences that nothing has followed; end what has expired; close the session at its deadline."""
        if self.deadline is None or self._clock() < self.deadline:
            return
        lulls = [one for one in self._open.values() if one.may_pause and one.lull.has_come(self._clock())]
        for one in lulls:
            one.head.pending += one.filter.flush()
            self._tell(one, is_flushed=True)
        expiries = [(one, one.expires_at(self._expiry_s)) for one in self._open.values()]
        expired = [one for one, at in expiries if at is not None and at <= self._clock()]
        for one in expired:
            self._expire(one)
        if lulls or expired:
            return
        if self._clock() >= self._began + self._limits.session_s:
            self.shut(errors.SessionTooLong(limit=self._limits.session_s), 1008)
        else:
            self.shut(errors.SessionIdle(limit=self._idle_limit_s), 1008)

    def shut(self, error: SpeechError, code: int) -> None:
        """End every context and the session because the server must."""
        if self.closed:
            return
        for one in tuple(self._open.values()):
            self._release(one)
            self._say(one.name, replies.error(error, one.name, self._id), is_end=True)
        self._send_queue.say(replies.error(error, None, self._id))
        self._send_queue.close(code, error.code)
        self.closed = True

    def gone(self) -> None:
        """Give everything back: the client is not there any more."""
        for one in tuple(self._open.values()):
            self._release(one)
        self._send_queue.clear()
        self.closed = True

    # --- the client's messages

    def _generate(self, message: Generation) -> None:
        if message.context_id is None and message.goes_on:
            error: SpeechError = errors.InvalidConfig(
                where="context_id", why="a text that goes on needs one", param="context_id"
            )
            self._send_queue.say(replies.error(error, None, self._id))
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
        resolved = message.resolve_voice(self._resolver, self._models)
        self._cancelled.discard(name)
        self._numbers += 1
        one = self._open[name] = Context(
            number=self._numbers,
            name=name,
            how=message,
            resolved=resolved,
            writer=message.output_format.writer(),
            words=WordTimes() if message.add_timestamps else None,
            lull=message.lull,
            filter=text_filter(message.filter_name),
            said_at=self._clock(),
        )
        if resolved.stored is not None:
            self._commands.append(Recall(one.number, resolved.stored))
        return one

    def _extend(self, one: Context, message: Generation) -> None:
        one.chars += len(message.transcript)
        limit = self._limits.max_text_chars
        if one.chars > limit:
            raise errors.TextTooLong(count=one.chars, unit="characters", limit=limit, param="transcript")
        last = one.segments[-1]
        text = one.tags.add(message.transcript)
        if message.speaks_at_once or not message.goes_on:
            text += one.tags.finish()
            one.lull.over()
        else:
            one.lull.heard(text, self._clock())
        spoken = one.filter.add(text)
        if not message.goes_on:
            spoken += one.filter.finish()
        elif message.speaks_at_once:
            spoken += one.filter.flush()
        last.pending += spoken
        if message.transcript.strip() and one.short_since is not None:
            # The engine does not hear of text of which nothing is spoken, such as code, and says nothing of it again.
            one.short_since = None if spoken.strip() else self._clock()
        if message.flush:
            if len(one.segments) >= _MAX_SEGMENTS:
                raise errors.OutOfOrder(what="flush", why=f"{_MAX_SEGMENTS} flushes of that context wait already")
            one.flush()
        if not message.goes_on:
            one.is_complete = one.segments[-1].is_complete = True
        self._tell(one, is_flushed=message.speaks_at_once)
        if last.pending and not last.is_complete and message.speaks_at_once:
            last.pending += " "  # it waits for its voice; what comes next is no part of its last word

    def _cancel(self, name: str | None) -> None:
        if name is None:
            return
        self._muted.discard(name)
        self._send_queue.drop_all_about(name)  # its last message too, if it was to have one by now
        if one := self._open.get(name):
            self._release(one)
            if not one.is_complete:
                self._cancelled.add(name)

    # --- contexts

    @property
    def _idle_limit_s(self) -> float:
        return self._limits.idle_s if self._open else max(_IDLE_S, self._limits.idle_s)

    def _by_number(self, number: int) -> Context | None:
        return next((one for one in self._open.values() if one.number == number), None)

    def _tell(self, one: Context, *, is_flushed: bool = False) -> None:
        """Hand the engine the text that it has not got, as soon as there is something to speak and a voice for it."""
        while one.segments and (head := one.head).is_complete and not head.is_submitted:
            if is_speakable(head.pending):
                break
            self._end_segment(one)
        if not one.segments or head.is_told:
            return
        if not head.is_submitted and (not one.is_ready or not is_speakable(head.pending)):
            return
        if one.words is not None:
            one.words.add(head.pending)
        if not head.is_submitted:
            self._commands.append(Submit(one.number, one.request()))
        elif head.pending:
            self._commands.append(Append(one.number, head.pending))
        if head.is_complete and head.is_submitted:
            self._commands.append(FinishText(one.number))
        elif is_flushed and not head.is_complete:
            self._commands.append(Flush(one.number))
        head.told_chars += len(head.pending)
        head.pending = ""
        head.is_submitted = True
        head.is_told = head.is_complete

    def _expire(self, one: Context) -> None:
        """End a context that waits for text: at once, or, for its slot, once the engine has ended its request.

        What the filter holds of it is spoken before that.
        """
        if is_speakable(held := one.filter.flush()):
            one.head.pending += held
            one.short_since = None
            self._tell(one)
            return
        if one.head.is_submitted:
            one.end_segment()
            self._tell(one)
        else:
            self._end(one)

    def _hear(self, one: Context, pcm: bytes) -> None:
        one.short_since = None
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
        one.said_at = now
        one.owed_samples = 0

    def _time(self, one: Context, times: TimedWords) -> None:
        if times.words:
            self._say(one.name, replies.timestamps(one, times), number=one.number)

    def _end_segment(self, one: Context) -> None:
        """Say that all of the head's sound was sent; the next is the head then, or the context has ended."""
        self._send(one, one.writer.finish())
        if one.words is not None:
            self._time(one, one.words.finish())
        ended = one.segments.popleft()
        if ended.is_flushed:
            self._say(one.name, replies.flush_done(one.name, ended.flush_id))
        if one.segments:
            self._numbers += 1
            one.number = self._numbers
            one.writer = one.how.output_format.writer()
        else:
            self._end(one)

    def _end(self, one: Context) -> None:
        del self._open[one.name]
        self._say(one.name, replies.done(one.name), is_end=True)

    def _fail(self, one: Context, error: SpeechError) -> None:
        self._open.pop(one.name, None)
        self._refuse(one.name, error, goes_on=not one.is_complete)

    def _release(self, one: Context) -> None:
        """Give the context's slot back; its sound that was not taken yet goes too."""
        del self._open[one.name]
        if one.head.is_submitted:
            self._commands.append(Cancel(one.number))
        self._send_queue.drop_sound_of(one.number)

    def _say(
        self, name: str, message: Reply, *, number: int | None = None, samples: int = 0, is_end: bool = False
    ) -> None:
        """Queue a message about a context."""
        self._send_queue.say(message, number=number, samples=samples, is_end=is_end, about=name)

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
            self._send_queue.say(replies.error(error, None, self._id))
        elif name not in self._muted:
            self._refuse(name, error, goes_on=fields.get("continue") is True)
