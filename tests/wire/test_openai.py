"""Tests for POST /v1/audio/speech: formats, events, errors, disconnects and batches."""

from __future__ import annotations

import base64
import contextlib
import gc
import io
import json
import os
import random
import re
import socket as sockets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile

from runtime.request import DESCRIBED_VOICE
from runtime.settings import EngineSettings, ServerSettings
from runtime.shared.audio.encoding import FORMATS
from tests.conftest import FolderOf
from tests.support.runtime_server import FREED_FRAMES, RunningServer, running_server
from tests.support.speech_client import same_sound
from tests.support.timeouts import TEST_TIMEOUT_S, until
from tests.wire.conftest import Serving

BODY: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "Good morning.", "seed": 11, "max_frames": 12}
LONG = {**BODY, "input": "Speak for a long time.", "max_frames": 4000, "response_format": "pcm"}
SAMPLES = 12 * 1920
PATH = "/v1/audio/speech"


def post(server: RunningServer, path: str = PATH, **fields: Any) -> httpx.Response:
    return httpx.post(server.http + path, json={**BODY, **fields}, timeout=60)


def decoded(data: bytes) -> tuple[np.ndarray[Any, Any], int]:
    with av.open(io.BytesIO(data)) as container:
        rate = container.streams.audio[0].codec_context.sample_rate
        return np.concatenate([frame.to_ndarray().ravel() for frame in container.decode(audio=0)]), rate


def events(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    for block in reply.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        fields = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {fields['type']}"
        yield fields


def raw(
    server: RunningServer, body: dict[str, Any], path: str = PATH, receive_bytes: int | None = None
) -> sockets.socket:
    """Send a POST request on a new socket, and return the socket without reading a response."""
    connection = sockets.socket()
    if receive_bytes is not None:
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, receive_bytes)
    connection.connect(("127.0.0.1", server.port))
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    connection.sendall(head.encode() + data)
    return connection


def wait_for_sound(server: RunningServer, connection: sockets.socket) -> None:
    connection.settimeout(30)
    assert b" 200 OK" in connection.recv(4096)


def open_files() -> dict[str, str]:
    """Return the target of each open file descriptor of this process."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # The file descriptor of the directory listing is already closed.
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return found


@pytest.fixture(scope="module")
def plain(server: RunningServer) -> bytes:
    """Return the PCM audio of the request body BODY."""
    return post(server, response_format="pcm").content


@pytest.mark.quick("mp3-plain", "mp3-sse", "wav-whole")
@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "sse", "whole"])
@pytest.mark.parametrize("response_format", FORMATS)
def test_every_openai_format_contains_the_audio(
    server: RunningServer, plain: bytes, response_format: str, how: str
) -> None:
    extra = {"plain": {}, "sse": {"stream_format": "sse"}, "whole": {"stream": False}}[how]
    reply = post(server, response_format=response_format, **extra)
    assert reply.status_code == 200
    assert reply.headers["x-sample-rate"] == "24000"
    assert reply.headers["x-seed"] == "11"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-accel-buffering"] == "no"
    assert len(reply.headers["x-request-id"]) == 16
    assert reply.headers["server-timing"].startswith("queue;dur=")
    assert "ttfa;dur=" in reply.headers["server-timing"]
    is_whole = how == "whole" or (how == "plain" and response_format in {"wav", "flac"})
    assert ("content-length" in reply.headers) == is_whole
    data = reply.content
    if how == "sse":
        assert reply.headers["content-type"].startswith("text/event-stream")
        *deltas, done = events(reply)
        assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
        assert len(deltas) > 1
        assert done["type"] == "speech.audio.done"
        assert done["usage"]["output_tokens"] == 12
        assert done["usage"]["total_tokens"] == done["usage"]["input_tokens"] + 12
        assert (done["stop_reason"], done["seed"]) == ("max_tokens", 11)
        data = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    else:
        assert reply.headers["content-type"] == FORMATS[response_format].media_type
    if response_format == "pcm":
        assert same_sound(data, plain)
        return
    samples, rate = decoded(data)
    if response_format in {"wav", "flac"}:
        assert same_sound(samples.astype("<i2").tobytes(), plain)
    else:
        assert SAMPLES / 24_000 <= len(samples) / rate < SAMPLES / 24_000 + 0.1


def test_vllm_omni_stream_options_are_supported(server: RunningServer, plain: bytes) -> None:
    """``stream`` selects events, unless ``stream_format`` selects bytes."""
    assert post(server, stream=True, response_format="pcm").headers["content-type"].startswith("text/event-stream")
    reply = post(server, stream=True, stream_format="audio", response_format="pcm")
    assert same_sound(reply.content, plain)


def test_speed_and_telephone_rate_are_applied(server: RunningServer, plain: bytes) -> None:
    slow = post(server, response_format="pcm", speed=0.5).content
    assert len(slow) == pytest.approx(2 * len(plain), rel=0.03)
    phone = post(server, response_format="pcm", sample_rate=8000)
    assert phone.headers["x-sample-rate"] == "8000"
    assert len(phone.content) == pytest.approx(len(plain) / 3, rel=0.01)


@pytest.mark.parametrize("extra", [{"response_format": "pcm"}, {}, {"response_format": "opus", "stream_format": "sse"}])
def test_first_byte_is_sent_with_the_first_chunk(either: RunningServer, extra: dict[str, Any]) -> None:
    body = {**LONG, "response_format": "mp3", **extra}
    with httpx.stream("POST", either.http + PATH, json=body, timeout=30) as reply:
        assert reply.status_code == 200
        pieces = reply.iter_raw()
        assert len(next(pieces)) > 100
        assert either.load()["active"] == 1  # The engine is still generating the speech.
    either.wait_until_idle()


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"input": ""}, 400, "empty_text", "input"),
        ({"input": "x" * 5000}, 400, "text_too_long", "input"),
        ({"input": None}, 400, "invalid_config", "input"),
        ({"input": 5}, 400, "invalid_config", "input"),
        ({"voice": "nobody"}, 404, "unknown_voice", "voice"),
        ({"voice": {"id": "nobody"}}, 404, "unknown_voice", "voice.id"),
        ({"voice": None, "speaker": "nobody"}, 404, "unknown_voice", "speaker"),
        ({"model": "other"}, 404, "model_not_found", "model"),
        ({"language": "klingon"}, 400, "unsupported_language", "language"),
        ({"response_format": "midi"}, 400, "unsupported_format", "response_format"),
        ({"stream_format": "ws"}, 400, "unsupported_format", "stream_format"),
        ({"speed": 5}, 400, "invalid_config", "speed"),
        ({"sample_rate": 44100}, 400, "invalid_config", "sample_rate"),
        ({"speaker_embedding": [0.5]}, 400, "invalid_config", "speaker_embedding"),
        ({"speaker_embedding": []}, 400, "invalid_config", "speaker_embedding"),
        ({"speaker_embedding": [1e39] * 64}, 400, "invalid_config", "speaker_embedding"),
        ({"speaker_embedding": ["0.5"]}, 400, "invalid_config", "speaker_embedding.0"),
        ({"speaker_embedding": [0.5] * 8193}, 400, "invalid_config", "speaker_embedding"),
        ({"speaker_embedding": [0.5], "task_type": "CustomVoice"}, 400, "invalid_config", "speaker_embedding"),
        ({"speaker_embedding": [0.5], "ref_audio": "AAAA"}, 400, "invalid_config", None),
        ({"word_timestamps": True}, 400, "invalid_config", "word_timestamps"),
        ({"retries": 1, "stream": None}, 400, "invalid_config", "retries"),
        ({"stream": False, "stream_format": "sse"}, 400, "invalid_config", "stream"),
        ({"task_type": "Base", "voice": None}, 400, "missing_ref_audio", "ref_audio"),
        ({"task_type": "Base", "voice": "alloy"}, 404, "unknown_voice", "voice"),
        ({"ref_audio": "bm8gc291bmQ=", "ref_text": "No."}, 400, "invalid_ref_audio", "ref_audio"),
        ({"ref_audio": "file:///etc/passwd", "ref_text": "No."}, 400, "address_refused", "ref_audio"),
        ({"max_frames": 5000}, 400, "invalid_config", "max_frames"),
        ({"task_type": "Singing"}, 400, "invalid_config", "task_type"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"stream_format": "sse"}, {"stream": False}])
def test_error_before_the_first_byte_is_an_http_status(
    either: RunningServer, how: dict[str, Any], fields: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    reply = post(either, **{**how, **fields})
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/json"
    error = reply.json()["error"]
    assert (error["code"], error["param"], error["retryable"]) == (code, param, False)
    assert error["type"] == "invalid_request_error"
    assert error["message"].endswith(".")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"[1]", 400, "invalid_json"),
        (b'{"input": "\xff"}', 400, "invalid_json"),
        (b'{"input": "a", "input": "b"}', 400, "invalid_json"),
        (b'{"input": "a", "speed": NaN}', 400, "invalid_json"),
        (b'{"input": "\\ud800"}', 400, "invalid_config"),
        (b'{"input": "' + b"a" * 200_000 + b'"}', 413, "message_too_large"),
        (b'{"ref_audio": "' + b"a" * 17 * 2**20 + b'"}', 413, "message_too_large"),
    ],
)
@pytest.mark.parametrize("path", [PATH, PATH + "/batch"])
def test_invalid_body_is_refused(either: RunningServer, path: str, content: bytes, status: int, code: str) -> None:
    reply = httpx.post(either.http + path, content=content, timeout=30)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


def test_full_queue_sends_retry_after(serving: Serving, folder_of: FolderOf) -> None:
    engine = EngineSettings(threads=1, max_slots=1, max_waiting=0)
    with serving(folder_of("brief", "custom_voice"), engine=engine) as server:
        with raw(server, LONG) as connection:
            wait_for_sound(server, connection)
            reply = post(server)
            assert (reply.status_code, reply.json()["error"]["code"]) == (429, "overloaded")
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.json()["error"]["retryable"]
        server.wait_until_idle()
        assert post(server).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("extra", [{}, {"stream_format": "sse", "response_format": "mp3"}])
def test_disconnect_releases_the_slot_within_two_frames(either: RunningServer, extra: dict[str, Any]) -> None:
    for _ in range(5):
        with raw(either, {**LONG, **extra}) as connection:
            wait_for_sound(either, connection)
        assert either.frames_until_idle() <= FREED_FRAMES


@pytest.mark.slow
@pytest.mark.parametrize("extra", [{"response_format": "mp3"}, {"response_format": "flac", "stream_format": "sse"}])
def test_disconnect_ends_encoder_threads_without_garbage_collection(
    server: RunningServer, extra: dict[str, Any]
) -> None:
    def hang_up() -> None:
        with raw(server, {**LONG, **extra}) as connection:
            wait_for_sound(server, connection)
        server.wait_until_idle()
        server.wait_for_no_tasks()

    for _ in range(8):  # After these requests, the encoder pool has all its threads.
        hang_up()
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    gc.disable()
    try:
        for _ in range(8):
            hang_up()
        until(lambda: len(os.listdir("/proc/self/task")) <= before + 2)  # Disconnects add no threads.
    finally:
        gc.enable()


@pytest.mark.slow
def test_hundred_disconnects_leak_no_resources(either: RunningServer, ref_audio: str) -> None:
    dice = random.Random(1)
    clone = {**LONG, "voice": None, "task_type": "Base", "ref_audio": ref_audio, "ref_text": "Words."}
    batch = {"items": [LONG, LONG, clone], "seed": 1}

    def hang_up() -> None:
        body: dict[str, Any] = dice.choice([LONG, clone, {**LONG, "stream": False}, {**LONG, "stream_format": "sse"}])
        body = {**body, "response_format": dice.choice(list(FORMATS))}
        whole_batch = dice.random() < 0.1
        with raw(either, batch if whole_batch else body, PATH + "/batch" if whole_batch else PATH) as connection:
            time.sleep(dice.random() * 0.15)
            if dice.random() < 0.5:  # Reset the connection with RST instead of FIN.
                connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    post(either)  # These requests start the threads for encoding and decoding.
    post(either, ref_audio=ref_audio, ref_text="Words.")
    threads, files = threading.active_count(), open_files()
    callers = [threading.Thread(target=lambda: [hang_up() for _ in range(25)]) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
    either.wait_until_idle()
    either.wait_for_no_tasks()
    assert threading.active_count() <= threads + 2  # Each of the two thread pools may start a second thread.
    # Files are closed one iteration of the event loop after the end of their tasks.
    until(lambda: len(open_files()) <= len(files) + 2)
    assert post(either).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one process", "engine apart"])
def test_slow_reader_pauses_its_row_and_resumes(serving: Serving, folder_of: FolderOf, apart: bool) -> None:
    server_settings = ServerSettings(send_buffer_bytes=4096)
    with serving(folder_of("brief", "custom_voice"), server=server_settings, apart=apart) as server:
        with raw(server, LONG, receive_bytes=4096) as connection:
            until(server.frames_made)
            held, before = 1, 0
            while before < held < 150:  # This loop ends when no new frame is generated for a second.
                time.sleep(1)
                held, before = server.frames_made(), held
            assert held < 100  # The buffers and the two seconds of the setting contain at most 8 s of audio.
            assert post(server).status_code == 200  # Another client is served in the meantime.
            connection.settimeout(60)
            heard = 0
            while heard < held * 3840 + 48_000:
                heard += len(connection.recv(65_536))
            assert server.load()["active"] == 1
        server.wait_until_idle()


@pytest.mark.slow
def test_runaway_is_retried_with_the_next_seed(server: RunningServer) -> None:
    """Speech from random weights rarely ends with EOS, so the reply is the last retry."""
    fields = {"input": "Hi.", "max_frames": None, "stream": False, "response_format": "pcm", "temperature": 0.01}
    again = post(server, **fields, seed=5, retries=1)
    assert (again.headers["x-stop-reason"], again.headers["x-seed"]) == ("runaway", "6")
    done = post(server, stream=False, seed=5, retries=2)
    assert (done.headers["x-stop-reason"], done.headers["x-seed"]) == ("max_tokens", "5")


def test_batch_speaks_valid_items_and_reports_invalid_items(server: RunningServer, plain: bytes) -> None:
    items: list[dict[str, Any]] = [
        {"input": "Good morning."},
        {"input": ""},
        {"input": "Good morning.", "voice": "nobody"},
        {"input": "Good morning.", "response_format": "pcm", "seed": 11},
        {"input": "Good morning.", "response_format": "mp3", "voice": None},
        {},
        *({"input": f"Number {number}.", "response_format": "pcm"} for number in range(8)),
    ]
    shared = {"voice": "alloy", "seed": 11, "max_frames": 12}
    reply = httpx.post(f"{server.http}{PATH}/batch", json={"items": items, **shared}, timeout=60)
    assert reply.status_code == 200
    answer = reply.json()
    assert (answer["total"], answer["succeeded"], answer["failed"]) == (14, 11, 3)
    results = answer["results"]
    assert [result["index"] for result in results] == list(range(14))
    assert [(result["code"], result["param"]) for result in results if result["status"] == "error"] == [
        ("empty_text", "input"),
        ("unknown_voice", "voice"),
        ("invalid_config", "input"),
    ]
    assert all(result["error"].endswith(".") and result["audio_data"] is None for result in (results[1], results[5]))
    sounds = {index: base64.b64decode(results[index]["audio_data"]) for index in (0, 3, 4)}
    assert results[0]["media_type"] == "audio/wav"
    assert same_sound(decoded(sounds[0])[0].astype("<i2").tobytes(), plain)
    assert same_sound(sounds[3], plain)
    assert results[4]["media_type"] == "audio/mpeg"


@pytest.mark.slow
def test_batch_waits_while_the_queue_is_full(serving: Serving, folder_of: FolderOf) -> None:
    engine = EngineSettings(threads=1, max_slots=1, max_waiting=0)
    with serving(folder_of("brief", "custom_voice"), engine=engine) as server:
        with raw(server, LONG) as connection:
            wait_for_sound(server, connection)
            answers: list[httpx.Response] = []
            body = {"items": [{"input": "One."}, {"input": "Two."}], "max_frames": 4}
            asking = threading.Thread(
                target=lambda: answers.append(httpx.post(f"{server.http}{PATH}/batch", json=body, timeout=60))
            )
            asking.start()
            time.sleep(0.3)
        asking.join(TEST_TIMEOUT_S)
        assert answers[0].json()["succeeded"] == 2


def test_models_are_listed_on_the_openai_route(server: RunningServer) -> None:
    listed = httpx.get(f"{server.http}/v1/models").json()["data"]
    for card in listed:
        assert httpx.get(f"{server.http}/v1/models/{card['id']}").json() == card
        assert 1_500_000_000 < card["created"] <= time.time()
    alias = httpx.get(f"{server.http}/v1/models/tts-1").json()
    assert (alias["object"], alias["owned_by"]) == ("model", "voicewright")
    assert alias["created"] == min(card["created"] for card in listed)
    open_webui = httpx.get(f"{server.http}/v1/audio/models").json()["models"]
    assert {card["id"] for card in listed} | {"tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= {
        model["id"] for model in open_webui
    }
    reply = httpx.get(f"{server.http}/v1/models/some/other")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")


DOCS = Path(__file__).resolve().parents[2] / "docs"
SECTION = (DOCS / "api.md").read_text().split("\n## POST /v1/audio/speech\n")[1].split("\n## ")[0]


def test_docs_page_lists_every_format_with_its_media_type() -> None:
    for name, form in FORMATS.items():
        assert re.search(rf"^\| `{name}`.*`{form.media_type}`", SECTION, re.MULTILINE), name


@pytest.mark.slow("wav", "flac")
@pytest.mark.parametrize("response_format", ["wav", "flac"])
def test_file_header_with_a_length_has_the_correct_length(
    server: RunningServer, plain: bytes, response_format: str
) -> None:
    """libsndfile, librosa and browsers rely on the length in the header.

    Therefore audio is streamed only on request.
    """
    data = post(server, response_format=response_format).content
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        assert file.frames == SAMPLES
        assert same_sound(file.read(dtype="int16").astype("<i2").tobytes(), plain)
    for asked in ({"stream_format": "audio"}, {"stream": True, "stream_format": "audio"}):
        assert "content-length" not in post(server, response_format=response_format, **asked).headers
    openai = {"X-Stainless-Raw-Response": "stream"}
    body = {**BODY, "response_format": response_format}
    assert "content-length" not in httpx.post(f"{server.http}{PATH}", json=body, headers=openai, timeout=30).headers
    whole = httpx.post(f"{server.http}{PATH}", json={**body, "stream": False}, headers=openai, timeout=30)
    assert "content-length" in whole.headers


@pytest.mark.slow("two words-False", "given1-True", "given2-False")
@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("app-7f3a.1:2/3@x=+_", True), ("x" * 128, True), ("x" * 129, False), ("two words", False), ('"};drop', False)],
)
def test_valid_client_request_id_is_returned(
    server: RunningServer, caplog: pytest.LogCaptureFixture, given: str, is_kept: bool
) -> None:
    caplog.set_level("INFO", "runtime")
    headers = {"X-Request-Id": given}
    spoken = httpx.post(f"{server.http}{PATH}", json=BODY, headers=headers, timeout=30)
    refused = httpx.post(f"{server.http}{PATH}", json={**BODY, "speed": 9}, headers=headers)
    missing = httpx.get(f"{server.http}/v1/nowhere", headers=headers)
    assert (spoken.status_code, refused.status_code, missing.status_code) == (200, 400, 404)
    ids = [reply.headers.get_list("x-request-id") for reply in (spoken, refused, missing)]
    if is_kept:
        assert ids == [[given]] * 3
    else:
        assert all(re.fullmatch("[0-9a-f]{16}", id_) for (id_,) in ids)
        assert len({id_ for (id_,) in ids}) == 3
        assert given not in caplog.text
    assert [figures["request"] for record in caplog.records if (figures := vars(record).get("figures"))] == ids[0]


def test_missing_key_error_explains_how_to_send_a_key(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(api_keys="s3cret")) as server:
        reply = httpx.post(f"{server.http}{PATH}", json=BODY)
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert re.fullmatch("[0-9a-f]{16}", reply.headers["x-request-id"])


@pytest.mark.parametrize("extra", [{"response_format": "pcm"}, {"response_format": "wav", "stream": False}])
def test_ignored_text_is_listed_in_a_header(server: RunningServer, extra: dict[str, Any]) -> None:
    body = {**BODY, "task_type": "VoiceDesign", "instructions": "warm " * 101, **extra}
    reply = httpx.post(server.http + PATH, json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    assert "more than 500 characters" in reply.headers["x-notes"]
    assert DESCRIBED_VOICE in reply.headers["x-notes"]
    described = {**body, "instructions": "warm", "voice": None}
    assert "x-notes" not in httpx.post(server.http + PATH, json=described, timeout=60).headers


def test_ignored_text_is_listed_in_the_last_event_and_in_a_batch(server: RunningServer) -> None:
    body = {**BODY, "task_type": "VoiceDesign", "instructions": "warm " * 101}
    events = httpx.post(server.http + PATH, json={**body, "stream_format": "sse"}, timeout=60).text
    last = json.loads(events.strip().split("data: ")[-1])
    assert last["notes"][0] == DESCRIBED_VOICE
    assert "more than 500 characters" in last["notes"][1]
    batch = httpx.post(f"{server.http}{PATH}/batch", json={"items": [body]}, timeout=60).json()
    assert "more than 500 characters" in batch["results"][0]["notes"][1]
