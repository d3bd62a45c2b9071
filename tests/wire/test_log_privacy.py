"""Tests that logs contain no text, API key or token of a client.

The tests send a marked word to each route of the OpenAPI document, to each route of the studio, and to each
WebSocket. They use the ports of the runtime and of the studio, with valid and invalid API keys.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from websockets import Subprotocol
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from runtime.settings import Limits
from studio.app import build
from studio.page.startup import StartupPage
from studio.runtimes.given_runtime import GivenRuntime
from studio.settings import StoreSettings, StudioSettings
from studio.store_service import StoreService
from studio.transcribing.service import TranscriptionService
from tests.fuzz.messages import CARTESIA, ELEVENLABS, OMNI, WYOMING
from tests.support.app import ROOT, App, running_app
from tests.support.keeping import create_take, pcm_of
from tests.support.marked_requests import SPEAKER, WORD, Marked, of_document, of_messages
from tests.support.speech_client import PROTOCOL
from tests.support.studio_port import NOBODY
from tests.support.wyoming_client import WyomingClient

GOOD, WRONG = f"{WORD}-the-key", f"{WORD}-no-key"
READY = re.compile(r"Voicewright runtime ready at (http://\S+)")
QUIET_S = 1.0  # Seconds without a message after which a conversation counts as complete.
AT_ONCE = 16
DIALECTS = {"voicewright", "omni", "cartesia", "elevenlabs", "openai", "wyoming"}

VOICE = {"voice": SPEAKER, "max_frames": 2}
NATIVE: list[dict[str, Any]] = [
    {"type": "session.config", "instructions": "Slowly.", "language": "english", **VOICE},
    {"type": "input.text", "text": "Hello there.", "context_id": "a"},
    {"type": "input.done", "context_id": "a"},
    {"type": "context.cancel", "context_id": "a"},
    {"type": "ping", "t": 1},
]
TALKS: dict[str, tuple[str, str | None, list[dict[str, Any]]]] = {
    "voicewright": ("/v1/audio/speech/stream", PROTOCOL, NATIVE),
    "omni": ("/v1/audio/speech/stream", None, [OMNI[0] | VOICE | {"task_type": "custom_voice"}, *OMNI[1:]]),
    "cartesia": (
        "/tts/websocket?cartesia_version=2025-04-16",
        None,
        [CARTESIA | {"voice": {"mode": "id", "id": SPEAKER}, "continue": False}, {"context_id": "a", "cancel": True}],
    ),
    "elevenlabs": (
        f"/v1/text-to-speech/{SPEAKER}/multi-stream-input",
        None,
        [{"text": " ", "context_id": "a"}, {"text": "Hello there. ", "context_id": "a", "flush": True}],
    ),
    "elevenlabs of one": (
        f"/v1/text-to-speech/{SPEAKER}/stream-input",
        None,
        [{"text": " "}, {k: v for k, v in ELEVENLABS.items() if k != "context_id"}, {"text": ""}],
    ),
}


@contextmanager
def runtime(log: Path, data: Path) -> Iterator[str]:
    """Run the runtime process with verbose logs and all ports, and yield its URL."""
    environment = {
        "VOICEWRIGHT_API_KEYS": GOOD,
        "VOICEWRIGHT_DATA": str(data),
        "VOICEWRIGHT_WYOMING": "tcp://127.0.0.1:0",
    }
    command = [sys.executable, "-m", "tests.support.instant_runtime", "-v", "runtime", "--port", "0"]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield next(said[1] for line in process.stdout if (said := READY.match(line)))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def keys(word: str) -> Iterator[dict[str, str]]:
    yield {"authorization": f"Bearer {word}"}
    yield {"x-api-key": word}
    yield {"xi-api-key": word}


async def ask_all(base: str, requests: list[Marked], headers: dict[str, str]) -> list[int]:
    """Send HTTP requests, up to 16 concurrently, and return their status codes."""
    left = list(enumerate(requests))
    statuses = [0] * len(requests)
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60, headers=headers) as client:
        # The first header names an owner, and the others are headers that a browser sends.
        environment = {"x-voice-owner": WORD, "user-agent": WORD, "cookie": f"{WORD}={WORD}", "referer": WORD}
        client.headers.update(environment)

        async def work() -> None:
            while left:
                number, each = left.pop()
                said = {name: getattr(each, name) for name in ("params", "json", "data", "files", "content", "headers")}
                answer = await client.request(each.method, each.path, **said)
                statuses[number] = answer.status_code

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return statuses


async def talk_all(base: str) -> None:
    """Run conversations of all WebSocket dialects, with the API key in each possible place."""
    busy = asyncio.Semaphore(AT_ONCE)
    address = base.replace("http", "ws", 1)

    async def one(path: str, protocol: str | None, said: list[str], headers: dict[str, str], token: str) -> None:
        offered = [Subprotocol(word) for word in (protocol, token and f"voicewright.token.{token}") if word]
        async with busy:
            with suppress(InvalidHandshake):
                async with connect(
                    address + path, subprotocols=offered or None, additional_headers=headers, compression=None
                ) as socket:
                    with suppress(TimeoutError, OSError):
                        for each in said:
                            await socket.send(each)
                        while True:
                            await asyncio.wait_for(socket.recv(), QUIET_S)

    talks = [
        one(path, protocol, said, {"x-api-key": GOOD}, "")
        for path, protocol, messages in TALKS.values()
        for said in of_messages(messages)
    ]
    for path, protocol, messages in TALKS.values():
        said = [json.dumps(message) for message in messages]
        further = path + ("&" if "?" in path else "?")
        talks += [one(path, protocol, said, header, "") for word in (GOOD, WRONG) for header in keys(word)]
        talks += [one(f"{further}ticket={WORD}", protocol, said, {}, "")]
        talks += [one(f"{further}api_key={GOOD}&{WORD}={WORD}", protocol, said, {"origin": f"https://{WORD}"}, "")]
        talks += [one(path, protocol or PROTOCOL, said, {}, word) for word in (GOOD, WRONG)]
        talks += [one(path, WORD, said, {"x-api-key": GOOD}, "")]
    await asyncio.gather(*(_quietly(talk) for talk in talks))


async def _quietly(talk: Any) -> None:
    """Await a conversation, and ignore that the server closes the connection."""
    with suppress(ConnectionClosed):
        await talk


async def send_no_utf8(base: str) -> None:
    """Send text that is not UTF-8, which makes both processes log a message."""
    headers = {"x-api-key": GOOD}
    address = base.replace("http", "ws", 1) + "/v1/audio/speech/stream"
    async with connect(address, subprotocols=[Subprotocol(PROTOCOL)], additional_headers=headers) as socket:
        await socket.send(f"{WORD} ".encode() + b"\xff", text=True)
        with suppress(ConnectionClosed):
            while True:
                await asyncio.wait_for(socket.recv(), 30)


async def talk_wyoming(port: int) -> None:
    messages = json.loads(json.dumps(WYOMING).replace("anna", SPEAKER))
    for said in of_messages(messages):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = WyomingClient(reader, writer)
        with suppress(ConnectionError, TimeoutError):
            for line in said:
                message = json.loads(line) if line.startswith("{") else {"type": line, "data": {}}
                await client.send(message["type"], **message["data"])
            await asyncio.wait_for(client.until("audio-stop", "error"), QUIET_S)
        writer.close()


def of_the_studio(folder: Path) -> Iterator[Marked]:
    """Yield requests for every route of the studio, with existing takes, scripts and texts."""
    settings = StudioSettings(store=StoreSettings(data=str(folder), visitors="one"), transcriber=NOBODY)
    keeping = StoreService(settings.store)
    app = build(
        GivenRuntime("http://127.0.0.1:1"), StartupPage(), keeping, TranscriptionService(NOBODY, Limits()), settings
    )
    routes = [each for each in iter_route_contexts(app.router.routes) if each.methods]
    keeping.store.close()
    own = [each for each in routes if not str(each.path).startswith(("/v1/", "/tts/", "/voices"))]
    assert len(own) > 30
    for route in own:
        path = re.sub(r"{\w+(:\w+)?}", WORD, str(route.path))
        for method in route.methods or ():
            yield Marked(method=method, path=path, params={WORD: WORD, "search": WORD}, json={WORD: WORD, "name": WORD})
            yield Marked(method=method, path=path, content=WORD.encode())
    take = {"take": json.dumps(create_take(text=f"Say {WORD}.", label=WORD, voice=WORD))}
    sound = ("take.pcm", pcm_of(0.1), "application/octet-stream")
    for reference in (None, (f"{WORD}.wav", WORD.encode(), "audio/wav")):
        files = {"pcm": sound} | ({"reference": reference} if reference else {})
        yield Marked(method="post", path="/studio/takes", data=take, files=files)
    yield Marked(method="post", path="/studio/documents", content=b"PK\x03\x04" + WORD.encode())
    script = {"name": WORD, "lines": [{"text": WORD}]}
    yield Marked(method="put", path=f"/studio/scripts/{WORD}", json=script)
    words = {"words": [{"word": WORD, "said": WORD}]}
    yield Marked(method="put", path="/studio/pronunciation", json=words)
    yield Marked(
        method="post", path="/studio/pronunciation/said", json={"text": WORD, "pronunciations": words["words"]}
    )
    yield Marked(method="patch", path="/studio/me", json={"language": WORD})
    page = ("/", f"/{WORD}", f"/gradio_api/file={WORD}", "/gradio_api/queue/join", "/gradio_api/upload", "/config")
    for path in page:
        yield Marked(method="get", path=path, params={"__theme": WORD})
        yield Marked(method="post", path=path, json={"data": [WORD], "session_hash": WORD})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_client_data_appears_in_no_log_of_either_process(tmp_path: Path) -> None:
    logs = {name: tmp_path / f"{name}.log" for name in ("runtime", "studio")}
    with runtime(logs["runtime"], tmp_path / "runtime-data") as url, logs["studio"].open("w") as log:
        wyoming = int(httpx.get(f"{url}/ready", trust_env=False).json()["ports"]["wyoming"].rpartition(":")[2])
        environment = {"VOICEWRIGHT_API_KEYS": GOOD, "VOICEWRIGHT_DATA": str(tmp_path / "data")}
        with running_app(["--runtime-url", url], log=log, **environment) as app:
            statuses = asyncio.run(send_everything(app, url, tmp_path, wyoming))
    assert len(statuses) > 1000
    assert {200, 201, 400, 401, 404, 422} <= set(statuses)
    said = {name: path.read_text() for name, path in logs.items()}
    assert set(re.findall(r'dialect="(\w+)"', said["runtime"])) == DIALECTS, "each has got as far as to the engine"
    for name, lines in said.items():
        found = [line for line in lines.splitlines() if WORD in line.lower()]
        assert not found, f"{name}: {found[:3]}"
        assert "Traceback" not in lines, name
        assert "not UTF-8" in lines, f"{name} writes no log"


async def send_everything(app: App, url: str, folder: Path, wyoming: int) -> list[int]:
    """Send all requests to the runtime and to the studio, and return the status codes."""
    good = {"x-api-key": GOOD}
    statuses = []
    async with httpx.AsyncClient(trust_env=False, headers=good) as client:
        document = (await client.get(f"{url}/openapi.json")).raise_for_status().json()
    requests = list(of_document(document))
    for base in (url, app.url):
        statuses += await ask_all(base, requests, good)
        once = [each for each in requests if each.json is not None][::20] + requests[:20]
        for word in (GOOD, WRONG):
            for headers in keys(word):
                statuses += await ask_all(base, once, headers)
        with_ticket = [replace(each, params={**each.params, "ticket": WORD}) for each in once]
        statuses += await ask_all(base, with_ticket, {"origin": f"https://{WORD}.example"})
        await talk_all(base)
        await send_no_utf8(base)
    statuses += await ask_all(app.url, list(of_the_studio(folder / "other")), {})
    await talk_wyoming(wyoming)
    return statuses
