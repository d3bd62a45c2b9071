"""Tests for misbehaving clients: disconnects at any byte, silence and unread responses."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import threading
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from runtime.settings import EngineSettings, Limits, ServerSettings
from tests.conftest import FolderOf
from tests.support.raw_websocket import HANDSHAKE, deaf_socket, message
from tests.support.runtime_server import FREED_FRAMES, RunningServer, running_server
from tests.support.speech_client import PROTOCOL, Talk, speak_text, talk
from tests.support.timeouts import until
from tests.wire.conftest import Serving

pytestmark = pytest.mark.slow

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}


async def test_thousand_disconnects_at_any_byte_leak_no_resources(either: RunningServer, ref_audio: str) -> None:
    dice = random.Random(1)
    clone = {"task_type": "base", "ref_audio": ref_audio, "ref_text": "Words.", "max_frames": 4000}
    text = [message(type="input.text", text="Speak for "), message(type="input.text", text="a long time.")]
    scripts = [
        HANDSHAKE + message(type="session.config", **LONG) + b"".join(text) + message(type="input.done"),
        HANDSHAKE + message(type="session.config", **LONG) + b"".join(text) + message(type="input.flush"),
        HANDSHAKE
        + message(type="session.config", **LONG, frames="labelled")
        + message(type="input.text", context_id="a", text="One.")
        + message(type="input.text", context_id="b", text="Two.")
        + message(type="input.done", context_id="a")
        + message(type="context.cancel", context_id="b"),
    ]
    # The large message is rare. It is usually cut near its end, where the server does most of the work.
    big = HANDSHAKE + message(type="session.config", **clone) + text[0] + text[1]

    async def hang_up() -> None:
        script = dice.choice(scripts) if dice.random() < 0.95 else big
        cut = dice.randrange(1, len(script) + 1) if dice.random() < 0.5 else len(script)
        reader, writer = await asyncio.open_connection("127.0.0.1", either.port)
        with suppress(ConnectionError, TimeoutError):
            writer.write(script[: min(cut, len(HANDSHAKE))])
            if cut > len(HANDSHAKE):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(script[len(HANDSHAKE) : cut])
            if cut == len(script) and dice.random() < 0.7:
                # Usually read some of the audio. Without the end of the text, there may be no audio.
                await asyncio.wait_for(reader.readexactly(dice.randrange(1, 12_000)), 0.5)
            elif dice.random() < 0.5:
                await asyncio.sleep(dice.random() * 0.02)
        writer.transport.abort()

    assert (await speak_text(either.socket, "First.", **VOICE)).end["type"] == "audio.done"
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))

    async def one_after_the_other() -> None:
        while left:
            left.pop()
            await hang_up()

    left = list(range(250 if either.runtime_port else 1000))
    await asyncio.gather(*(one_after_the_other() for _ in range(16)))
    either.wait_until_idle()
    either.wait_for_no_tasks()
    until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 2)
    assert threading.active_count() <= threads + 3  # Two decoder threads and a thread for long texts may have started.
    assert (await speak_text(either.socket, "Still here.", **VOICE)).end["type"] == "audio.done"
    nobody = 'voicewright_sessions{dialect="voicewright"} 0.0'
    until(lambda: nobody in either.metrics())  # The studio closes its connection later.


@pytest.mark.quick
async def test_cancel_after_input_done_stops_within_a_frame_and_no_message_follows(either: RunningServer) -> None:
    async with talk(either.socket, **LONG, frames="labelled") as session:
        for number in range(5):
            await session.send_text("Speak for a long time.", context_id=f"c{number}")
            await session.receive_until("audio.start")
            await session.receive()
            await session.send("context.cancel", context_id=f"c{number}")
            while isinstance(message := await session.receive(), bytes):
                pass
            assert message["type"] == "context.cancelled"
            await session.send("ping", t=number)
            assert await session.receive() == {"type": "pong", "t": number}
            assert either.frames_until_idle() <= FREED_FRAMES


async def test_sessions_waiting_for_text_do_not_block_other_sessions(server: RunningServer) -> None:
    async with asyncio.timeout(60):
        async with asyncio.TaskGroup() as group:
            done = asyncio.Event()

            async def dawdle() -> None:
                async with talk(server.socket, **VOICE):
                    opened.release()
                    await done.wait()

            opened = asyncio.Semaphore(0)
            for _ in range(40):
                group.create_task(dawdle())
            for _ in range(40):
                await opened.acquire()
            for _ in range(3):
                assert (await speak_text(server.socket, "Me.", **VOICE)).end["type"] == "audio.done"
            done.set()


async def test_client_that_reads_nothing_is_disconnected_with_a_reason(serving: Serving, folder_of: FolderOf) -> None:
    engine = EngineSettings(threads=1, max_slots=1)
    server_settings = ServerSettings(send_s=1.0, send_buffer_bytes=4096)
    with serving(folder_of("brief", "custom_voice"), engine=engine, server=server_settings) as server:
        async with asyncio.timeout(60):
            deaf = deaf_socket(server.port)
            async with connect(server.socket, subprotocols=[PROTOCOL], sock=deaf, compression=None) as connection:
                session = Talk(connection)
                await session.send("session.config", **LONG)
                await session.send_text("Speak for a long time.")
                await session.receive_until("audio.start")
                connection.transport.pause_reading()
                while server.tasks():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                connection.transport.resume_reading()
                assert await session.closed() == (1008, "slow_reader")
        server.wait_until_idle()
        assert (await speak_text(server.socket, "Next.", **VOICE)).end["type"] == "audio.done"
        assert 'voicewright_refusals_total{code="slow_reader"} 1.0' in server.metrics()


async def connect_without_reading(server: RunningServer, **config: Any) -> tuple[Talk, ClientConnection]:
    """Return the session and the connection of a client that stops reading the audio."""
    deaf = deaf_socket(server.port)
    connection = await connect(server.socket, subprotocols=[PROTOCOL], sock=deaf, compression=None, ping_interval=None)
    session = Talk(connection)
    await session.send("session.config", **config)
    await session.send_text("Speak for a long time.")
    await session.receive_until("audio.start")
    connection.transport.pause_reading()
    return session, connection


def test_twenty_clients_that_read_nothing_use_little_memory_and_affect_no_other_client(
    serving: Serving, folder_of: FolderOf
) -> None:
    engine = EngineSettings(threads=1, max_slots=24, reader_s=0.5)
    server_settings = ServerSettings(send_s=4.0, send_buffer_bytes=4096)
    with serving(folder_of("brief", "custom_voice"), engine=engine, server=server_settings) as server:

        async def scenario() -> None:
            crowd = await asyncio.gather(*(connect_without_reading(server, **LONG) for _ in range(20)))
            before = memory()
            assert (await speak_text(server.socket, "Me.", **VOICE)).end["type"] == "audio.done"
            while server.load()["active"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            assert memory() - before < 64 * 2**20
            for _, connection in crowd:
                connection.transport.abort()

        asyncio.run(asyncio.wait_for(scenario(), 100))
        assert 'voicewright_refusals_total{code="slow_reader"} 20.0' in server.metrics()


async def test_row_of_a_stalled_reader_pauses_and_resumes(serving: Serving, folder_of: FolderOf) -> None:
    engine = EngineSettings(threads=1, max_slots=2, reader_s=0.5)
    server_settings = ServerSettings(send_buffer_bytes=4096)
    with serving(folder_of("brief", "custom_voice"), engine=engine, server=server_settings) as server:
        async with asyncio.timeout(100):
            deaf, connection = await connect_without_reading(server, **{**LONG, "max_frames": 800})
            counts = [-1, 0, 1]
            while len(set(counts)) > 1:  # The network buffers fill first, which takes time on a busy machine.
                await asyncio.sleep(0.5)
                counts = [*counts[1:], server.frames_made()]
            start_s = time.process_time()
            await asyncio.sleep(1.5)
            work_s = time.process_time() - start_s
            connection.transport.resume_reading()
            take = await deaf.receive_take()
            assert (take.end["type"], take.end["metrics"]["frames"]) == ("audio.done", 800)
            assert len(take.pcm) == take.end["total_bytes"] == 800 * 3840
            assert work_s < 0.4


def memory() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", HANDSHAKE[:-2]],
    ids=["silent", "half a line", "half a header", "all but the end"],
)
async def test_incomplete_request_times_out(serving: Serving, folder_of: FolderOf, begun: bytes) -> None:
    with serving(folder_of("brief", "custom_voice"), server=ServerSettings(header_s=0.8)) as server:

        async def dawdle(*first: bytes) -> float:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for request in first:  # The server responds to each request and keeps the connection open.
                writer.write(request)
                assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
            start_s = time.monotonic()
            for byte in begun:
                if reader.at_eof():
                    break
                with suppress(ConnectionError):
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.002)
            with suppress(ConnectionError):
                while await asyncio.wait_for(reader.read(1000), 60):
                    pass
            writer.close()
            return time.monotonic() - start_s

        assert await dawdle() > 0.7
        if begun:
            assert await dawdle(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") > 0.7
        assert (await speak_text(server.socket, "Next.", **VOICE)).end["type"] == "audio.done"


async def test_idle_connections_do_not_exhaust_the_limit(
    serving: Serving, folder_of: FolderOf, caplog: pytest.LogCaptureFixture
) -> None:
    few = ServerSettings(max_connections=20, header_s=60)
    with serving(folder_of("brief", "custom_voice"), server=few) as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(300)]
        async with httpx.AsyncClient(base_url=server.http, trust_env=False) as client:
            assert (await client.get("/v1/models")).status_code == 200
        assert (await speak_text(server.socket, "Me.", **VOICE)).end["type"] == "audio.done"
        async with asyncio.timeout(60):  # Wait until the connections are closed.
            while sum(reader.at_eof() or reader.exception() is not None for reader, _ in silent) < 300 - 2 * 20:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for _, writer in silent:
            writer.transport.abort()
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.quick
async def test_session_is_warned_before_its_maximum_duration(serving: Serving, folder_of: FolderOf) -> None:
    with serving(folder_of("brief", "custom_voice"), limits=Limits(session_s=4)) as server:
        async with talk(server.socket, **LONG) as session:
            await session.send_text("Speak for a long time.")
            assert 0 < (await session.receive_until("session.expiring"))["remaining_s"] <= 0.4
            assert (await session.receive_until("error"))["code"] == "session_timeout"
            assert await session.closed() == (1008, "session_timeout")


@pytest.mark.quick
def test_keys_tickets_and_origins_are_enforced_on_real_sockets(folder_of: FolderOf) -> None:
    settings = ServerSettings(api_keys="s3cret", origins="https://app.example")
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:
        headers = {"Authorization": "Bearer s3cret"}
        preflight = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        with httpx.Client(base_url=server.http) as client:
            refused = client.get("/v1/models")
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
            assert client.get("/v1/models", headers=headers).status_code == 200
            allowed = client.options("/v1/session_ticket", headers=preflight)
            assert allowed.headers["access-control-allow-origin"] == "https://app.example"
            ticket = client.post("/v1/session_ticket", headers=headers).json()["ticket"]

        codes: list[str] = []

        async def opened(url: str, *subprotocols: str, **kwargs: Any) -> int:
            try:
                async with connect(url, subprotocols=[PROTOCOL, *subprotocols], **kwargs) as connection:
                    assert connection.subprotocol == PROTOCOL
                    created = await Talk(connection).receive()
                    assert isinstance(created, dict)
                    assert created["type"] == "session.created"
                    return 101
            except InvalidStatus as refusal:
                codes.append(json.loads(refusal.response.body or b"")["error"]["code"])
                return refusal.response.status_code

        async def scenario() -> None:
            assert await opened(server.socket) == 401
            assert await opened(server.socket, additional_headers=headers) == 101
            assert await opened(server.socket, "voicewright.token.s3cret") == 101
            assert await opened(server.socket, "voicewright.token.guess") == 401
            assert await opened(f"{server.socket}?ticket={ticket}", origin="https://app.example") == 101
            assert await opened(f"{server.socket}?ticket={ticket}", origin="https://app.example") == 401
            assert await opened(server.socket, additional_headers=headers, origin="https://evil.example") == 403
            assert codes == ["unauthorized"] * 3 + ["origin_refused"]

        asyncio.run(scenario())


@pytest.mark.quick
def test_client_input_is_neither_echoed_nor_logged(folder_of: FolderOf, caplog: pytest.LogCaptureFixture) -> None:
    canary = "canary7f3a"
    caplog.set_level(logging.DEBUG)
    logging.getLogger("websockets.client").setLevel(logging.WARNING)  # Hide log messages of the test's own client.
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    said: list[object] = []
    configs: list[dict[str, Any]] = [
        VOICE,
        {"voice": canary},
        {"task_type": "base", "voice": canary},
        {"task_type": canary},
        {"model": f"/models/{canary}"},
        {"language": canary},
        {"instructions": canary * 60},
        {"task_type": "base", "ref_audio": f"/etc/{canary}", "ref_text": canary},
        {"task_type": "base", "ref_audio": f"file:///etc/{canary}", "ref_text": canary},
        {"task_type": "base", "ref_audio": f"https://{canary}.example/x.wav"},
        {"response_format": canary},
        {canary: canary, "seed": canary},
    ]

    async def scenario(server: RunningServer, headers: dict[str, str]) -> None:
        for config in configs:
            async with connect(server.socket, subprotocols=[PROTOCOL], additional_headers=headers) as connection:
                session = Talk(connection)
                await session.send("session.config", **{"max_frames": 2, **config})
                await session.send_text(f"Say {canary}.")
                said.append(await session.receive_until("audio.done", "error"))
                await connection.send(canary)
                said.append(await session.receive_until("error"))
                said.append(await session.closed())

    keys = ServerSettings(api_keys="s3cret")
    with running_server(folder_of("brief", "custom_voice"), folder_of("brief", "base"), server=keys) as server:
        asyncio.run(scenario(server, {"X-API-Key": "s3cret"}))
        bad = {"X-API-Key": canary, "Origin": f"https://{canary}"}
        for headers in ({}, bad, {"X-API-Key": "s3cret"}):
            for method in ("GET", "POST"):
                answer = httpx.request(method, f"{server.http}/{canary}?ticket={canary}", headers=headers, json=canary)
                said.append((answer.text, answer.headers))
        said.append(httpx.get(f"{server.http}/metrics", headers={"X-API-Key": "s3cret"}).text)
    assert "request ended" in caplog.text
    assert len(said) == 3 * len(configs) + 7
    for secret in (canary, "s3cret", str(folder_of("brief", "custom_voice").parent)):
        assert secret not in str(said)
        assert secret not in caplog.text
