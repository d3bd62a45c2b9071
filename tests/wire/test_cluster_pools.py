"""Tests for a cluster whose replicas have different modes behind one port."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Settings
from tests.support.cluster import LONG, SHORT, RunningCluster, require_cluster, running_cluster
from tests.support.replicas import environment_of
from tests.support.wyoming_client import wyoming

require_cluster()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KEY = "the first key"
EVERYWHERE_S = 2.0  # Seconds until every replica has a new voice or API key, on an idle machine.
SPEAKERS = {"angus", "clara", "nora", "mia", "iris", "reed", "bruno", "owen"}
SAID = LONG[:74]


@dataclass(frozen=True, slots=True)
class Pools:
    """Running cluster with HTTP clients for its port and for the port of each replica."""

    cluster: RunningCluster
    store: Path
    all: httpx.Client
    speakers: httpx.Client
    clones: httpx.Client

    def each(self) -> tuple[httpx.Client, ...]:
        return self.all, self.speakers, self.clones


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pools]:
    folder = tmp_path_factory.mktemp("cluster")
    store = folder / "store"
    store.mkdir()
    (store / "keys.txt").write_text(f"{KEY}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        for_wyoming = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    with (
        running_cluster(
            folder,
            *("--pool", f"speakers=1:custom_voice={DEMO_CHECKPOINT}", "--pool", f"clones=1:base={DEMO_CHECKPOINT}"),
            *("--quantize", "int8", "--eager", "--wyoming", for_wyoming),
            key=KEY,
            VOICEWRIGHT_STORE=f"file://{store}",
            VOICEWRIGHT_QUANTIZE="off",  # The command line has priority over this variable.
            VOICEWRIGHT_QUEUE_S="77.5",
        ) as cluster,
        ExitStack() as stack,
    ):
        asyncio.run(cluster.until(2))

        def client(url: str) -> httpx.Client:
            opened = httpx.Client(base_url=url, headers=cluster.headers, timeout=60.0, trust_env=False)
            return stack.enter_context(opened)

        by_mode = {}
        for port in cluster.runtimes():
            runtime = client(f"http://127.0.0.1:{port}")
            with suppress(httpx.HTTPError):  # A runtime also listens on Wyoming's port, which has no HTTP.
                by_mode[runtime.get("/v1/models").json()["data"][0]["modes"][0]] = runtime
        yield Pools(cluster, store, client(cluster.url), by_mode["custom_voice"], by_mode["base"])


def after(seen: Callable[[], bool]) -> float:
    """Poll a condition until it is true, and return the elapsed seconds."""
    start = time.monotonic()
    while not seen():
        assert time.monotonic() - start < EVERYWHERE_S * 10
        time.sleep(0.02)
    return time.monotonic() - start


def names(client: httpx.Client, path: str, of: str, name: str) -> set[str]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return {str(one[name]) if name else str(one) for one in answer.json()[of]}


def keep(client: httpx.Client, name: str, sound: bytes) -> httpx.Response:
    return client.post(
        "/v1/audio/voices",
        files={"audio_sample": ("a.wav", sound, "audio/wav")},
        data={"name": name, "consent": "It is the demo voice.", "ref_text": SAID},
    )


def test_every_replica_has_the_command_line_settings(pools: Pools) -> None:
    processes = set(pools.cluster.runtimes().values())
    assert len(processes) == 2
    for process in processes:
        settings = Settings.from_env(environment_of(process))
        assert settings.engine == EngineSettings(quantize="int8", eager=True, max_slots=4, threads=1)
        assert settings.limits.queue_s == 77.5
    for client in (pools.speakers, pools.clones):
        assert [model["dtype"] for model in client.get("/v1/models").json()["data"]] == ["int8"]


def test_every_listing_contains_all_voices_and_names_are_unique_everywhere(pools: Pools) -> None:
    listings = [
        ("/v1/audio/voices", "voices", ""),
        ("/v1/open-webui/audio/voices", "voices", "id"),
        ("/v1/voices", "voices", "voice_id"),
        ("/v2/voices", "voices", "voice_id"),
        ("/voices", "data", "id"),
    ]
    after(lambda: names(pools.clones, "/v1/audio/voices", "voices", "") >= SPEAKERS)
    for path, of, name in listings:
        for client in pools.each():
            assert names(client, path, of, name) >= SPEAKERS, (path, client.base_url)
    for client in pools.each():
        assert client.get("/v1/voices/clara").json()["voice_id"] == "clara"
    assert names(pools.all, "/v1/audio/models", "models", "id") >= {"demo-voice", "tts-1"}
    assert pools.all.get("/v1/models/demo-voice").status_code == 200
    assert pools.all.get("/v1/models/nothing").json()["error"]["code"] == "model_not_found"
    speech = {"input": SAID, "voice": "clara", "response_format": "wav"}
    refused = keep(pools.clones, "Clara", pools.all.post("/v1/audio/speech", json=speech).content)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "voice_name_of_speaker")


def test_voice_stored_on_one_replica_can_be_used_and_deleted_on_all(pools: Pools) -> None:
    speech = {"input": SAID, "voice": "clara", "response_format": "wav"}
    kept = keep(pools.speakers, "Kept", pools.all.post("/v1/audio/speech", json=speech).content)
    assert kept.status_code in {200, 201}, kept.text
    took = after(lambda: pools.clones.get("/v1/audio/voices/Kept").status_code == 200)
    # No speaker has this name, so a replica with stored voices serves the request.
    spoken = pools.all.post("/v1/audio/speech", json={"input": SHORT, "voice": "Kept", "response_format": "pcm"})
    assert spoken.status_code == 200, spoken.text
    assert len(spoken.content) > 24_000
    assert any((pools.store / "voices").glob("*.voice"))
    assert pools.clones.delete("/v1/audio/voices/Kept").status_code == 200
    gone = after(lambda: pools.speakers.get("/v1/audio/voices/Kept").status_code == 404)
    print(f"a voice is there after {took:.2f} s, gone after {gone:.2f} s")


def test_api_keys_of_the_store_apply_to_all_replicas(pools: Pools) -> None:
    def are(status: int) -> bool:
        headers = {"x-api-key": "another key"}
        return {client.get("/v1/audio/voices", headers=headers).status_code for client in pools.each()} == {status}

    def hold(words: str) -> None:
        part = pools.store / "keys.part"
        part.write_text(words)
        part.replace(pools.store / "keys.txt")

    assert are(401)
    hold(f"{KEY}\nanother key\n")
    took = after(lambda: are(200))
    hold(f"{KEY}\n")
    gone = after(lambda: are(401))
    print(f"a key is good after {took:.2f} s, void after {gone:.2f} s")


async def test_home_assistant_can_speak_through_the_cluster_port(pools: Pools) -> None:
    uri = pools.all.get("/ready").json()["ports"]["wyoming"]

    async with wyoming(uri) as client:
        await client.send("describe")
        reply = await client.until("info")
        assert {voice["name"] for voice in reply.last["tts"][0]["voices"]} >= SPEAKERS
        await client.send("synthesize", text=SHORT, voice={"name": "clara"})
        heard = await client.until("audio-stop", "error")
        assert heard.kinds == ["audio-start", "audio-chunk", "audio-stop"]
        assert len(heard.pcm) > 24_000
