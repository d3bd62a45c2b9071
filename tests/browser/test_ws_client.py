"""Tests for the JavaScript client in a page that does not belong to the studio."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from websockets.asyncio.server import ServerConnection, serve

from runtime.settings import DEMO_CHECKPOINT, EngineSettings, ServerSettings
from tests.support.node import CLIENT
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import PROTOCOL
from tests.support.timeouts import TEST_TIMEOUT_S

pytestmark = pytest.mark.browser

# Script that generates speech and reports all calls of the handlers in order.
PRELUDE = """
const { SpeechSocket } = await import('/clients/js/voicewright.js');
const calls = [];
const listen = (name, end) => ({
  onStart: ({ seed }) => calls.push([name, 'start', seed]),
  onAudio: (pcm, first) => calls.push([name, 'audio', first, pcm.length]),
  onDone: (done) => end(calls.push([name, 'done', done.total_samples])),
  onError: (error) => end(calls.push([name, 'error', error.code, error.param])),
  onCancelled: (ack) => end(calls.push([name, 'cancelled', ack.played_ms])),
});
"""


def script(page: Page, body: str, **values: Any) -> Any:
    return page.evaluate(f"async (given) => {{ {PRELUDE} {body} }}", values)


@pytest.fixture(scope="module")
def server(modules: str) -> Iterator[RunningServer]:
    with running_server(
        DEMO_CHECKPOINT, engine=EngineSettings(threads=1), server=ServerSettings(origins=modules)
    ) as running:
        yield running


def test_cancel_before_connect_or_text_is_acknowledged(blank: Page, server: RunningServer) -> None:
    body = """
    const socket = new SpeechSocket(given.url);
    for (const [name, text] of [['unsent', 'Hello.'], ['unwritten', null]]) {
      await new Promise((end) => socket.speak({ voice: 'clara' }, text, listen(name, end)).cancel(0));
      await new Promise((end) => socket.speak({ voice: 'clara' }, 'Hi.', listen('after', end)));
    }
    socket.close();
    return calls.filter(([, kind]) => kind !== 'start' && kind !== 'audio').map((event) => event.slice(0, 2));
    """
    calls = script(blank, body, url=server.socket)
    assert calls == [["unsent", "cancelled"], ["after", "done"], ["unwritten", "cancelled"], ["after", "done"]]


def test_cancel_silences_the_audio_immediately_and_is_acknowledged(blank: Page, server: RunningServer) -> None:
    body = """
    const socket = new SpeechSocket(given.url);
    await new Promise((end) => {
      const handlers = listen('long', end);
      const speech = socket.speak({ voice: 'clara' }, given.text, { ...handlers, onAudio: (pcm, first) => {
        handlers.onAudio(pcm, first);
        speech.played(20);
        speech.cancel(40);
      } });
    });
    socket.close();
    return calls.filter(([, kind]) => kind !== 'start');
    """
    calls = script(blank, body, url=server.socket, text="This goes on for longer than anybody wants to listen.")
    assert [kind for _, kind, *_ in calls] == ["audio", "cancelled"]
    assert calls[-1][-1] == 40
    server.wait_until_idle()


def test_finished_utterance_accepts_no_more_text(blank: Page, server: RunningServer) -> None:
    body = """
    const socket = new SpeechSocket(given.url);
    const speech = socket.speak({ voice: 'clara' }, 'All of it.', {});
    try { speech.write('More.'); } catch (error) { return error.message; } finally { socket.close(); }
    """
    assert script(blank, body, url=server.socket) == "the text of this utterance is finished"


def test_documented_javascript_example_generates_speech(blank: Page, server: RunningServer) -> None:
    (example,) = re.findall(r"```html\n(.*?)```", (CLIENT / "README.md").read_text("utf-8"), re.DOTALL)
    example = example.replace("./voicewright.js", "/clients/js/voicewright.js")
    blank.set_content(example.replace("ws://localhost:8210/v1/audio/speech/stream", server.socket))
    blank.get_by_role("button", name="Speak").click()
    expect(blank.locator("output")).to_have_text(re.compile(r"^\d{5,} samples$"))


# --- Tests of lost connections and of servers that violate the protocol.


@contextmanager
def faulty_server(talk: Callable[[ServerConnection], Awaitable[None]]) -> Iterator[str]:
    """Run a server in a thread that sends only what `talk` sends, and yield the server's URL."""
    opened: Future[tuple[str, Callable[[], object]]] = Future()

    async def serving() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with serve(talk, "127.0.0.1", 0, subprotocols=[PROTOCOL]) as server:  # type: ignore[list-item]
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/speech"
            opened.set_result((url, lambda: loop.call_soon_threadsafe(stop.set)))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serving(),))
    thread.start()
    url, end = opened.result(TEST_TIMEOUT_S)
    try:
        yield url
    finally:
        end()
        thread.join(60)
        assert not thread.is_alive()


async def greet(socket: ServerConnection) -> None:
    await socket.send(json.dumps({"type": "session.created", "models": [], "limits": {}}))


def test_api_key_is_sent_as_subprotocol_and_ticket_in_the_url(blank: Page) -> None:
    asked: list[tuple[str, str]] = []

    async def note(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked.append((socket.request.headers["Sec-WebSocket-Protocol"], socket.request.path))
        await greet(socket)
        await socket.wait_closed()

    body = """
    for (const options of [{ key: 'secret' }, { ticket: async () => 'once' }]) {
      const socket = new SpeechSocket(given.url, options);
      await socket.whenOpen();
      socket.close();
    }
    """
    with faulty_server(note) as url:
        script(blank, body, url=url)
    assert asked == [(f"{PROTOCOL}, voicewright.token.secret", "/speech"), (PROTOCOL, "/speech?ticket=once")]


@pytest.mark.logs_errors  # The test's own server logs the errors.
def test_lost_socket_fails_running_utterances_and_reconnects(blank: Page) -> None:
    opened: list[ServerConnection] = []

    async def breaks_once(socket: ServerConnection) -> None:
        opened.append(socket)
        await greet(socket)
        async for message in socket:
            fields = json.loads(message)
            if fields["type"] != "input.done":
                continue
            if len(opened) == 1:
                socket.transport.abort()
            else:
                await socket.send(
                    json.dumps({"type": "audio.done", "context_id": fields["context_id"], "total_samples": 0})
                )

    body = """
    const socket = new SpeechSocket(given.url);
    await new Promise((end) => socket.speak({}, 'One.', listen('first', end)));
    await new Promise((end) => socket.speak({}, 'Two.', listen('second', end)));
    socket.close();
    return calls;
    """
    with faulty_server(breaks_once) as url:
        calls = script(blank, body, url=url)
    assert calls == [["first", "error", "runtime_unavailable", None], ["second", "done", 0]]
