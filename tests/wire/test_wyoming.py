"""Tests for Wyoming over real connections: audio, refusals and attacks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest
from zeroconf import ServiceStateChange
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from runtime.errors import InvalidSetting, PortInUse
from runtime.server.launch import listen
from runtime.server.serve import run
from runtime.server.wyoming.announcement import SERVICE
from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Limits, ServerSettings, Settings
from tests.conftest import FolderOf
from tests.support.runtime_server import FREED_FRAMES, RunningServer, running_server
from tests.support.wyoming_client import ReceivedEvents, WyomingClient, wyoming

ANY_PORT = "tcp://127.0.0.1:0"
LIMIT = 4096
TEXT = "Tea. Is it hot?"
LONG = "This goes on for longer than anybody wants to listen. " * 20
FRAME_BYTES = 2 * 1920


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Run a server with the embedded voice, whose speech ends with EOS.

    The Wyoming protocol has no frame limit.
    """
    with running_server(
        DEMO_CHECKPOINT,
        engine=EngineSettings(threads=1, max_slots=2),
        limits=Limits(max_message_bytes=LIMIT),
        server=ServerSettings(wyoming=ANY_PORT, max_connections=4),
    ) as running:
        yield running


def uri_of(server: RunningServer) -> str:
    return str(server.load()["ports"]["wyoming"])


async def answer_to(server: RunningServer, *bytes_sent: bytes) -> ReceivedEvents:
    """Send raw bytes, and return all events up to the end of the connection."""
    async with wyoming(uri_of(server)) as client:
        for data in bytes_sent:
            await client.write(data)
        return await client.until()


# --- Tests of requests for speech.


async def test_complete_wyoming_text_is_spoken(server: RunningServer) -> None:
    async with wyoming(uri_of(server)) as client:
        await client.send("synthesize", text="Hello.", voice={"name": "clara"})
        heard = await client.until("audio-stop")
    assert heard.kinds == ["audio-start", "audio-chunk", "audio-stop"]
    assert any(heard.pcm)
    assert len(heard.pcm) % FRAME_BYTES == 0
    assert 'voicewright_requests_total{dialect="wyoming",mode="custom_voice",outcome="eos"}' in server.metrics()


async def test_streamed_wyoming_text_is_spoken_before_its_end(server: RunningServer) -> None:
    async with wyoming(uri_of(server)) as client:
        await client.send("synthesize-start")
        for piece in TEXT.split(" "):
            await client.send("synthesize-chunk", text=f"{piece} ")
        before = await client.until("audio-chunk")
        await client.send("synthesize", text=TEXT)
        await client.send("synthesize-stop")
        after = await client.until("synthesize-stopped")
    assert before.kinds == ["audio-start", "audio-chunk"]
    assert after.kinds[-2:] == ["audio-stop", "synthesize-stopped"]
    assert any(before.pcm + after.pcm)


async def test_disconnect_releases_its_slot(server: RunningServer) -> None:
    async with wyoming(uri_of(server)) as client:
        await client.send("synthesize", text=LONG)
        await client.until("audio-chunk")
    assert await asyncio.to_thread(server.frames_until_idle) <= FREED_FRAMES


async def test_wyoming_describe_and_ping_events_are_answered(server: RunningServer) -> None:
    async with wyoming(uri_of(server)) as client:
        await client.write(b'{"type": "describe"}\n')  # The message is a single line without data.
        info = await client.until("info")
        await client.send("ping", text="there?")
        pong = await client.until("pong")
    assert {"clara", "angus"} <= {voice["name"] for voice in info.last["tts"][0]["voices"]}
    assert pong.last == {"text": "there?"}


# --- Tests of requests that the server refuses.


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"hello\n", "invalid_json"),
        (b"\xff\xfe\n", "invalid_json"),
        (b"[]\n", "invalid_json"),
        (b"[" * 3000 + b"\n", "invalid_json"),
        (b'{"type": 7}\n', "invalid_config"),
        (b'{"type": "synthesize"}\n', "invalid_config"),
        (b'{"type": "synthesize", "data": {"text": "a\\u0000"}}\n', "invalid_config"),
        (b'{"type": "describe", "data_length": -1}\n', "invalid_config"),
        (b'{"type": "describe", "data_length": true}\n', "invalid_config"),
        (b'{"type": "describe", "data_length": 5}\nhello', "invalid_json"),
        (b'{"type": "describe", "data_length": 9999999999}\n', "message_too_large"),
        (b'{"type": "describe", "payload_length": 9999999999}\n', "message_too_large"),
        (b"x" * (LIMIT + 1), "message_too_large"),
        (b'{"type": "synthesize-stop"}\n', "out_of_order"),
        (b'{"type": "synthesize", "data": {"text": " "}}\n', "empty_text"),
        ('{"type": "synthesize", "data": {"text": "Москва"}}\n'.encode(), "text_not_readable"),
    ],
)
async def test_malformed_event_is_reported_and_closes_the_connection(
    server: RunningServer, sent: bytes, code: str
) -> None:
    heard = await answer_to(server, sent)
    assert (heard.kinds, heard.last["code"]) == (["error"], code)


async def test_endless_line_of_a_wyoming_client_uses_bounded_memory(server: RunningServer) -> None:
    """The client receives an error after some kilobytes, while it is still sending."""
    async with wyoming(uri_of(server)) as client:
        sent = 0
        try:
            for _ in range(512):
                await client.write(b"x" * 2**16)
                sent += 2**16
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        heard = await client.until()
    assert heard.last["code"] == "message_too_large"
    assert sent


async def test_payloads_and_events_of_other_services_are_ignored(server: RunningServer) -> None:
    async with wyoming(uri_of(server)) as client:
        await client.write(b'{"type": "audio-chunk", "data": {"rate": 1}, "payload_length": 4000}\n' + b"\n" * 4000)
        await client.send("ping", text=None)
        assert (await client.until("pong")).kinds == ["pong"]


@pytest.mark.slow
async def test_silent_wyoming_client_times_out(folder_of: FolderOf) -> None:
    """The test uses a separate server with a short timeout."""
    server_settings = ServerSettings(wyoming=ANY_PORT)
    with running_server(
        folder_of("brief", "custom_voice"), limits=Limits(config_s=0.3), server=server_settings
    ) as server:
        assert (await answer_to(server, b'{"type": "desc')).last["code"] == "idle_timeout"


async def test_wyoming_connections_are_limited(server: RunningServer) -> None:
    uri = uri_of(server)
    async with wyoming(uri) as one, wyoming(uri) as two, wyoming(uri) as three, wyoming(uri) as four:
        for client in (one, two, three, four):
            await client.send("ping")
            await client.until("pong")
        async with wyoming(uri) as fifth:
            assert (await fifth.until()).last["code"] == "too_many_connections"


# --- Tests of the port of the Wyoming protocol.


@pytest.mark.slow
def test_server_that_ends_immediately_leaves_no_zeroconf_announcement(folder_of: FolderOf) -> None:
    """An open connection with an incomplete message is closed without a log message."""
    with running_server(folder_of("quick", "custom_voice"), server=ServerSettings(wyoming=ANY_PORT)) as server:
        uri = uri_of(server)

        async def open_one() -> WyomingClient:
            client = wyoming(uri)
            connected = await client.__aenter__()
            await connected.write(b'{"type": "desc')
            await asyncio.sleep(0.2)
            return connected

        runner = asyncio.Runner()
        client = runner.run(open_one())
    assert runner.run(client.until()).kinds in ([], ["error"])
    runner.close()


@pytest.mark.slow
async def test_new_runtime_takes_over_the_wyoming_port_of_the_old_runtime(folder_of: FolderOf) -> None:
    """The studio loads other checkpoints in this way.

    The new runtime starts before the old runtime has finished its requests.
    """
    folder, engine = folder_of("quick", "custom_voice"), EngineSettings(threads=1)

    async def voices(uri: str) -> list[str]:
        async with wyoming(uri) as client:
            await client.send("describe")
            heard = await client.until("info")
            return [voice["attribution"]["name"] for voice in heard.last["tts"][0]["voices"]][:1]

    with running_server(folder, engine=engine, server=ServerSettings(wyoming=ANY_PORT)) as old:
        uri, connected, started = uri_of(old), threading.Event(), threading.Event()

        async def served_by_the_old_one() -> tuple[ReceivedEvents, ReceivedEvents]:
            async with wyoming(uri) as client, wyoming(uri) as idle:
                for one in (client, idle):
                    await one.send("ping")
                    await one.until("pong")
                connected.set()
                await asyncio.to_thread(started.wait)
                await client.send("synthesize", text="Hi.")
                await client.until("audio-chunk")
                old.tell_to_end()
                return await client.until("audio-stop"), await idle.until()

        with ThreadPoolExecutor(1) as aside:
            scene = aside.submit(asyncio.run, served_by_the_old_one())
            assert connected.wait(60)
            with running_server(folder_of("brief", "base"), engine=engine, server=ServerSettings(wyoming=uri)) as new:
                assert new.load()["ports"] == {"wyoming": uri}
                started.set()
                heard, idle = scene.result()
                assert heard.kinds[-1] == "audio-stop"
                assert idle.last["code"] == "draining"
                # The new runtime, which has no speakers, sends these replies.
                assert [await voices(uri) for _ in range(8)] == [[]] * 8


@pytest.mark.slow
async def test_wyoming_requests_per_minute_are_limited(folder_of: FolderOf) -> None:
    settings = ServerSettings(wyoming=ANY_PORT, requests_per_minute=2)
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:
        uri = uri_of(server)

        async def code() -> str | None:
            async with wyoming(uri) as client:
                await client.send("ping")
                return (await client.until("pong")).last.get("code")

        assert [await code() for _ in range(3)] == [None, None, "rate_limited"]


@pytest.mark.parametrize(
    "uri", ["10200", "http://127.0.0.1:10200", "tcp://127.0.0.1", "tcp://:1", "tcp://h:99999", "tcp://h:1/x"]
)
def test_invalid_wyoming_address_is_refused_before_a_checkpoint_is_loaded(folder_of: FolderOf, uri: str) -> None:
    with pytest.raises(InvalidSetting, match="tcp://HOST:PORT"):
        begun(uri)


def test_used_wyoming_port_is_refused() -> None:
    with listen(ServerSettings(port=0)) as taken, pytest.raises(PortInUse):
        begun(f"tcp://127.0.0.1:{taken.getsockname()[1]}")


def begun(uri: str) -> None:
    """Start a server with this Wyoming address, which must not load a checkpoint."""
    settings = Settings(server=ServerSettings(port=0, wyoming=uri))
    with listen(settings.server) as listener:
        asyncio.run(run(settings, listener, nothing))


def nothing(*_: object) -> NoReturn:
    raise AssertionError("nothing is to be loaded")


def test_wyoming_port_is_announced_until_the_server_ends(folder_of: FolderOf) -> None:
    server_settings = ServerSettings(wyoming=ANY_PORT, wyoming_announced=True)
    found = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with running_server(folder_of("brief", "custom_voice"), server=server_settings) as running:
            port = int(uri_of(running).rpartition(":")[2])
            watching = pool.submit(asyncio.run, watched(port, found))
            # The server must not stop before the browser has found the service, as an earlier goodbye has no effect.
            while not found.wait(0.1) and not watching.done():
                pass
        assert watching.result(60) == (["127.0.0.1"], port)


async def watched(port: int, found: threading.Event) -> tuple[list[str], int | None]:
    """Return the addresses and the port of a Zeroconf service after its goodbye."""
    states = {state: asyncio.Event() for state in ServiceStateChange}

    def on_change(zeroconf: Any, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if name.endswith(f" {port}.{SERVICE}"):
            names.append(name)
            states[state_change].set()

    names: list[str] = []
    network = AsyncZeroconf(interfaces=["127.0.0.1"])
    try:
        browser = AsyncServiceBrowser(network.zeroconf, SERVICE, handlers=[on_change])
        async with asyncio.timeout(40):
            await states[ServiceStateChange.Added].wait()
            info = AsyncServiceInfo(SERVICE, names[0])
            assert await info.async_request(network.zeroconf, 10_000)
            found.set()
            await states[ServiceStateChange.Removed].wait()
        await browser.async_cancel()
        return info.parsed_addresses(), info.port
    finally:
        await network.async_close()


async def test_wyoming_port_is_not_announced_without_zeroconf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    settings = Settings(server=ServerSettings(port=0, wyoming=ANY_PORT, wyoming_announced=True))
    with listen(settings.server) as listener, pytest.raises(InvalidSetting, match="zeroconf"):
        await run(settings, listener, lambda *_: unused())


def unused() -> NoReturn:
    raise AssertionError("nothing is loaded")
