"""Tests for the page on an unreliable network: error messages and complete recovery."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import OpenStudio
from tests.browser.steps import SHORT, await_sound, clone_from, enter, play_through, reload_to_speak, wav
from tests.browser.test_page import complaints
from tests.support.app import App
from tests.support.stalling import stalling_proxy

pytestmark = pytest.mark.browser

NOTICED_MS = 60_000
NOTICED_BY_CLOCK_MS = 10_000  # Timeout on the page's own clock.
BACK_MS = 60_000
TEXT = "Words that nobody may lose."


def open_with_clock(open_studio: OpenStudio, port: int) -> Page:
    """Open the page with a virtual clock that a test can advance, and return the page."""
    page = open_studio(url=f"http://127.0.0.1:{port}", await_ready=False, has_own_window=True)
    page.clock.install()
    reload_to_speak(page)
    return page


def expect_interruption(page: Page) -> None:
    """Wait for the message that the studio is unreachable, and check that the text is kept."""
    status = page.locator("#vw-status")
    expect(status).to_have_attribute("data-state", "waiting", timeout=NOTICED_MS)
    expect(status).to_contain_text("You are offline" if not page.evaluate("navigator.onLine") else "is not responding")
    page.click("#vw-speak")
    expect(page.locator("#vw-stage [data-error-for=request]")).to_contain_text("Not sent")
    expect(page.locator("#vw-text")).to_have_value(TEXT)
    expect(page.locator("#vw-stop")).to_be_disabled()


def expect_recovery(page: Page) -> None:
    expect(page.locator("#vw-status")).to_have_attribute("data-state", "ready", timeout=BACK_MS)
    play_through(page, "#vw-speak")
    assert complaints(page) == {}


@pytest.mark.quick
def test_stalled_connection_is_detected_reported_and_reconnected(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_with_clock(open_studio, proxy.port)
        page.fill("#vw-text", TEXT)
        proxy.stall()
        page.clock.run_for(NOTICED_BY_CLOCK_MS)
        expect_interruption(page)
        proxy.flow()
        expect_recovery(page)


def test_audio_resumes_at_the_same_position_after_a_short_stall(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_with_clock(open_studio, proxy.port)
        # The text is so long that audio is missing when the network stalls.
        page.fill("#vw-text", " ".join([TEXT] * 7))
        page.click("#vw-speak")
        # The test cannot check the time to first audio. The virtual clock is installed before the page is loaded again,
        # so it is ahead of the audio device's clock, and the audio would seem to start before the click.
        expect(page.locator("#vw-time")).not_to_have_text("0:00.0")
        proxy.stall()
        page.clock.run_for(NOTICED_BY_CLOCK_MS)
        expect(page.locator("#vw-status")).to_have_attribute("data-state", "waiting", timeout=NOTICED_MS)
        proxy.flow()
        expect(page.locator("#vw-star")).to_be_visible(timeout=BACK_MS)
        expect(page.locator("#vw-reason")).to_have_text("end of speech")
        assert complaints(page) == {}


def test_offline_page_shows_a_notice_and_recovers(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_studio(url=f"http://127.0.0.1:{proxy.port}")
        page.fill("#vw-text", TEXT)
        proxy.stall()
        page.context.set_offline(True)
        expect_interruption(page)
        page.click("#vw-speak")
        expect(page.locator("#vw-stage [data-error-for=request]")).to_contain_text("Not sent")
        page.context.set_offline(False)
        proxy.flow()
        expect(page.locator("#vw-stage [data-error-for=request]")).to_be_empty(timeout=BACK_MS)
        expect_recovery(page)


@pytest.mark.parametrize("lost", ["**/assets/core-*.css", "**/assets/core-*.js", "**/assets/Blocks-*.js"])
def test_network_fault_while_gradio_loads_causes_no_page_error(app: App, open_studio: OpenStudio, lost: str) -> None:
    page = open_studio(url="about:blank", await_ready=False, has_own_window=True)
    page.route(lost, lambda route: route.abort())
    with page.expect_event("requestfailed"):
        page.goto(app.url, wait_until="domcontentloaded")
    page.wait_for_timeout(500)  # The fixture `open_studio` fails if Gradio throws an error in this time.
    page.fill("#vw-text", SHORT)
    play_through(page, "#vw-speak")


def test_reconnected_notice_is_not_shown_if_the_connection_drops_again(open_studio: OpenStudio) -> None:
    page = open_studio()
    sockets: list[WebSocketRoute] = []
    is_away = threading.Event()

    def relay(socket: WebSocketRoute) -> None:
        if is_away.is_set():
            socket.close()
            return
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/v1/audio/speech/stream", relay)
    reload_to_speak(page)
    page.fill("#vw-text", " ".join([TEXT] * 100))
    page.click("#vw-speak")
    await_sound(page)
    sockets[-1].close()
    said = page.locator("#vw-stage [data-error-for=request]")
    expect(said).to_have_text("The connection is back: speak again.", timeout=BACK_MS)
    is_away.set()
    sockets[-1].close()
    expect(page.locator("#vw-status")).to_have_attribute("data-state", "waiting", timeout=NOTICED_MS)
    expect(said).to_be_empty()


def test_click_without_a_response_is_reported(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_studio(url=f"http://127.0.0.1:{proxy.port}")
        page.fill("#vw-text", TEXT)
        proxy.stall()
        page.context.set_offline(True)
        page.click("#vw-speak")  # The page sends its request before it has detected whether the studio is reachable.
        expect(page.locator("#vw-note")).to_have_text("No answer yet.")
        page.context.set_offline(False)
        proxy.flow()
        expect(page.locator("#vw-note")).to_be_empty(timeout=BACK_MS)


def test_take_finished_while_the_studio_is_unreachable_is_stored_later(studio: Page) -> None:
    studio.route("**/studio/takes", lambda route: route.abort())
    studio.fill("#vw-text", SHORT)
    play_through(studio, "#vw-speak")
    expect(studio.locator(".vw-toast")).to_contain_text("will be saved when it does")
    studio.unroute("**/studio/takes")
    expect(studio.locator("#vw-star")).to_be_visible(timeout=BACK_MS)


def test_library_shows_no_second_error_if_the_status_reports_the_outage(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_studio(url=f"http://127.0.0.1:{proxy.port}")
        for route in ("**/studio/takes?*", "**/v1/audio/voices"):
            # The request fails immediately. On a stalled connection, it would wait.
            page.route(route, lambda route: route.abort())
        proxy.stall()
        page.click("#vw-tab-library")
        expect(page.locator("#vw-status")).to_have_attribute("data-state", "waiting", timeout=NOTICED_MS)
        expect(page.locator("#vw-room-library")).not_to_contain_text("is not responding")
        proxy.flow()


@pytest.mark.usefixtures("no_voices")
def test_error_of_a_voice_saved_offline_disappears_when_the_network_is_back(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_studio(url=f"http://127.0.0.1:{proxy.port}")
        enter(page, "clone")
        clone_from(page, wav(4.0), "A few words that could be said here.")
        page.check("#vw-clone-consent")
        page.fill("#vw-clone-keep-name", "Me")
        proxy.stall()
        page.context.set_offline(True)
        expect(page.locator("#vw-status")).to_have_attribute("data-state", "waiting", timeout=NOTICED_MS)
        page.click("#vw-clone-keep-button")
        error = page.locator(".vw-error", has_text="Not sent")
        expect(error).to_have_text("Not sent: the studio can’t be reached. Nothing on the page is lost.")
        page.context.set_offline(False)
        proxy.flow()
        expect(error).to_have_count(0, timeout=BACK_MS)


@pytest.mark.usefixtures("no_voices")
def test_recording_chosen_offline_is_checked_when_the_network_is_back(app: App, open_studio: OpenStudio) -> None:
    with stalling_proxy(int(app.port)) as proxy:
        page = open_studio(url=f"http://127.0.0.1:{proxy.port}")
        enter(page, "clone")
        proxy.stall()
        page.context.set_offline(True)
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/voices/check")):
            page.set_input_files("#vw-clone-file", wav(4.0))
        page.wait_for_timeout(200)
        expect(page.locator("#vw-room-clone [data-error-for=ref_audio]")).to_be_empty()
        expect(page.locator("#vw-clone-use")).to_be_enabled()
        page.context.set_offline(False)
        proxy.flow()
        expect(page.locator("#vw-clone-clinic .vw-care")).not_to_have_count(0, timeout=BACK_MS)
