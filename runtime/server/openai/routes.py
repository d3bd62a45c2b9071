"""OpenAI's HTTP routes, with vLLM-Omni's extensions, for speech, batches and models.

docs/api.md has examples.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

from fastapi import FastAPI, Request, Response

from runtime.errors import (
    GenerationFailed,
    Overloaded,
    SpeechError,
    UnknownModel,
)
from runtime.request import ModelCard
from runtime.server.descriptions import Model, model_entry
from runtime.server.engine_host import EngineHost
from runtime.server.http.request_ids import request_id_of
from runtime.server.http.speech import base64_json, read_fields
from runtime.server.http.speech_stream import StreamingReply, while_connected
from runtime.server.openai.responses import BatchReply, ModelAlias, SpeechBatch, SpeechModels
from runtime.server.openai.schema import SpeechBody, read_batch, read_speech
from runtime.server.openai.speech_responder import CompleteAudio, SpeechResponder, usage
from runtime.server.openapi.operations import SPEECH, UNREADY, describe_operation
from runtime.server.voices.routes import OPEN_WEBUI_PATH
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import MODEL_ALIASES
from runtime.server.wire import Reply
from runtime.shared.audio.encoding import FORMATS
from runtime.shared.port.errors import trailing_slash_error

log = logging.getLogger(__name__)

GET = ["GET", "HEAD"]
EXAMPLE = {"model": "tts-1", "voice": "alloy", "input": "Good morning."}
MEDIA_TYPES = tuple(dict.fromkeys(form.media_type for form in FORMATS.values()))


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register OpenAI's HTTP routes for speech, batches and models."""

    @app.post(OPEN_WEBUI_PATH + "/audio/speech", response_model=None)
    @app.post("/v1/audio/speech", response_model=None)
    @describe_operation(body=SpeechBody, example=EXAMPLE, binary_types=MEDIA_TYPES, is_events=True, refusals=SPEECH)
    async def speech(request: Request) -> Response:
        """Speak a text or a dialogue, and return audio or server-sent events."""
        body = read_speech(await read_fields(request, host), is_streaming_client=_is_streaming_client(request))
        responder = SpeechResponder(host, body, host.owner_library(request.headers), request_id_of(request))
        if body.is_whole:
            response = await while_connected(request.receive, responder.generate_complete_audio(), host.replies)
            return _client_closed_response() if response is None else _complete_audio_response(responder, response)
        if body.is_events:
            return responder.reply(responder.as_events(), "text/event-stream")
        return responder.reply(responder.as_audio(), FORMATS[body.response_format].media_type)

    @app.post("/v1/audio/speech/batch", response_model=None)
    @describe_operation(body=SpeechBatch, example={"items": [EXAMPLE, EXAMPLE]}, response=BatchReply, refusals=SPEECH)
    async def batch(request: Request) -> Response:
        """Speak several texts (an error in one text does not affect the others)."""
        items = read_batch(await read_fields(request, host), host.settings.limits.max_batch_items)
        host.engine  # noqa: B018  This raises an error if the engine is not ready.
        pieces = _batch(host, items, host.owner_library(request.headers), request_id_of(request))
        return StreamingReply(
            pieces,
            media_type="application/json",
            headers={},
            late_headers=dict,
            send_s=host.settings.server.send_s,
            replies=host.replies,
        )

    @app.api_route(OPEN_WEBUI_PATH + "/audio/models", methods=GET)
    @app.api_route("/v1/audio/models", methods=GET)
    @describe_operation(response=SpeechModels)
    async def speech_models() -> Reply:
        """List the checkpoints, and OpenAI's model names as aliases, for Open WebUI."""
        cards = host.engine.cards if host.problem is None else ()
        aliases = [_alias(name, cards) for name in sorted(MODEL_ALIASES) if cards]
        listed = [*(model_entry(card) for card in cards), *aliases]
        return {"object": "list", "data": listed, "models": listed}

    @app.api_route("/v1/models/{name:path}", methods=GET)
    @describe_operation(response=Model | ModelAlias, refusals=UNREADY | {UnknownModel})
    async def model(name: str) -> Reply:
        """Return one loaded checkpoint, or one of OpenAI's model names as an alias."""
        if not name:  # The request is for /v1/models/ without a name.
            raise trailing_slash_error()
        cards = host.engine.cards
        for card in cards:
            if card.name == name or name in card.adapters:
                return model_entry(card)
        if name in MODEL_ALIASES:
            return _alias(name, cards)
        raise UnknownModel(param="model")


def _complete_audio_response(responder: SpeechResponder, complete: CompleteAudio) -> Response:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield complete.audio

    response = responder.reply(pieces(), complete.media_type)
    response.headers["X-Stop-Reason"] = complete.end.stop_reason.value
    response.headers["Content-Length"] = str(len(complete.audio))
    return response


def _is_streaming_client(request: Request) -> bool:
    """True if a header of OpenAI's client states that the response is read as a stream."""
    return request.headers.get("x-stainless-raw-response") == "stream"


async def _batch(
    host: EngineHost, items: list[dict[str, Any]], library: VoiceLibrary, request_id: str
) -> AsyncGenerator[bytes, None]:
    """Speak all items of a batch and yield the body of the response.

    There is at most one open request per slot.
    """
    semaphore = asyncio.Semaphore(host.engine.load().slots)

    async def served(index: int, fields: dict[str, Any]) -> tuple[bytes | None, Reply]:
        async with semaphore:
            audio, result = await _item(host, fields, library, f"{request_id}/{index}")
        return audio, {"index": index, **result}

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(served(index, fields), name="speech-batch") for index, fields in enumerate(items)]
    results = [task.result() for task in tasks]
    succeeded = sum(audio is not None for audio, _ in results)
    counts = {"total": len(results), "succeeded": succeeded, "failed": len(results) - succeeded}
    yield json.dumps({"id": f"speech-batch-{secrets.token_hex(8)}", **counts}).encode()[:-1] + b',"results":['
    for index, (audio, result) in enumerate(results):
        yield b"," * bool(index)
        for piece in [json.dumps(result).encode()] if audio is None else base64_json("audio_data", audio, result):
            yield piece
    yield b"]}"


async def _item(
    host: EngineHost, fields: dict[str, Any], library: VoiceLibrary, request_id: str
) -> tuple[bytes | None, Reply]:
    """Return the audio of a batch item (None if it failed) and its other fields."""
    try:
        response = await _await_capacity(host, read_speech(fields, is_in_batch=True), library, request_id)
    except SpeechError as error:
        host.count_refusal(error)
        return None, _failure(error)
    except Exception:
        log.exception("an item of a batch failed")
        return None, _failure(GenerationFailed())
    return response.audio, {
        "status": "success",
        "media_type": response.media_type,
        "error": None,
        "seed": response.seed,
        "stop_reason": response.end.stop_reason.value,
        "notes": list(response.notes),
        "usage": usage(response.end),
        **({"words": response.words} if response.words else {}),
    }


async def _await_capacity(host: EngineHost, body: SpeechBody, library: VoiceLibrary, request_id: str) -> CompleteAudio:
    """Speak one item of a batch, with retries for `queue_s` while the engine's queue is full."""
    loop = asyncio.get_running_loop()
    end = loop.time() + host.settings.limits.queue_s
    while True:
        try:
            return await SpeechResponder(host, body, library, request_id).generate_complete_audio()
        except Overloaded as error:
            wait_s = cast(float, error.facts["retry_after_s"])
            if loop.time() + wait_s > end:
                raise
        await asyncio.sleep(wait_s)


def _failure(error: SpeechError) -> Reply:
    """Return the batch result of a failed item, with the fields of vLLM-Omni and OpenAI."""
    return {
        "status": "error",
        "audio_data": None,
        "media_type": None,
        "error": str(error),
        "code": error.code,
        "param": error.param,
        "retryable": error.retryable,
    }


def _alias(name: str, cards: Sequence[ModelCard]) -> Reply:
    """Return the description of an OpenAI model name that is an alias of all checkpoints."""
    created = min(card.created for card in cards)
    return {"id": name, "object": "model", "created": created, "owned_by": "voicewright"}


def _client_closed_response() -> Response:
    """Return an empty response for a client that has disconnected."""
    return Response(status_code=499)
