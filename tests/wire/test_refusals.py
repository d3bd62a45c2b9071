"""Tests for HTTP error statuses and error codes that other test files do not cover."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from runtime.engine.execution.model_runner import ModelRunner
from runtime.model.talker import Talker
from runtime.settings import EngineSettings, Limits, ServerSettings
from tests.conftest import FolderOf
from tests.support.audio_files import audio_file
from tests.support.errors import BY_CODE
from tests.support.runtime_server import RunningServer, running_server
from tests.support.signals import voice
from tests.support.speech_client import speak_text, talk
from tests.wire.conftest import Serving

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}
ONE_SLOT = EngineSettings(threads=1, max_slots=1)


def post(server: RunningServer, text: str = "Hello.", **fields: Any) -> httpx.Response:
    body = {"input": text, "response_format": "pcm", "max_frames": 5, **fields}
    return httpx.post(f"{server.http}/v1/audio/speech", json=body, timeout=30)


def refused(reply: httpx.Response, code: str) -> None:
    """Check the error code of a response, and the status and fields that belong to the code."""
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (BY_CODE[code].http_status, code)
    assert error["retryable"] is BY_CODE[code].retryable
    assert ("retry-after" in reply.headers) == (BY_CODE[code].close_code == 1013)


def recording(seconds: float) -> str:
    return base64.b64encode(audio_file(voice(seconds, 5))).decode()


@pytest.mark.slow
async def test_queued_request_reports_its_wait_and_times_out(serving: Serving, folder_of: FolderOf) -> None:
    with serving(folder_of("brief", "custom_voice"), engine=ONE_SLOT, limits=Limits(queue_s=0.5)) as server:
        await speak_text(server.socket, "First.", **VOICE)  # After this request, the server can estimate waiting times.
        async with talk(server.socket, **LONG) as speaking, talk(server.socket, **VOICE) as waiting:
            await speaking.send_text("Speak for a long time.")
            await speaking.first_audio()
            await waiting.send_text("Me too.")
            queued = await waiting.receive_until("queue")
            assert queued["position"] == 0
            assert queued["eta_ms"] > 0
            error = await waiting.receive_until("error")
            assert (error["code"], error["retryable"]) == ("queue_timeout", True)
            refused(await asyncio.to_thread(post, server), "queue_timeout")
            await speaking.send("context.cancel")
            await speaking.receive_until("context.cancelled")
            await waiting.send_text("And now?")
            assert (await waiting.receive_take()).end["type"] == "audio.done"


def test_requests_over_the_rate_limit_are_refused(folder_of: FolderOf) -> None:
    settings = ServerSettings(requests_per_minute=2)
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:
        assert [httpx.get(f"{server.http}/v1/models").status_code for _ in range(2)] == [200, 200]
        refused(httpx.get(f"{server.http}/v1/models"), "rate_limited")
        assert handshake(server) == "rate_limited"
        assert httpx.get(f"{server.http}/ready").status_code == 200  # The rate limit does not count health checks.


def test_utterances_over_the_rate_limit_are_refused(folder_of: FolderOf) -> None:
    settings = ServerSettings(requests_per_minute=3)
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:

        async def scenario() -> None:
            async with talk(server.socket, **VOICE) as session:
                # For the rate limit, the WebSocket handshake and the first request are one request.
                for code in (None, None, None, "rate_limited"):
                    await session.send_text("Once more.")
                    end = (await session.receive_take()).end
                    assert end.get("code") == code
                assert end["retry_after_s"] > 1

        asyncio.run(scenario())
        refused(post(server), "rate_limited")
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:
        items = [{"input": "Hello.", "max_new_tokens": 5}] * 5
        response = httpx.post(f"{server.http}/v1/audio/speech/batch", json={"items": items}, timeout=30).json()
        assert (response["succeeded"], response["failed"]) == (3, 2)


def test_connections_over_the_limit_are_refused(serving: Serving, folder_of: FolderOf) -> None:
    settings = ServerSettings(max_connections=1)
    with serving(folder_of("brief", "custom_voice"), server=settings) as server:

        async def scenario() -> None:
            async with talk(server.socket, **VOICE) as session:
                refused(await asyncio.to_thread(post, server), "too_many_connections")
                assert await asyncio.to_thread(handshake, server) == "too_many_connections"
                await session.send_text("I am in.")
                assert (await session.receive_take()).end["type"] == "audio.done"

        asyncio.run(scenario())
        while server.tasks():
            time.sleep(0.01)
        assert post(server).status_code == 200


def handshake(server: RunningServer) -> str:
    """Return the error code of a refused WebSocket handshake."""

    async def knock() -> str:
        with pytest.raises(InvalidStatus) as caught:
            async with talk(server.socket):
                pass
        body = json.loads(caught.value.response.body or b"")
        assert caught.value.response.status_code == BY_CODE[body["error"]["code"]].http_status
        return str(body["error"]["code"])

    return asyncio.run(knock())


async def test_out_of_order_and_too_many_contexts_are_refused(serving: Serving, folder_of: FolderOf) -> None:
    with serving(folder_of("brief", "custom_voice"), limits=Limits(max_contexts=2)) as server:
        async with talk(server.socket) as session:
            await session.send("input.text", text="Before any voice.")
            assert (await session.receive_until("error"))["code"] == "out_of_order"
            await session.send("session.config", **LONG, frames="labelled")
            for name in "abc":
                await session.send("input.text", context_id=name, text="One of many. ")
            error = await session.receive_until("error")
            assert (error["code"], error["context_id"]) == ("too_many_contexts", "c")
        server.wait_until_idle()


def test_requests_unsupported_by_the_checkpoint_are_refused(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = tmp_path / "one-layout"
    shutil.copytree(folder_of("brief", "custom_voice"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "voicewright_layouts": ["streaming"]}))
    with running_server(folder, engine=EngineSettings(threads=1, max_slots=1, max_model_len=256)) as server:
        refused(post(server, non_streaming_mode=True), "unsupported_layout")
        refused(post(server, max_frames=300), "does_not_fit")
        refused(post(server, task_type="Base", ref_audio=recording(2), ref_text="Words."), "model_not_loaded")
        assert post(server).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "code"), [(0.5, "ref_too_short"), (3.5, "ref_too_long")])
def test_too_short_or_too_long_references_are_refused(folder_of: FolderOf, seconds: float, code: str) -> None:
    with running_server(folder_of("brief", "base"), limits=Limits(max_reference_s=3)) as server:
        refused(post(server, ref_audio=recording(seconds), ref_text="Words."), code)
        assert post(server, ref_audio=recording(2), ref_text="Words.").status_code == 200


@pytest.mark.logs_errors
def test_checkpoint_that_cannot_be_loaded_fails_only_its_mode(folder_of: FolderOf, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder_of("brief", "voice_design"), broken)
    (broken / "model.safetensors").write_bytes(b"\x08" + bytes(40))
    engine = EngineSettings(threads=1, max_slots=1, loads="first_use")
    with running_server(folder_of("brief", "custom_voice"), broken, engine=engine) as server:
        for _ in range(2):  # The server refuses the second request before it is queued.
            reply = post(server, task_type="VoiceDesign", instructions="Calm.")
            refused(reply, "checkpoint_unusable")
            assert str(tmp_path) not in reply.text
        assert post(server).status_code == 200


@pytest.mark.logs_errors
def test_non_finite_numbers_end_the_request_and_not_the_server(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = Talker.logits
    with running_server(folder_of("brief", "custom_voice")) as server:
        with monkeypatch.context() as patch:
            patch.setattr(Talker, "logits", lambda *given: logits(*given) * math.inf)
            refused(post(server), "non_finite_output")
        assert post(server).status_code == 200


@pytest.mark.logs_errors
def test_internal_error_is_reported_without_its_cause(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(folder_of("brief", "custom_voice")) as server:

        def fails(*_: object) -> None:
            raise RuntimeError("/home/somebody/secret: traceback")

        with monkeypatch.context() as patch:
            patch.setattr(ModelRunner, "prefill_chunks", fails)
            reply = post(server)
            refused(reply, "generation_failed")
            assert "secret" not in reply.text
        assert post(server).status_code == 200
