"""Base class of HTTP speech requests in all APIs: request body, voice and response."""

from __future__ import annotations

import asyncio
import base64
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from fastapi import Request

from runtime.errors import InvalidMessage, MessageTooLarge, TextTooLong
from runtime.request import Reference, SpeechRequest
from runtime.server.caller import CALLER, submit_request
from runtime.server.engine_host import EngineHost
from runtime.server.http.dialogue import DialogueStream, DialogueWordTimes
from runtime.server.http.speech_stream import SpeechStream, StreamingReply
from runtime.server.logs import RequestLog
from runtime.server.session.dialogue import turn_field
from runtime.server.text.filter import FilterName, filter_text, remove_tags
from runtime.server.text.pronunciations import HasDictionaries, all_pronunciations, dictionary_for
from runtime.server.voices.blending import voice_reference
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from runtime.server.wire import Reply, check_text, decode
from runtime.shared.port.limits import whole_body
from runtime.shared.strict_json import MAX_BODY_VALUES

# Maximum size in bytes of a body that is parsed on the event loop, which takes at most 3 ms.
_SMALL_BODY_BYTES = 16 * 2**10
_BASE64_BYTES = 48 * 2**10  # Number of bytes that are encoded at once. It must be a multiple of 3.
_MAX_MARKUP_RATIO = 4  # Maximum length of a text with markup, as a multiple of `limits.max_text_chars`.

Body = TypeVar("Body", bound=HasDictionaries)


class HttpSpeech(ABC, Generic[Body]):
    """Base class of an HTTP speech request in one API.

    Thread: event loop. Worker threads read voices and encode audio.
    """

    dialect: ClassVar[str]
    text_field: ClassVar[str]  # Name of the field with the text in this API.

    def __init__(self, host: EngineHost, body: Body, library: VoiceLibrary, request_id: str) -> None:
        self._id = request_id
        self._host = host
        self._body = body
        self._library = library
        self._speech: DialogueStream | None = None
        self._references: dict[str, Reference] = {}  # Stored voices by id, shared by all turns of a dialogue.

    @property
    @abstractmethod
    def sample_rate(self) -> int:
        """Sample rate of the response in Hz."""

    def headers(self) -> dict[str, str]:
        """Return the response headers that are known before any audio is generated."""
        return {"X-Sample-Rate": str(self.sample_rate), "Cache-Control": "no-store", "X-Accel-Buffering": "no"}

    def late_headers(self) -> dict[str, str]:
        """Return the response headers that are known only after the first audio."""
        return {} if self._speech is None else self._speech.headers()

    def reply(self, pieces: AsyncGenerator[bytes, None], media_type: str) -> StreamingReply:
        """Return a streaming response with `pieces` as its body."""
        return StreamingReply(
            pieces,
            media_type=media_type,
            headers=self.headers(),
            late_headers=self.late_headers,
            send_s=self._host.settings.server.send_s,
            replies=self._host.replies,
            on_broken=self._host.count_refusal,
        )

    def _stream(self, *requests: SpeechRequest, pause_ms: float = 0.0) -> DialogueStream:
        """Return the event stream of one request, or of all requests of a dialogue.

        The host counts and logs the end of each request.
        """
        queue_s = self._host.settings.limits.queue_s
        is_dialogue = len(requests) > 1

        def open_stream(turn: int, request: SpeechRequest) -> SpeechStream:
            if is_dialogue:
                return self._open_stream(request, f"{self._id}/{turn}", self._text_field_of(turn))
            return self._open_stream(request, self._id, self.text_field)

        self._speech = DialogueStream(requests, open_stream, pause_s=pause_ms / 1000, queue_s=queue_s)
        return self._speech

    def _text_field_of(self, turn: int) -> str:
        """Return the name of the field with the text of the dialogue turn with this index."""
        return turn_field(turn, "text")

    def _open_stream(self, request: SpeechRequest, request_id: str, text_field: str) -> SpeechStream:
        host = self._host
        request_log = RequestLog(
            id=request_id,
            dialect=self.dialect,
            mode=request.mode,
            chars=len(request.text),
            text=request.text if host.settings.server.log_text else None,
        )
        on_end = partial(host.record_ended_request, request_log)
        submitted = partial(submit_request, host.engine, CALLER.get(), host.spending)
        return SpeechStream(host.engine, request, submit=submitted, text_field=text_field, on_end=on_end)

    async def _filtered(self, name: FilterName, text: str, *, tags: bool, spells: bool = False) -> str:
        """Apply the text filter and the pronunciations, and return the text to speak.

        Args:
            spells: True to replace ``<spell>`` tags.

        Raises:
            TextTooLong: The text with or without markup exceeds the limit.
        """
        entries = all_pronunciations(self._body, self._library)
        limits = self._host.settings.limits
        spells = spells and "<" in text
        if name == "none" and not entries and not spells:
            check_text(len(text.strip()), limits, param=self.text_field)
            return text
        max_chars = _MAX_MARKUP_RATIO * limits.max_text_chars
        if len(text) > max_chars:
            raise TextTooLong(count=len(text), unit="characters", limit=max_chars, param=self.text_field)
        return await self._joined(
            filter_text(name, text, lambda: dictionary_for(entries, limits, tags=tags), spells=spells)
        )

    async def _without_tags(self, text: str, *, tags: bool) -> str:
        """Return a text without its tags, for word times."""
        return await self._joined(remove_tags(text, self._host.settings.limits, brackets=tags))

    async def _dialogue_words(self, requests: Sequence[SpeechRequest], *, tags: bool) -> DialogueWordTimes:
        """Return the estimator of word times for the texts of a dialogue."""
        return DialogueWordTimes([await self._without_tags(request.text, tags=tags) for request in requests])

    async def _joined(self, pieces: Iterator[str]) -> str:
        """Join pieces of text that are computed on the text thread."""
        run = partial(asyncio.get_running_loop().run_in_executor, self._host.texts)
        found: list[str] = []
        while (piece := await run(next, pieces, None)) is not None:
            found.append(piece)
        return "".join(found)

    def _resolver(self) -> VoiceResolver:
        return VoiceResolver(self._host.engine.cards, self._library)

    async def _stored(self, resolved: ResolvedVoice) -> Reference | None:
        if resolved.stored is None:
            return None
        if resolved.stored not in self._references:
            reference = await self._host.run_in_worker(voice_reference, self._library, resolved.stored)
            self._references[resolved.stored] = reference
        return self._references[resolved.stored]

    async def _encoding(self, work: Callable[..., bytes], *arguments: bytes) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._host.encoders, work, *arguments)


def base64_json(field: str, data: bytes | bytearray, rest: Reply) -> Iterator[bytes]:
    """Yield a JSON object in pieces: `data` as base64, and then the other fields.

    The base64 text is produced in small pieces, because encoding minutes of audio in one step would block the event
    loop.

    Args:
        field: Name of the field with the base64 text.
        data: Bytes to encode.
        rest: Other fields of the object.
    """
    yield f'{{"{field}":"'.encode()
    for start in range(0, len(data), _BASE64_BYTES):
        yield base64.b64encode(memoryview(data)[start : start + _BASE64_BYTES])
    yield b'",' + json.dumps(rest, separators=(",", ":")).encode()[1:]


def server_sent_event(**fields: object) -> bytes:
    """Encode fields as a server-sent event with the event name `fields["type"]`."""
    return f"event: {fields['type']}\ndata: {json.dumps(fields, separators=(',', ':'))}\n\n".encode()


async def read_fields(request: Request, host: EngineHost) -> dict[str, Any]:
    """Read and parse the JSON body of a request, with limits on its size and transfer time.

    Raises:
        MessageTooLarge, InvalidMessage: The body is too large, truncated, or not a JSON object.
        UnsupportedEncoding, SessionIdle, BodyTooSlow: The body is compressed or arrives too slowly.
    """
    limits = host.settings.limits
    body = await whole_body(request, max_bytes=limits.max_config_bytes, idle_s=limits.config_s)
    if len(body) <= _SMALL_BODY_BYTES:
        return _decoded(body)
    # A large body is parsed on a worker thread, because this takes tens of milliseconds. Only bodies with reference
    # audio or a dialogue may be larger than `Limits.max_message_bytes`.
    fields = await asyncio.get_running_loop().run_in_executor(host.decoders, _decoded, body)
    if len(body) > limits.max_message_bytes and "ref_audio" not in fields and "items" not in fields:
        raise MessageTooLarge(what="The body", size=len(body), limit=limits.max_message_bytes)
    return fields


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return decode(body.decode(), MAX_BODY_VALUES)
    except UnicodeDecodeError:
        raise InvalidMessage(why="it is not UTF-8") from None
