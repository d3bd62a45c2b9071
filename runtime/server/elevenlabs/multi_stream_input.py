"""Session of ElevenLabs' ``multi-stream-input``: several contexts on one socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.errors import BadRequest, OutOfOrder, SpeechError, TooManyContexts
from runtime.server.elevenlabs import messages
from runtime.server.elevenlabs.contexts import Context
from runtime.server.elevenlabs.schema import ClientMessage
from runtime.server.elevenlabs.session import ElevenLabsSession

_DEFAULT_CONTEXT = "default"  # Name of the context that is used by messages without a context id.


class MultiStreamInputSession(ElevenLabsSession):
    """Session with several contexts on one socket.

    An error ends only the affected context. The first `close_context` marks the text as complete, and the remaining
    text is spoken. A second `close_context` stops the context, because clients such as Pipecat send a second one only
    if the user has interrupted the speech.
    """

    def __init__(self, **common_arguments: Any) -> None:
        super().__init__(**common_arguments)
        self._is_leaving = False

    @property
    def _silence_s(self) -> float | None:
        """Return the idle timeout in seconds, or None if a context with its own timeout is open."""
        return None if self.utterances else max(self._limits.idle_s, self._options.inactivity_timeout)

    def _handle(self, message: ClientMessage) -> None:
        name = message.context_id or _DEFAULT_CONTEXT
        context = self._named(name)
        if message.close_socket:
            self._leave()
        elif self._is_leaving:
            return
        elif name in self._muted:
            if message.close_context:
                self._muted.forget(name)
        elif message.close_context:
            if context is not None:
                self._close_or_stop(context)
        elif context is not None and not context.takes_text:
            if (message.text or "").strip():
                error = OutOfOrder(what="text", why="that context was closed")
                self._send_about(name, messages.error(error, name))
        # A message with an empty text keeps the socket open, but does not open a context.
        elif context is not None or message.text:
            try:
                self._process_message(context or self._begun(name, message), message)
            except BadRequest as error:
                self._refuse(name, error)

    def _begun(self, name: str, message: ClientMessage) -> Context:
        if len(self.utterances) >= self._limits.max_contexts:
            raise TooManyContexts(limit=self._limits.max_contexts)
        return self._opened(name, message)

    def _close_or_stop(self, context: Context) -> None:
        if context.takes_text:
            self._close_context(context)
        else:
            self._release(context)
            self._conclude(context)

    def _leave(self) -> None:
        """Complete the text of each context, so that the socket closes after the last one."""
        self._is_leaving = True
        for context in tuple(self.utterances.values()):
            if context.takes_text:
                self._close_context(context)
        if not self.utterances and not self.closed:
            self._close(1000)

    def _label(self, name: str) -> str | None:
        return name

    def _conclude(self, context: Context) -> None:
        self._end_name(context.name, context.notes)

    def _end_name(self, name: str, notes: Sequence[str] = ()) -> None:
        """Send a context's last message, and close the socket if `close_socket` was received."""
        self._send_about(name, messages.final(name, notes))
        if self._is_leaving and not self.utterances:
            self._close(1000)

    def _leave_off(self, context: Context) -> None:
        """Close an idle context as if the client had sent `close_context`."""
        self._close_context(context)

    # --- Methods that send error messages and abort contexts.

    def _abort_all(self, error: SpeechError) -> None:
        # The error closes the socket. If _is_leaving stayed true, the last context would close it again.
        self._is_leaving = False
        super()._abort_all(error)

    def _fail(self, utterance: Context, error: SpeechError) -> None:
        if utterance.takes_text:
            self._muted.remember(utterance.name)
        self._send_about(utterance.name, messages.error(error, utterance.name))
        self._conclude(utterance)

    def _refuse(self, name: str, error: SpeechError) -> None:
        """End a context with an error, and ignore later messages for this context."""
        if context := self._named(name):
            self._release(context)
        self._muted.remember(name)
        self._send_about(name, messages.error(error, name))
        self._end_name(name)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        name = fields.get("context_id", fields.get("contextId", _DEFAULT_CONTEXT))
        if not isinstance(name, str):
            self._send_error(error)
        elif name not in self._muted:
            self._refuse(name, error)
