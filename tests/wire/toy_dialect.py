"""Toy dialect: a minimal API for tests, in which a client has one utterance at a time.

Messages: ``{"say": …, "voice": …, "end": …}`` and ``{"stop": true}``.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, WebSocket

from runtime.errors import SpeechError
from runtime.request import AudioChunk, Broken, Finished, Reference, SpeechEvent, SpeechRequest
from runtime.server.engine_host import EngineHost
from runtime.server.session.dialect import Dialect
from runtime.server.session.utterance import StreamedText, Utterance
from runtime.server.text.filter import create_text_filters
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.websocket_routes import serve_session, session_arguments
from runtime.server.wire import Name, StrictFields, Text, validate_fields


class ToyMessage(StrictFields):
    say: Text = ""
    voice: Name | None = None
    end: bool = False
    stop: bool = False

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        cast = {"mode": resolved.mode, "voice": resolved.speaker, "reference": reference}
        return SpeechRequest(text=text, seed=7, max_frames=40, acknowledged=True, bans_eos=True, **cast)  # type: ignore[arg-type]


class ToyDialect(Dialect[Utterance[ToyMessage]]):
    """Session of the toy dialect, with one utterance at a time."""

    def _read(self, fields: dict[str, Any]) -> ToyMessage:
        return validate_fields(ToyMessage, fields)

    def _handle(self, message: ToyMessage) -> None:
        utterance = next(iter(self.utterances.values()), None)
        try:
            if not message.stop:
                utterance = utterance or self._begun(message)
                utterance.append_text(message.say, self._clock())
                if message.end:
                    utterance.finish()
            elif utterance is not None:
                self._release(utterance)
                self.send_queue.add_message({"stopped_after": utterance.sent_samples})
        except SpeechError as error:
            self._abort_all(error) if self.utterances else self._send_error(error)

    def _begun(self, message: ToyMessage) -> Utterance[ToyMessage]:
        resolved = self._resolver.resolve(mode=None, model=None, voice=message.voice, has_reference=False)
        text = StreamedText(self._limits, create_text_filters("markdown"), pause_s=0.3)
        return self._number(Utterance(self._commands, self._chosen(message, resolved), text))

    def _on_event(self, utterance: Utterance[ToyMessage], event: SpeechEvent) -> None:
        match event:
            case AudioChunk(pcm=pcm):
                self._send_pcm(utterance, pcm)
            case Finished(stop_reason=reason):
                self.send_queue.add_message({"done": reason.value, "samples": utterance.samples})
            case Broken(error=error):
                self._fail(utterance, error)

    def _fail(self, utterance: Utterance[ToyMessage], error: SpeechError) -> None:
        self._send_error(error)

    def _send_error(self, error: SpeechError) -> None:
        self.send_queue.add_message({"error": error.code, "message": str(error)})


def add_routes(app: FastAPI, host: EngineHost) -> None:
    @app.websocket("/toy")
    async def toy(socket: WebSocket) -> None:
        await socket.accept()
        await serve_session(socket, host, ToyDialect(**session_arguments(host, socket)), name="toy", session_id="toy")
