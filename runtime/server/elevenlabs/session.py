"""Base session of ElevenLabs' WebSockets ``stream-input`` and ``multi-stream-input``.

A context is one streamed text and one audio stream, sent as base64 in JSON with estimated character times. The states
of a context are ``free -> open -> closed -> free``. The last message of a context is ``isFinal``, even after an error.
The URL of the socket contains the voice. Text is sent to the engine immediately.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from runtime.errors import InvalidMessage, SpeechError
from runtime.request import SAMPLE_RATE, AudioChunk, Broken, Finished, SpeechEvent
from runtime.server.elevenlabs import messages
from runtime.server.elevenlabs.audio_message_encoder import AudioMessageEncoder
from runtime.server.elevenlabs.chunk_schedule import DEFAULT_SCHEDULE_CHARS, ChunkSchedule
from runtime.server.elevenlabs.contexts import Context
from runtime.server.elevenlabs.schema import (
    ClientMessage,
    SocketOptions,
    read_message,
    resolve_voice,
    synthesis_options,
)
from runtime.server.session.dialect import Dialect
from runtime.server.session.utterance import StreamedText
from runtime.server.text.filter import create_text_filters
from runtime.server.text.pronunciations import all_pronunciations, dictionary_for
from runtime.server.wire import SAMPLE_BYTES, Reply, split_pcm
from runtime.shared.text.inline_tags import ReadText


class ElevenLabsSession(Dialect[Context]):
    """Base class of the sessions of ElevenLabs' two WebSocket routes.

    Raises:
        BadRequest: The voice does not exist.
    """

    def __init__(self, *, voice_id: str, options: SocketOptions, **common_arguments: Any) -> None:
        super().__init__(**common_arguments)
        self._cards = common_arguments["cards"]
        self._voice_id = voice_id
        self._options = options
        self._resolved(None)

    def _resolved(self, instructions: str | None) -> Any:
        return resolve_voice(self._voice_id, self._options.model_id, instructions, self._resolver)

    # --- Methods for timers.

    def _deadlines(self) -> Iterator[float]:
        for context in self.utterances.values():
            yield from context.deadlines
            if context.takes_text:
                yield context.last_activity + self._options.inactivity_timeout

    def _check_deadlines(self, now: float) -> None:
        for context in tuple(self.utterances.values()):
            if any(due <= now for due in context.deadlines):
                context.speak()
            elif context.takes_text and context.last_activity + self._options.inactivity_timeout <= now:
                self._leave_off(context)

    # --- Methods that process events of the engine.

    def _on_event(self, utterance: Context, event: SpeechEvent) -> None:
        self._timers.restart_idle()
        match event:
            case AudioChunk():
                self._send_audio(utterance, event.pcm)
            case Finished():
                self._end(utterance)
            case Broken():
                self._fail(utterance, event.error)

    def _send_audio(self, context: Context, pcm: bytes) -> None:
        for piece in split_pcm(pcm):
            samples = len(piece) // SAMPLE_BYTES
            context.pending_samples += samples
            context.count_audio(samples / SAMPLE_RATE / context.speed, self._clock())
            self._send(context, partial(context.encoder.encode_message, piece, context.words.advance(samples)))

    def _send(self, context: Context, make: Callable[[], Reply | None]) -> None:
        """Queue an audio message that a worker thread encodes, unless encoding is instant."""
        if not context.encoder.is_instant:
            self.send_queue.add_encoded(
                make, number=context.number, samples=context.pending_samples, about=context.name
            )
        elif (message := make()) is not None:
            self._send_about(context.name, message, number=context.number, samples=context.pending_samples)
        else:
            return
        context.pending_samples = 0

    def _end(self, context: Context) -> None:
        """Send the remaining audio and the last message of a context."""
        if context.samples:
            # The times of the remaining words are computed on a worker thread, because there may be many words.
            self.send_queue.add_encoded(
                lambda: context.encoder.finish(context.words.finish()),
                number=context.number,
                samples=context.pending_samples,
                about=context.name,
            )
        self._conclude(context)

    # --- Methods that process messages from the client.

    def _read(self, fields: dict[str, Any]) -> ClientMessage:
        return read_message(fields, self._limits)

    def _opened(self, name: str, message: ClientMessage) -> Context:
        options, now = self._options, self._clock()
        resolved = self._resolved(message.instructions)
        config = synthesis_options(message, options.language_code, options.seed, resolved, self._cards)
        pause_s = self._limits.max_buffer_delay_ms / 1000
        dictionary = dictionary_for(all_pronunciations(message, self._library), self._limits, tags=message.tags)
        filters = create_text_filters(message.text_filter or "markdown", dictionary, spells=True)
        text = StreamedText(self._limits, filters, pause_s)
        lengths = message.generation_config.chunk_length_schedule
        context = Context(
            self._commands,
            self._chosen(config, resolved),
            text,
            name=name,
            speed=message.speed,
            encoder=AudioMessageEncoder(
                options.format, message.speed, label=self._label(name), is_relative=not options.sync_alignment
            ),
            schedule=None if options.auto_mode else ChunkSchedule(lengths or DEFAULT_SCHEDULE_CHARS),
            last_activity=now,
            read=ReadText(self._limits, brackets=message.tags),
        )
        return self._number(context)

    def _process_message(self, context: Context, message: ClientMessage) -> None:
        """Append the text of a message to an open context."""
        now = self._clock()
        context.add_message(message, now)
        if any(due <= now for due in context.deadlines):
            context.speak()

    def _close_context(self, context: Context) -> None:
        """Mark the text of a context as complete, and end a context without words."""
        context.close()
        if not context.is_submitted and not context.is_readable:
            self.utterances.pop(context.number)
            self._conclude(context)

    # --- Methods that each of the two WebSocket routes implements differently.

    @abstractmethod
    def _label(self, name: str) -> str | None:
        """Return the ``contextId`` for messages of the context `name`, or None."""

    @abstractmethod
    def _conclude(self, context: Context) -> None:
        """Send the last message of a closed context."""

    @abstractmethod
    def _leave_off(self, context: Context) -> None:
        """End a context after its idle timeout."""

    def _send_error(self, error: SpeechError) -> None:
        self.send_queue.add_message(messages.error(error))

    def _refuse_no_json(self, text: str, error: InvalidMessage) -> None:
        self.close_with(error, messages.close_code(error))
