"""Test driver of a session, which sends messages and records responses and commands."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from runtime.request import AudioChunk, Finished, Layout, Mode, ModelCard, RequestStats, Started, StopReason
from runtime.server.session.commands import (
    Append,
    AudioMessage,
    Cancel,
    Close,
    Command,
    DecodeReference,
    EncodedMessage,
    FinishText,
    ReadStoredVoice,
    Submit,
    TextMessage,
)
from runtime.server.session.dialect import Dialect

CARD = ModelCard(
    name="tiny",
    modes=(Mode.CUSTOM_VOICE,),
    speakers=("anna", "bert"),
    languages=("english",),
    layouts=(Layout.NON_STREAMING, Layout.STREAMING),
    takes_instruct=True,
    speaks=False,
    part_chars=400,
    samples_per_frame=1920,
    device="cpu",
    dtype="float32",
    fingerprint="0" * 32,
    loaded=True,
)
CLONER = ModelCard(**{**{name: getattr(CARD, name) for name in CARD.__slots__}, "name": "clone", "modes": (Mode.BASE,)})


class SessionDriver:
    """Test driver of a session in any API, without a network.

    The test acts as the server and as the engine.
    """

    def __init__(self, dialect: Dialect[Any]) -> None:
        self.dialect = dialect
        self.commands: list[Command] = []

    def receive(self, message: dict[str, Any] | str) -> None:
        self.dialect.receive_text(message if isinstance(message, str) else json.dumps(message))
        self.gather()

    def gather(self) -> None:
        while self.dialect.has_work:
            self.dialect.work()
        self.commands += self.dialect.commands()

    def start(self, number: int, seed: int = 7, notes: tuple[str, ...] = ()) -> None:
        self.dialect.on_speech(number, Started(seed=seed, checkpoint="tiny", notes=notes))
        self.gather()

    def send_audio(self, number: int, frames: int = 1, first: int = 0) -> bytes:
        """Pass generated frames to the session, as the engine does, and return their samples."""
        pcm = (np.arange(first * 1920, (first + frames) * 1920) % 20_000).astype("<i2").tobytes()
        chunk = AudioChunk(pcm=pcm, codes=np.zeros((frames, 16), np.int64), first_sample=first * 1920)
        self.dialect.on_speech(number, chunk)
        self.gather()
        return pcm

    def finish(self, number: int, reason: StopReason = StopReason.EOS, notes: tuple[str, ...] = ()) -> None:
        stats = RequestStats(frames=1, audio_s=0.08, total_ms=20)
        self.dialect.on_speech(number, Finished(stop_reason=reason, stats=stats, notes=notes))
        self.gather()

    def commands_of(self, kind: type[Any]) -> list[Any]:
        """Return all recorded commands of type `kind`."""
        return [command for command in self.commands if isinstance(command, kind)]

    @property
    def submitted(self) -> list[Submit]:
        return self.commands_of(Submit)

    @property
    def cancelled(self) -> list[int]:
        return [command.utterance for command in self.commands_of(Cancel)]

    @property
    def received_text(self) -> str:
        """Return all text that the engine has received, in order.

        The character `|` marks the end of a text.
        """
        sent_text = ""
        for command in self.commands:
            match command:
                case Submit(_, request):
                    sent_text += request.text + ("" if request.open_text else "|")
                case Append(_, text):
                    sent_text += text
                case FinishText():
                    sent_text += "|"
        return sent_text

    @property
    def uploads(self) -> list[DecodeReference | ReadStoredVoice]:
        return [command for command in self.commands if isinstance(command, DecodeReference | ReadStoredVoice)]

    def pop_messages(self) -> list[Any]:
        """Take all pending messages to the client, as dicts, bytes and Close objects."""
        messages: list[Any] = []
        while (item := self.dialect.pop_message()) is not None:
            match item:
                case TextMessage(text):
                    messages.append(json.loads(text))
                case AudioMessage(data):
                    messages.append(data)
                case EncodedMessage(make):
                    if text := make():
                        messages.append(json.loads(text))
                case Close():
                    messages.append(item)
        return messages

    def kinds(self) -> list[str]:
        """Take all pending messages to the client, and return their names.

        A name is a message type, an error code, "sound" for audio, or a close code.
        """
        return [self.kind(item) for item in self.pop_messages()]

    def kind(self, item: Any) -> str:
        """Return the name of a reply, as in `kinds`."""
        if isinstance(item, bytes):
            return "sound"
        if isinstance(item, Close):
            return f"close {item.code}"
        if "type" not in item:  # Only messages of ElevenLabs' API have no field `type`.
            return str(item.get("error") or ("final" if item["isFinal"] else "audio"))
        if item["type"] == "error":
            return str(item.get("code") or item.get("error_code") or item["data"]["code"])
        return str(item["type"])
