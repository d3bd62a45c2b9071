"""Tests for ElevenLabs' API with the messages of common clients."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import av
import httpx
import pytest
import soundfile
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from runtime.settings import ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import WAIT_S, same_sound, speak_text
from tests.wire.test_cartesia import speaker

ONE, MANY = "stream-input", "multi-stream-input"
SHORT = {"seed": 11, "max_frames": 12}  # Fields of the native protocol that ElevenLabs' messages may also contain.
SECONDS = 12 * 0.08


@asynccontextmanager
async def socket(
    server: RunningServer, kind: str, voice: str = "alloy", *, key: str = "", **query: str
) -> AsyncIterator[ClientConnection]:
    words = httpx.QueryParams(
        {"model_id": "eleven_flash_v2_5", "output_format": "pcm_24000", "language_code": "en"} | query
    )
    url = f"ws://127.0.0.1:{server.port}/v1/text-to-speech/{voice}/{kind}?{words}"
    async with connect(url, additional_headers={"xi-api-key": key} if key else None) as connection:
        yield connection


async def send(connection: ClientConnection, text: str | None = None, **fields: Any) -> None:
    await connection.send(json.dumps({**({} if text is None else {"text": text}), **fields}))


async def hear(connection: ClientConnection) -> dict[str, Any]:
    found = json.loads(await asyncio.wait_for(connection.recv(), WAIT_S))
    assert isinstance(found, dict)
    return found


async def until_final(connection: ClientConnection, *names: str | None) -> dict[str | None, list[dict[str, Any]]]:
    """Receive messages until each context has ended, and return them keyed by context."""
    came: dict[str | None, list[dict[str, Any]]] = {}
    waiting = set(names or (None,))
    while waiting:
        message = await hear(connection)
        came.setdefault(message.get("contextId"), []).append(message)
        if message.get("isFinal"):
            waiting.discard(message.get("contextId"))
    return came


async def closed(connection: ClientConnection) -> tuple[list[dict[str, Any]], int | None]:
    """Receive messages until the server closes the connection.

    The result is the messages and the close code.
    """
    came = []
    try:
        while True:
            came.append(await hear(connection))
    except ConnectionClosed:
        return came, connection.close_code


def sound_of(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(message["audio"]) for message in messages if message.get("audio"))


def chars_of(messages: list[dict[str, Any]]) -> str:
    return "".join("".join(message["alignment"]["chars"]) for message in messages if message.get("alignment"))


async def native(server: RunningServer, text: str) -> bytes:
    voice = {"task_type": "custom_voice", "voice": speaker(server), "language": "english"}
    return (await speak_text(server.socket, text, **voice, **SHORT)).pcm


async def one(server: RunningServer, *texts: str, **query: str) -> tuple[list[dict[str, Any]], int | None]:
    """Generate speech for several texts on a new socket.

    Returns:
        All received messages, and the close code.
    """
    async with socket(server, ONE, **query) as connection:
        await send(connection, " ", **SHORT)
        for text in texts:
            await send(connection, text)
        await send(connection, "")
        return await closed(connection)


def post(server: RunningServer, path: str = "", *, form: str = "pcm_24000", **fields: Any) -> httpx.Response:
    url = f"{server.http}/v1/text-to-speech/alloy{path}"
    body = {"text": "Good morning.", "model_id": "eleven_turbo_v2_5", "language_code": "en", **SHORT, **fields}
    return httpx.post(url, params={"output_format": form}, json=body, timeout=60, headers={"xi-api-key": "none"})


# --- Tests of one text on one WebSocket.


async def test_audio_equals_the_native_protocol_and_the_socket_closes(either: RunningServer) -> None:
    messages, code = await one(either, "Good ", "morning. ")
    assert same_sound(sound_of(messages), await native(either, "Good morning."))
    assert [message["isFinal"] for message in messages if message["isFinal"]] == [True]
    assert chars_of(messages) == "Good morning. "
    assert messages[-1]["isFinal"]
    assert code == 1000


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mp3_22050_32", "opus_48000_32"])
async def test_encoded_audio_on_a_socket_is_a_readable_file(server: RunningServer, form: str) -> None:
    messages, code = await one(server, "Good morning. ", output_format=form)
    with av.open(io.BytesIO(sound_of(messages))) as file:
        rate = file.streams.audio[0].codec_context.sample_rate
        seconds = sum(frame.samples for frame in file.decode(audio=0)) / rate
    assert rate == int(form.split("_")[1])
    assert seconds == pytest.approx(SECONDS, abs=0.15)
    assert (chars_of(messages), messages[-1]["isFinal"], code) == ("Good morning. ", True, 1000)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"voice": "nobody"}, "unknown_voice"),
        ({"output_format": "pcm_96000"}, "unsupported_format"),
        ({"inactivity_timeout": "0"}, "invalid_config"),
        ({"language_code": "hi"}, "unsupported_language"),
    ],
)
async def test_invalid_query_is_reported_as_one_error(server: RunningServer, query: dict[str, str], error: str) -> None:
    async with socket(server, ONE, **query) as connection:
        if error == "unsupported_language":
            await send(connection, "Hello.")
            await send(connection, "")
        (message,), code = await closed(connection)
    assert (message["error"], message["code"], code) == (error, 1008, 1008)
    assert "nobody" not in message["message"]


# --- Tests of several contexts on one WebSocket.


# --- Tests of one text over HTTP.


async def test_http_audio_equals_the_audio_of_the_socket(either: RunningServer) -> None:
    wanted = await native(either, "Good morning.")
    for path in ("", "/stream"):
        reply = post(either, path)
        assert (reply.status_code, reply.headers["content-type"]) == (200, "audio/pcm")
        assert reply.content == wanted
    assert reply.headers["x-seed"] == "11"


@pytest.mark.slow("pcm_8000-audio/pcm", "wav_16000-audio/wav", "opus_48000_64-audio/ogg", "ulaw_8000-audio/basic")
@pytest.mark.parametrize(
    ("form", "media_type"),
    [
        ("mp3_44100_128", "audio/mpeg"),
        ("pcm_8000", "audio/pcm"),
        ("wav_16000", "audio/wav"),
        ("opus_48000_64", "audio/ogg"),
        ("ulaw_8000", "audio/basic"),
    ],
)
def test_file_has_the_requested_format(server: RunningServer, form: str, media_type: str) -> None:
    reply = post(server, form=form)
    assert (reply.status_code, reply.headers["content-type"]) == (200, media_type)
    codec, rate, *kbps = form.split("_")
    if codec in {"pcm", "ulaw"}:
        assert len(reply.content) / int(rate) / (2 if codec == "pcm" else 1) == pytest.approx(SECONDS, abs=0.01)
    elif codec == "wav":
        info = soundfile.info(io.BytesIO(reply.content))
        assert (info.format, info.samplerate, info.duration) == ("WAV", int(rate), pytest.approx(SECONDS, abs=0.01))
    else:
        with av.open(io.BytesIO(reply.content)) as file:
            assert file.streams.audio[0].codec_context.sample_rate == int(rate)
        if codec == "mp3":
            assert len(reply.content) * 8 / 1000 / SECONDS == pytest.approx(int(kbps[0]), rel=0.25)


async def test_alignment_is_returned_for_whole_and_streamed_audio(server: RunningServer) -> None:
    whole = post(server, "/with-timestamps").json()
    lines = [json.loads(line) for line in post(server, "/stream/with-timestamps").text.splitlines()]
    assert len(lines) > 1
    pcm = base64.b64decode(whole["audio_base64"])
    assert pcm == await native(server, "Good morning.")
    assert pcm == b"".join(base64.b64decode(line["audio_base64"]) for line in lines)
    pieces = [line["alignment"] for line in lines if line["alignment"]]
    for name in ("characters", "character_start_times_seconds", "character_end_times_seconds"):
        assert [value for piece in pieces for value in piece[name]] == whole["alignment"][name]
    times = whole["alignment"]
    assert whole["normalized_alignment"] == times
    assert "".join(times["characters"]) == "Good morning."
    assert times["character_end_times_seconds"][-1] == pytest.approx(SECONDS, abs=0.002)
    assert times["estimated"]


@pytest.mark.slow
async def test_higher_speed_shortens_audio_and_tags_are_not_spoken(server: RunningServer) -> None:
    faster = post(server, voice_settings={"speed": 2.0, "stability": 0.3, "style": 0.2})
    assert len(faster.content) / 48_000 == pytest.approx(SECONDS / 2, abs=0.05)
    paused = post(server, text='<break time="1s"/>Good morning.').content
    assert paused == bytes(48_000) + await native(server, "Good morning.")


@pytest.mark.parametrize(
    ("form", "fields", "status", "error"),
    [
        ("pcm_24000", {"text": None}, 400, "invalid_config"),
        ("pcm_24000", {"text": " "}, 400, "empty_text"),
        ("pcm_24000", {"text": "x" * 5000}, 400, "text_too_long"),
        ("pcm_24000", {"language_code": "hi"}, 400, "unsupported_language"),
        ("pcm_24000", {"voice_settings": {"stability": 2}}, 400, "invalid_config"),
        ("pcm_24000", {"pronunciation_dictionary_locators": [{}]}, 400, "invalid_config"),
        ("flac_24000", {}, 400, "unsupported_format"),
    ],
)
def test_refusal_has_the_elevenlabs_format(
    server: RunningServer, form: str, fields: dict[str, Any], status: int, error: str
) -> None:
    reply = post(server, form=form, **fields)
    detail = reply.json()["detail"]
    assert (reply.status_code, detail["status"]) == (status, error)
    assert detail["message"].endswith(".")


@pytest.mark.slow
async def test_every_refusal_on_elevenlabs_routes_has_the_elevenlabs_format(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(api_keys="s3cret")) as locked:

        async def opened(key: str) -> str:
            try:
                async with socket(locked, MANY, key=key):
                    return "opened"
            except InvalidStatus as refusal:
                return str(json.loads(refusal.response.body or b"")["detail"]["status"])

        assert await opened("s3cret") == "opened"
        assert await opened("guess") == "unauthorized"
        for path, key, status, code in (
            ("/v1/voices", "s3cret", 200, None),
            ("/v1/voices", "guess", 401, "unauthorized"),
            ("/v1/voices/nobody", "s3cret", 404, "voice_not_found"),
            ("/v2/voices?page_size=0", "s3cret", 400, "invalid_config"),
            ("/v1/text-to-speech/alloy/none", "s3cret", 404, "unknown_route"),
            ("/v1/text-to-dialogue", "s3cret", 405, "method_not_allowed"),
            ("/v1/text-to-dialogue/none", "s3cret", 404, "unknown_route"),
            ("/v1/user", "s3cret", 200, None),
            ("/v1/user", "guess", 401, "unauthorized"),
            ("/v1/text-to-speech/alloy", "s3cret", 405, "method_not_allowed"),
        ):
            reply = await asyncio.to_thread(httpx.get, locked.http + path, headers={"xi-api-key": key})
            assert reply.status_code == status, path
            assert reply.json().get("detail", {}).get("status") == code
        voices = f"{locked.http}/v1/audio/voices"
        elsewhere = await asyncio.to_thread(httpx.get, voices, headers={"xi-api-key": "guess"})
        assert elsewhere.json()["error"]["code"] == "unauthorized"


# --- Tests of the lists of voices and models.


def test_voices_are_listed_at_once_in_pages_and_individually(either: RunningServer) -> None:
    listed = httpx.get(f"{either.http}/v1/voices").json()["voices"]
    ids = [voice["voice_id"] for voice in listed]
    assert speaker(either) in ids
    seen, token = [], ""
    while True:
        page = httpx.get(f"{either.http}/v2/voices", params={"page_size": 1, "next_page_token": token}).json()
        seen += page["voices"]
        token = page["next_page_token"]
        assert page["total_count"] == len(ids)
        if not page["has_more"]:
            break
    assert seen == listed
    assert token is None
    assert httpx.get(f"{either.http}/v1/voices/{ids[0]}").json() == listed[0]
    found = httpx.get(f"{either.http}/v2/voices", params={"search": ids[0], "voice_ids": [ids[0], "x"]}).json()
    assert [voice["voice_id"] for voice in found["voices"]] == ids[:1]
    settings = httpx.get(f"{either.http}/v1/voices/{ids[0]}/settings").json()
    assert (settings["stability"], settings["speed"]) == (0.5, 1.0)  # The server ignores these settings.
    assert httpx.get(f"{either.http}/v1/voices/settings/default").json() == settings
    nobodys = httpx.get(f"{either.http}/v1/voices/nobody/settings")
    assert nobodys.status_code == 404
    assert nobodys.json()["detail"]["request_id"] == nobodys.headers["x-request-id"]


def test_account_route_reports_no_limits(either: RunningServer) -> None:
    user = httpx.get(f"{either.http}/v1/user").json()
    alone = httpx.get(f"{either.http}/v1/user/subscription").json()
    assert user["subscription"].items() <= alone.items()
    assert (alone["character_count"], alone["open_invoices"]) == (0, [])
    assert alone["character_limit"] > 2**30
    own = [voice for voice in httpx.get(f"{either.http}/v1/voices").json()["voices"] if voice["is_owner"]]
    assert alone["voice_limit"] > 2**30
    assert (alone["voice_slots_used"], alone["can_use_instant_voice_cloning"]) == (len(own), False)


def test_models_are_a_list_for_elevenlabs_and_an_object_for_openai(server: RunningServer) -> None:
    url = f"{server.http}/v1/models"
    theirs = httpx.get(url, headers={"xi-api-key": "none"}).json()
    openais = httpx.get(url, headers={"authorization": "Bearer none"}).json()
    assert [model["model_id"] for model in theirs] == [model["id"] for model in openais["data"]]
    assert theirs[0]["can_do_text_to_speech"]
    assert {"language_id": "en", "name": "English"} in theirs[0]["languages"]


def test_ignored_context_fields_are_noted_in_a_header(server: RunningServer) -> None:
    reply = post(server, previous_text="Before.", previous_request_ids=["a"])
    assert reply.headers["x-notes"].endswith("previous_text, previous_request_ids had no effect.")
    assert "no effect" not in post(server).headers.get("x-notes", "")
