"""Tests for metrics and logs: each request is counted once, and no text is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.settings import EngineSettings, Limits
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import speak_text, talk
from tests.support.timeouts import until
from tests.wire import test_cartesia as cartesia
from tests.wire import test_omni as omni
from tests.wire.test_openai import raw, wait_for_sound

TEXT = "Nobody is to read this."
LONG: dict[str, Any] = {"input": TEXT, "max_frames": 4000, "response_format": "pcm"}
ONE_SLOT = EngineSettings(threads=1, max_slots=1)
Counts = dict[tuple[str, ...], float]


@pytest.fixture
def running(folder_of: FolderOf) -> Iterator[RunningServer]:
    with running_server(folder_of("brief", "custom_voice"), engine=ONE_SLOT) as server:
        yield server


def counts(server: RunningServer) -> Counts:
    """Return the number of ended requests by (dialect, outcome), and of refusals by code."""
    found: Counts = {}
    for family in text_string_to_metric_families(httpx.get(f"{server.http}/metrics").text):
        for sample in family.samples:
            if sample.name == "voicewright_requests_total":
                found[sample.labels["dialect"], sample.labels["outcome"]] = sample.value
            if sample.name == "voicewright_refusals_total":
                found["refused", sample.labels["code"]] = sample.value
    return found


def post(server: RunningServer, path: str = "/v1/audio/speech", **fields: Any) -> int:
    body = {"input": TEXT, "max_frames": 5, "seed": 1, "response_format": "pcm", **fields}
    return httpx.post(server.http + path, json=body, timeout=30).status_code


def test_every_dialect_is_counted_by_name_and_logged(running: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert post(running) == post(running, stream=False) == post(running, stream_format="sse") == 200
    assert post(running, "/v1/audio/speech/batch", items=[{"input": TEXT}, {"input": TEXT}]) == 200
    asyncio.run(speak_text(running.socket, TEXT, task_type="custom_voice", max_frames=5, seed=1))
    asyncio.run(omni.speak(running, TEXT, **{**omni.SHORT, "max_new_tokens": 6, "seed": 1}))
    asyncio.run(cartesia.said(running, TEXT, max_frames=5, seed=1))
    wanted = {"openai": 5, "voicewright": 1, "omni": 1, "cartesia": 1}
    assert counts(running) == {(dialect, "max_tokens"): count for dialect, count in wanted.items()}
    lines = [record.__dict__["figures"] for record in caplog.records if record.getMessage().startswith("request ended")]
    assert Counter(line["dialect"] for line in lines) == wanted
    assert len({line["request"] for line in lines}) == 8
    for line in lines:
        assert (line["mode"], line["stop"], line["chars"]) == ("custom_voice", "max_tokens", len(TEXT))
        assert line["frames"] == 5
        assert line["ttfa_ms"] > 0
    assert TEXT not in caplog.text
    assert TEXT not in json.dumps(lines)


def test_disconnect_counts_as_a_cancelled_request(running: RunningServer) -> None:
    with raw(running, LONG) as connection:
        wait_for_sound(running, connection)
    running.wait_until_idle()
    assert until(lambda: counts(running)) == {("openai", "cancelled"): 1}


def test_refusal_is_counted_by_code_and_not_as_a_request(running: RunningServer) -> None:
    assert post(running, input="") == 400
    assert post(running, voice="nobody", stream_format="sse") == 404
    assert post(running, response_format="midi", stream=False) == 400
    assert post(running, "/v1/audio/speech/batch", items=[{"input": ""}]) == 200
    assert httpx.delete(f"{running.http}/v1/audio/voices/nobody").status_code == 404
    assert counts(running) == {
        ("refused", "empty_text"): 2,
        ("refused", "unknown_voice"): 1,
        ("refused", "unsupported_format"): 1,
        ("refused", "voice_not_found"): 1,
    }


async def test_queue_timeout_counts_as_an_ended_request_and_not_as_a_refusal(folder_of: FolderOf) -> None:
    async def crowd(running: RunningServer) -> None:
        async with talk(running.socket, task_type="custom_voice", max_frames=4000) as session:
            await session.send_text(TEXT)
            await session.receive_until("audio.start")
            assert await asyncio.to_thread(post, running) == 503

    with running_server(folder_of("brief", "custom_voice"), engine=ONE_SLOT, limits=Limits(queue_s=0.3)) as running:
        await crowd(running)
        assert counts(running)["openai", "queue_timeout"] == 1
        assert ("refused", "queue_timeout") not in counts(running)


def test_openapi_document_and_page_are_served_on_both_ports(either: RunningServer) -> None:
    described = httpx.get(f"{either.http}/openapi.json").json()
    assert described["openapi"] == "3.1.0"
    page = httpx.get(f"{either.http}/openapi")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert all(
        f'id="{operation["operationId"]}"' in page.text for operation in described["paths"]["/v1/models"].values()
    )
