"""Session of ElevenLabs' ``stream-input``, which speaks one streamed text per socket."""

from __future__ import annotations

from runtime.errors import BadRequest, SessionIdle
from runtime.server.elevenlabs import messages
from runtime.server.elevenlabs.contexts import Context
from runtime.server.elevenlabs.schema import ClientMessage
from runtime.server.elevenlabs.session import ElevenLabsSession
from runtime.server.session.dialect import SingleErrorDialect


class StreamInputSession(SingleErrorDialect[Context], ElevenLabsSession):
    """Session with one streamed text.

    The first message has the settings. An empty text ends the streamed text. An error closes the socket.
    """

    @property
    def _silence_s(self) -> float | None:
        return None if self.utterances else float(self._options.inactivity_timeout)

    def _handle(self, message: ClientMessage) -> None:
        context = next(iter(self.utterances.values()), None)
        try:
            context = context or self._opened("", message)
            if not context.takes_text:
                return  # All text of the client has already arrived.
            if message.text == "":
                self._close_context(context)
            else:
                self._process_message(context, message)
        except BadRequest as error:
            self.close_with(error, error.close_code)

    def _label(self, name: str) -> str | None:
        return None

    def _conclude(self, context: Context) -> None:
        self._send_about(context.name, messages.final(None, context.notes))
        self._close(1000)

    def _leave_off(self, context: Context) -> None:
        error = SessionIdle(limit=self._options.inactivity_timeout)
        self.close_with(error, error.close_code)
