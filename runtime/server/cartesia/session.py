"""Session of Cartesia's ``/tts/websocket``.

A context is one streamed text and one audio stream, sent as base64 in JSON. A socket can have several contexts. The
states of a context are ``free -> open -> complete -> free``. The last message of a context is ``done`` or ``error``. A
cancelled context gets no last message, because Cartesia's client would attribute it to its current context. A context
expires if all its text has been spoken and no more text arrives.

Text is sent to the engine immediately. A flush ends the engine request and starts another request with the same voice
and seed, so that ``flush_done`` can follow the flushed audio. Every message has a ``context_id``, because clients read
this field first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtime.errors import BadRequest, InvalidConfig, OutOfOrder, SpeechError, TooManyContexts
from runtime.request import AudioChunk, Broken, Finished, SpeechEvent, WaitingForText
from runtime.server.cartesia import messages
from runtime.server.cartesia.contexts import Context, Segment
from runtime.server.cartesia.schema import Generation, read_generation
from runtime.server.session.dialect import Dialect, RecentNames
from runtime.server.session.utterance import StreamedText
from runtime.server.text.filter import create_text_filters
from runtime.server.text.pronunciations import all_pronunciations, dictionary_for
from runtime.server.wire import SAMPLE_BYTES, split_pcm
from runtime.shared.text.inline_tags import ReadText
from runtime.shared.text.speech_rate import is_readable
from runtime.shared.text.word_times import TimedWords, WordTimes

_IDLE_S = 300.0  # Idle timeout in seconds of Cartesia's API, which its clients expect.
_MAX_SEGMENTS = 64  # Maximum number of segments that wait in a context.


class CartesiaSession(Dialect[Segment]):
    """Session of one client in Cartesia's API."""

    def __init__(self, *, session_id: str, expiry_s: float, **common_arguments: Any) -> None:
        super().__init__(**common_arguments)
        self._id = session_id
        self._expiry_s = expiry_s
        self._contexts: dict[str, Context] = {}
        self._cancelled = RecentNames()  # Names of cancelled contexts. Messages for them may still arrive.

    # --- Methods for timers.

    @property
    def _silence_s(self) -> float | None:
        """Return the idle timeout in seconds, or None while a complete text is being spoken.

        The timeout is shorter if a context is open, because the context may hold a slot.
        """
        if any(context.is_complete for context in self._contexts.values()):
            return None
        return self._limits.idle_s if self._contexts else max(_IDLE_S, self._limits.idle_s)

    def _deadlines(self) -> Iterator[float]:
        for context in self._contexts.values():
            for due in (context.pause_due, context.expires_at(self._expiry_s)):
                if due is not None:
                    yield due

    def _check_deadlines(self, now: float) -> None:
        for context in tuple(self._contexts.values()):
            if context.pause_due is not None and context.text.pause.has_paused(now):
                context.head.queue_text(context.text.flush())
                self._emit_progress(context, is_flushed=True)
        for context in tuple(self._contexts.values()):
            expires_at = context.expires_at(self._expiry_s)
            if expires_at is not None and expires_at <= now:
                self._end_unfinished(context)

    # --- Methods that process events of the engine.

    def _on_event(self, utterance: Segment, event: SpeechEvent) -> None:
        self._timers.restart_idle()
        context = utterance.context
        match event:
            case AudioChunk():
                self._send_audio(context, event.pcm)
            case WaitingForText(chars):
                if chars == utterance.sent_chars:
                    context.short_since = self._clock()
            case Finished():
                context.note(utterance.notes)
                self._end_segment(context)
                self._emit_progress(context)
                if context.short_since is None and context.segments and not context.head.is_submitted:
                    context.short_since = self._clock()
            case Broken():
                self._fail(utterance, event.error)

    def _fail(self, utterance: Segment, error: SpeechError) -> None:
        context = self._contexts.pop(utterance.context.name)
        self._refuse(context.name, error, goes_on=not context.is_complete)

    # --- Methods that process messages from the client.

    def _read(self, fields: dict[str, Any]) -> Generation:
        return read_generation(fields, self._limits)

    def _handle(self, message: Generation) -> None:
        if message.cancel:
            self._cancel(message.context_id)
            return
        if message.context_id is None and message.goes_on:
            self._send_error(
                InvalidConfig(where="context_id", why="a text in several parts needs a context_id", param="context_id")
            )
            return
        name = message.context_id or f"context-{self._uttered + 1}"
        if name in self._muted:
            if not message.goes_on:
                self._muted.forget(name)
            return
        context = self._contexts.get(name)
        is_blank = not message.transcript.strip()
        if context is None and is_blank and not message.goes_on:
            if name not in self._cancelled:
                self._send_about(name, messages.done(name))  # A context without text ends immediately.
            self._cancelled.forget(name)
            return
        if context is not None and context.is_complete:
            if not is_blank:  # If the context has already ended, an empty message has no effect.
                error = OutOfOrder(what="transcript", why="the text of that context is already complete")
                self._send_about(name, {**messages.error(error, name, self._id), "done": False})
            return
        try:
            self._extend(context or self._opened(name, message), message)
        except BadRequest as refusal:
            self._refuse(name, refusal, goes_on=message.goes_on)

    def _opened(self, name: str, message: Generation) -> Context:
        if len(self._contexts) >= self._limits.max_contexts:
            raise TooManyContexts(limit=self._limits.max_contexts)
        resolved = message.resolve_voice(self._resolver)
        self._cancelled.forget(name)
        dictionary = dictionary_for(all_pronunciations(message, self._library), self._limits, tags=False)
        context = self._contexts[name] = Context(
            name=name,
            voice=self._chosen(message, resolved),
            writer=message.output_format.writer(),
            words=WordTimes() if message.add_timestamps else None,
            read=ReadText(self._limits, brackets=False),
            text=StreamedText(
                self._limits,
                create_text_filters(message.filter_name, dictionary, spells=True),
                message.pause_s,
                param="transcript",
            ),
            last_input_at=self._clock(),
        )
        segment = Segment(self._commands, context.voice, context.text, context=context)
        context.segments.append(self._number(segment))
        return context

    def _extend(self, context: Context, message: Generation) -> None:
        context.text.count(message.transcript)
        last = context.segments[-1]
        context.text.pause.restart(message.transcript, self._clock())
        spoken = context.text.feed_text(message.transcript)
        if not message.goes_on:
            context.text.pause.settle()
            spoken += context.text.finish()
        elif message.speaks_at_once:
            spoken += context.text.flush()
            context.text.pause.settle()
        last.queue_text(spoken)
        if message.transcript.strip() and context.short_since is not None:
            # If the new text has no words to speak, for example because it is code, the context still waits for text.
            context.short_since = None if spoken.strip() else self._clock()
        if message.flush:
            if len(context.segments) >= _MAX_SEGMENTS:
                raise OutOfOrder(what="flush", why=f"{_MAX_SEGMENTS} flushes of that context are already waiting")
            context.end_segment(is_flushed=True)
        if not message.goes_on:
            context.segments[-1].is_complete = True
            context.is_complete = True
        self._emit_progress(context, is_flushed=message.speaks_at_once)
        if last.queued and not last.is_complete and message.speaks_at_once:
            # The space separates the last word from the text that arrives before the voice is ready.
            last.queue_text(" ")

    def _cancel(self, name: str | None) -> None:
        if name is None:
            return
        self._muted.forget(name)
        self.send_queue.drop_context(name)  # A queued final message of the context is also dropped.
        if context := self._contexts.pop(name, None):
            self._release(context.head)
            if not context.is_complete:
                self._cancelled.remember(name)

    # --- Methods that manage contexts and send their audio.

    def _send_text(self, utterance: Segment) -> None:
        self._emit_progress(utterance.context)

    def _emit_progress(self, context: Context, *, is_flushed: bool = False) -> None:
        """Send queued text to the engine if the text contains words and the voice is ready.

        A complete segment without words ends immediately.
        """
        while context.segments and (head := context.head).is_complete and not (head.is_submitted or head.is_readable):
            self._end_segment(context)
        if not context.segments:
            return
        queued_text = "".join(piece or "" for piece in context.head.queued)
        context.head.send_text(is_flushed=is_flushed)
        if context.words is not None and not context.head.queued:
            context.words.append_text(context.read.feed_text(queued_text))

    def _end_unfinished(self, context: Context) -> None:
        """End a context that waits for text, after speaking the text in the filter's buffer."""
        if is_readable(rest := context.text.flush()):
            context.head.queue_text(rest)
            context.short_since = None
            self._emit_progress(context)
        elif context.head.is_submitted:
            context.end_segment()
            self._emit_progress(context)
        else:
            self._end(context)

    def _send_audio(self, context: Context, pcm: bytes) -> None:
        context.short_since = None
        for piece in split_pcm(pcm):
            samples = len(piece) // SAMPLE_BYTES
            context.pending_samples += samples
            self._send(context, context.writer.encode_pcm(piece))
            if context.words is not None:
                self._time(context, context.words.advance(samples))

    def _send(self, context: Context, data: bytes) -> None:
        if data:
            now = self._clock()
            message = messages.chunk(context, data, (now - context.last_input_at) * 1000)
            self._send_about(context.name, message, number=context.head.number, samples=context.pending_samples)
            context.last_input_at = now
            context.pending_samples = 0

    def _time(self, context: Context, times: TimedWords) -> None:
        if times.words:
            self._send_about(context.name, messages.timestamps(context, times), number=context.head.number)

    def _end_segment(self, context: Context) -> None:
        """Report the end of the first segment's audio, and start the next segment.

        The context ends after the last segment.
        """
        self._send(context, context.writer.finish())
        if context.words is not None:
            context.words.append_text(context.read.finish())
            self._time(context, context.words.finish())
        ended = context.segments.popleft()
        self.utterances.pop(ended.number, None)
        if ended.is_flushed:
            self._send_about(context.name, messages.flush_done(context.name, ended.flush_id))
        if context.segments:
            self._number(context.head).seed = ended.seed  # All segments of a context have the seed of the first one.
            context.writer = context.voice.config.output_format.writer()
        else:
            self._end(context)

    def _end(self, context: Context) -> None:
        del self._contexts[context.name]
        for segment in context.segments:
            self.utterances.pop(segment.number, None)
        self._send_about(context.name, messages.done(context.name, context.notes))

    # --- Methods that send error messages.

    def _send_error(self, error: SpeechError) -> None:
        self.send_queue.add_message(messages.error(error, None, self._id))

    def _refuse(self, name: str, error: SpeechError, *, goes_on: bool) -> None:
        """End a context with an error.

        If `goes_on` is True, the client may send more messages of the context, and they are ignored.
        """
        if context := self._contexts.pop(name, None):
            self._release(context.head)
        if goes_on:
            self._muted.remember(name)
        self._send_about(name, messages.error(error, name, self._id))

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        name = fields.get("context_id")
        if not isinstance(name, str):
            self._send_error(error)
            return
        goes_on = fields.get("continue") is True
        if name not in self._muted:
            self._refuse(name, error, goes_on=goes_on)
        elif not goes_on:
            self._muted.forget(name)
