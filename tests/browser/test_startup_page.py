"""Tests for a cold start: a startup page appears first, then the studio at the same URL."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from playwright.sync_api import Browser

from tests.support.app import ROOT, STOP_S

# Timeout in seconds until the port is open. Two seconds are usual on an idle machine, but other tests may use all
# cores.
PORT_WITHIN_S = 120.0
STUDIO_WITHIN_MS = 120_000


@contextmanager
def cold_app() -> Iterator[str]:
    """Start app.py, and yield its URL before the server responds."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "app.py", "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "VOICEWRIGHT_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_S)


def until_the_port_answers(client: httpx.Client) -> None:
    deadline = time.monotonic() + PORT_WITHIN_S
    while True:
        try:
            assert client.head("/").status_code == 200
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_startup_page_is_shown_first_and_becomes_the_studio(browser: Browser) -> None:
    page = browser.new_page()
    seen: list[str] = []
    page.on("pageerror", lambda error: seen.append(str(error)))
    with cold_app() as url, httpx.Client(base_url=url, trust_env=False) as client:
        until_the_port_answers(client)
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/studio/status").json()["page"] is False
        assert client.get("/ready").status_code == 503
        early = client.get("/gradio_api/info")
        assert (early.status_code, early.json()["error"]["code"]) == (503, "studio_opening")
        page.goto(url)
        assert page.locator("#vw-opening h1").inner_text() == "Voicewright"
        page.locator("#vw-opening-what:not(:empty)").wait_for(timeout=STUDIO_WITHIN_MS)
        # The studio replaces the waiting page without a reload by the user.
        page.locator("#vw-speak:enabled").wait_for(timeout=STUDIO_WITHIN_MS)
        assert page.locator("#vw-opening").count() == 0
        assert client.head("/").status_code == 200
        assert client.get("/studio/status").json()["page"] is True
    page.close()
    assert seen == []
