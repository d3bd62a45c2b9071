"""Tests for the Host room: runtime state, metrics and loading another checkpoint."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenStudio
from tests.browser.steps import await_sound
from tests.support.app import App, running_app
from tests.support.checkpoints import TINY, write_checkpoint

CHANGE_MS = 120_000  # Timeout of a start while other tests use all processors.


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    for name in ("first", "second"):
        write_checkpoint(folder / name, TINY, "custom_voice", seed=len(name))
    return folder


@pytest.fixture(scope="module")
def own(chromium: str, checkpoints: Path, wyoming: str) -> Iterator[App]:
    """Run a separate studio for this file, because its tests load other checkpoints."""
    environment = {"VOICEWRIGHT_HOSTS": "studio.test", "VOICEWRIGHT_WYOMING": wyoming}
    with running_app(["--model", str(checkpoints / "first")], **environment) as running:
        yield running


@pytest.fixture(scope="module")
def wyoming() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def served_by_wyoming(uri: str) -> set[str]:
    """Return the names of the models whose voices are available to Home Assistant."""
    parts = urlsplit(uri)
    with socket.create_connection((parts.hostname, parts.port)) as connection, connection.makefile("rwb") as file:
        file.write(b'{"type": "describe"}\n')
        file.flush()
        info = json.loads(file.read(json.loads(file.readline())["data_length"]))
    return {voice["attribution"]["name"] for voice in info["tts"][0]["voices"]}


def figure(page: Page, name: str) -> str:
    return page.locator(f"#vw-host-figure-{name} .vw-host-value").inner_text()


def test_host_room_shows_the_running_checkpoint_and_loads_another_checkpoint(
    open_studio: OpenStudio, own: App, checkpoints: Path, wyoming: str
) -> None:
    page = open_studio(url=own.url)
    page.locator("#vw-speak").click()
    await_sound(page)
    # The metrics are updated at the end of a request. Speech from random weights never ends, so the test stops it.
    page.locator("#vw-stop").click()
    page.locator("#vw-tab-host").click()
    models = page.locator("#vw-host-models")
    expect(models).to_contain_text("first")
    expect(models).to_contain_text("cpu · float32")
    expect(page.locator("#vw-host-figure-active .vw-host-value")).to_contain_text("/ 8")
    expect(page.locator("#vw-host-figure-ttfa .vw-host-value")).to_contain_text("ms", timeout=CHANGE_MS)
    assert re.search(r"[\d.]+ GiB\s+[\d.]+ GiB available", figure(page, "memory"))
    expect(page.locator("#vw-host-figure-device_memory")).to_be_hidden()  # A CPU has no own memory.
    assert "0 waiting" in figure(page, "active")
    expect(page.locator("#vw-host-figure-uncaptured")).to_be_hidden()  # On a CPU, no graphs are captured.
    expect(page.locator("#vw-host-wyoming")).to_contain_text(f"Served by Wyoming at {wyoming}")
    assert served_by_wyoming(wyoming) == {"first"}
    page.wait_for_function("document.querySelector('#vw-host-figure-frames polyline').points.length > 1")

    # The requested checkpoint is missing. The page shows the reason, and the previous checkpoint still serves requests.
    wanted = page.locator("#vw-host-wanted")
    assert wanted.input_value() == str(checkpoints / "first")
    wanted.fill(str(checkpoints / "nowhere"))
    pid = own.runtime_pid
    page.locator("#vw-host-submit").click()
    state = page.locator("#vw-host-state")
    expect(state).to_contain_text("checkpoint_missing", timeout=CHANGE_MS)
    plain = page.locator("#vw-room-host .vw-hint:visible").first
    assert len({text.evaluate("(one) => getComputedStyle(one).color") for text in (state, plain)}) == 2, "as a mistake"
    expect(models).to_contain_text("first")
    assert own.runtime_pid == pid
    expect(page.locator("#vw-host-submit")).to_be_enabled()

    # An existing checkpoint replaces the previous checkpoint, and the studio can speak with the new one.
    wanted.fill(str(checkpoints / "second"))
    page.locator("#vw-host-submit").click()
    expect(models).to_contain_text("second", timeout=CHANGE_MS)
    expect(models).not_to_contain_text("first")
    expect(state).to_have_text("Ready.")
    assert served_by_wyoming(wyoming) == {"second"}  # The new runtime uses the same Wyoming port.
    page.locator("#vw-tab-speakers").click()
    expect(page.locator("#vw-models")).to_contain_text("second", timeout=CHANGE_MS)
    expect(page.locator("#vw-speak")).to_be_enabled(timeout=CHANGE_MS)


def test_refused_host_action_shows_its_error_at_the_control(open_studio: OpenStudio, own: App) -> None:
    page = open_studio(url=own.url)
    page.locator("#vw-tab-host").click()
    page.locator("#vw-host-wanted").fill("a\n" * 33)
    page.locator("#vw-host-submit").click()
    expect(page.locator("#vw-host-load-error")).to_contain_text("1 to 32 checkpoints")


def test_every_setting_is_listed_with_its_variable(open_studio: OpenStudio, own: App) -> None:
    page = open_studio(url=own.url, viewport={"width": 360, "height": 740})
    page.locator("#vw-tab-host").click()
    page.locator("#vw-host-settings summary").first.wait_for()
    for summary in page.locator("#vw-host-settings summary").all():
        summary.click()
    text = page.locator("#vw-host-settings").inner_text()
    for name in (
        "VOICEWRIGHT_DEVICE",
        "VOICEWRIGHT_MAX_TEXT_CHARS",
        "VOICEWRIGHT_VISITORS",
        "VOICEWRIGHT_VISITOR_SOCKETS",
    ):
        assert name in text
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_remote_visitor_must_enter_the_host_key(open_studio: OpenStudio, own: App) -> None:
    page = open_studio(url=f"http://studio.test:{own.port}")
    page.locator("#vw-tab-host").click()
    expect(page.locator("#vw-host-door")).to_be_visible()
    expect(page.locator("#vw-host-inside")).to_be_hidden()
    page.locator("#vw-host-key").fill("guess")
    page.locator("#vw-host-door button").click()
    expect(page.locator("#vw-host-door-error")).to_contain_text("not the host’s key")
