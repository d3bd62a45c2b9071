"""Tests for a cluster of runtime processes behind one port."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect as connect_socket

from tests.support.cluster import (
    LONG,
    SHORT,
    Load,
    RunningCluster,
    hold_requests,
    on_a_loop,
    receive_stream,
    require_cluster,
    running_cluster,
)
from voicewright import SpeechRefused, connect

require_cluster()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    # In these tests, some streams have a slot but do not read their audio for a while. Long timeouts keep these streams
    # and the waiting streams open.
    timeouts = {f"VOICEWRIGHT_{name}": "300" for name in ("PING_S", "SEND_S", "QUEUE_S", "DRAIN_S")}
    with running_cluster(folder, "--replicas", "2", VOICEWRIGHT_MAX_WAITING="1", **timeouts) as running:
        yield running


@on_a_loop
async def test_new_streams_use_the_least_loaded_replica_until_the_cluster_is_full(
    cluster: RunningCluster,
) -> None:
    async with AsyncExitStack() as held:
        for number in range(1, 9):  # One stream per slot.
            await held.enter_async_context(hold_requests(cluster.url))
            active, _ = await cluster.until_busy(active=number)
            if number == 4:
                assert active == [2, 2]
        # Each replica has one request in its queue.
        waiting = [asyncio.create_task(receive_stream(cluster.url, SHORT)) for _ in range(2)]
        assert await cluster.until_busy(active=8, waiting=2) == ([4, 4], [1, 1])
        async with connect(cluster.url) as client:
            with pytest.raises(SpeechRefused) as refused:
                await anext(aiter(client.speak(SHORT)))
        assert (refused.value.code, refused.value.retryable) == ("overloaded", True)
        assert refused.value.retry_after_s > 0
        async with httpx.AsyncClient(base_url=cluster.url) as client:
            answer = await client.post("/v1/audio/speech", json={"input": SHORT})
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "overloaded")
        assert float(answer.headers["retry-after"]) > 0
    assert [heard.error for heard in await asyncio.gather(*waiting)] == [""] * 2


PCM = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
CLARA = {"mode": "id", "id": "clara"}
SOCKETS: dict[str, list[dict[str, Any]]] = {
    "/v1/audio/speech/stream": [
        {"type": "session.config", "voice": "clara", "stream_audio": True, "response_format": "pcm"},
        {"type": "input.text", "text": SHORT},
        {"type": "input.done"},
    ],
    "/tts/websocket": [
        {"context_id": "c1", "model_id": "sonic-3", "transcript": SHORT, "voice": CLARA, "output_format": PCM}
    ],
    "/v1/text-to-speech/clara/multi-stream-input": [
        {"text": " ", "context_id": "c1"},
        {"text": SHORT, "context_id": "c1", "flush": True},
        {"context_id": "c1", "close_context": True},
    ],
}


@pytest.mark.parametrize("path", SOCKETS)
def test_proxy_forwards_websockets_of_every_dialect(cluster: RunningCluster, path: str) -> None:
    async def talk() -> int:
        sounds = 0
        async with asyncio.timeout(60), connect_socket(f"ws{cluster.url.removeprefix('http')}{path}") as socket:
            for message in SOCKETS[path]:
                await socket.send(json.dumps(message))
            async for received in socket:
                message = {"data": received} if isinstance(received, bytes) else json.loads(received)
                assert "error" not in message or not message["error"], message
                sounds += bool(message.get("data") or message.get("audio"))
                if message.get("type") in {"session.done", "done"} or message.get("isFinal"):
                    return sounds
        raise AssertionError("it was closed before the end was told")

    assert asyncio.run(talk()) > 0


@on_a_loop
async def test_proxy_forwards_http_of_every_dialect_and_metrics_cover_all_replicas(cluster: RunningCluster) -> None:
    async with httpx.AsyncClient(base_url=cluster.url, timeout=60.0) as client:
        spoken = await client.post("/v1/audio/speech", json={"input": SHORT, "response_format": "pcm"})
        assert spoken.status_code == 200
        assert len(spoken.content) > 24_000
        eleven = await client.post("/v1/text-to-speech/clara", json={"text": SHORT})
        assert eleven.status_code == 200
        bytes_ = await client.post(
            "/tts/bytes",
            json={
                "model_id": "sonic-2",
                "transcript": SHORT,
                "voice": CLARA,
                "output_format": PCM,
            },
        )
        assert bytes_.status_code == 200
        assert (await client.get("/-/healthz")).text == "success"  # KubeRay requests this route.
        ready = (await client.get("/ready")).json()
        assert (ready["status"], ready["slots"], ready["replicas"]) == ("ready", 8, 2)
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["demo-voice"]
        page = (await client.get("/metrics")).text
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    own = [line for line in lines if line.startswith("voicewright_slots{")]
    assert sorted(float(line.split()[-1]) for line in own) == [4.0, 4.0]
    assert "voicewright_cluster_slots 8.0" in lines
    assert "voicewright_cluster_replicas 2.0" in lines


@on_a_loop
async def test_scaling_and_rolling_updates_interrupt_no_stream(cluster: RunningCluster) -> None:
    before = cluster.ready()
    load = Load(cluster.url, LONG[:148])
    load.begin(4)
    await cluster.change("--replicas", "4")
    more = await cluster.until(4)
    assert set(before) <= set(more), "the others were not replaced"
    assert await cluster.until_each_speaks() == 4
    await cluster.change("--replicas", "2")
    fewer = await cluster.until(2)
    assert set(fewer) < set(more)
    await cluster.change("--replicas", "2", "--restart")
    renewed = await cluster.until(2)
    assert not set(renewed) & set(more)
    heard = await load.end()
    print(f"{len(heard)} streams")
    assert len(heard) >= 8
    assert [one.error for one in heard if one.error] == []


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="Debian's haproxy is not installed")
def test_system_haproxy_accepts_the_same_configuration(tmp_path: Path) -> None:
    import subprocess

    from runtime.cluster.haproxy import configuration, map_files
    from runtime.settings import ServerSettings, Settings

    path = tmp_path / "haproxy.cfg"
    settings = Settings(server=ServerSettings(wyoming="tcp://0.0.0.0:10200"))
    for name, text in map_files(settings, {}).items():
        (tmp_path / name).write_text(text)
    path.write_text(configuration(settings, folder=tmp_path, view_port=9))
    done = subprocess.run(["haproxy", "-c", "-q", "-f", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
