"""Tests for replacing the embedded voice by a full model: notice, download and result."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.browser.conftest import INSECURE_HOST, OpenStudio
from tests.browser.steps import expect_accessible, recall_a_take, reload_to_speak
from tests.browser.test_frame import MAX_SHIFT, SHIFTS, WINDOWS
from tests.conftest import FolderOf
from tests.support.app import App
from tests.support.hub import Hub, serving
from tests.support.timeouts import until

pytestmark = pytest.mark.browser

CHANGE_MS = 120_000  # Timeout of a start while other tests use all processors.
CUSTOM = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"
BASE = "Qwen/Qwen3-TTS-12Hz-0.6B-Base"


@pytest.fixture(scope="module")
def hub(folder_of: FolderOf) -> Iterator[Hub]:
    with serving(Hub({CUSTOM: folder_of("brief", "custom_voice"), BASE: folder_of("brief", "base")})) as running:
        yield running


@pytest.fixture(autouse=True)
def no_download(own: App, hub: Hub) -> Iterator[None]:
    """Reset the fake Hub and delete the download after the test, also if the test fails."""
    yield
    # If there is no download, the studio responds with an error, which is ignored.
    httpx.delete(f"{own.url}/studio/host/downloads", trust_env=False)
    hub.status = hub.rate = hub.hold_at = None


# Script that returns the distances of the first button from the edge of its dialog during repeated layouts.
WATCHED = """
() => {
  window.placesLeft = [];
  const sheet = document.querySelector('#vw-real-voices');
  const look = () => {
    const button = document.querySelector('#vw-real-begin');
    const place = button.offsetParent && button.getBoundingClientRect().left - sheet.getBoundingClientRect().left;
    if (place && !placesLeft.some((one) => Math.abs(one - place) < 1)) placesLeft.push(place);
    requestAnimationFrame(look);
  };
  look();
}
"""


def test_download_failure_shows_details_to_the_host_only(open_studio: OpenStudio, own: App, hub: Hub) -> None:
    hub.status = 503
    page = open_studio(url=own.url, viewport={"width": 1440, "height": 900})
    recall_a_take(page)
    page.evaluate(WATCHED)
    page.click("#vw-banner-see")
    expect(page.locator("#vw-real-voices .vw-offer").first).to_contain_text("real time", timeout=CHANGE_MS)
    assert len(page.evaluate("placesLeft")) == 1, "the button stays where it is when the measurement comes"
    expect(page.locator("#vw-real-voices")).to_contain_text("The Hub could not be reached")
    chosen = page.locator("#vw-real-voices .vw-offer:has(:checked)")
    apart = re.findall(r"([\d.]+) GB to download", " ".join(chosen.all_inner_texts()))
    said = page.locator("#vw-real-sum").inner_text()
    together, once = (float(value) for value in re.findall(r"([\d.]+) GB (?:to download|are shared)", said))
    assert sum(map(float, apart)) == pytest.approx(together + once, abs=0.11), "what is counted once is said"
    page.click("#vw-real-begin")
    expect(page.locator("#vw-banner")).to_contain_text("cannot be reached", timeout=CHANGE_MS)
    expect(page.locator("#vw-banner-turn")).to_have_text("Try again")

    visitor = open_studio(url=f"http://{INSECURE_HOST}:{own.port}")
    recall_a_take(visitor)
    expect(visitor.locator("#vw-banner-says")).to_have_text("You are hearing the small built-in voice.")
    assert visitor.locator("#vw-banner-see").is_hidden()
    visitor.click("#vw-loaded-open")
    expect(visitor.locator("#vw-loaded")).to_contain_text("small built-in voice")
    expect(visitor.locator("#vw-loaded")).to_contain_text("runs on the processor · at full precision")
    expect(visitor.get_by_title("cpu, float32"), "operators find their words").to_be_visible()
    assert visitor.locator("#vw-loaded-see").is_hidden()

    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#vw-banner")).to_be_hidden()
    page.locator("#vw-toasts button").last.click()
    expect(page.locator("#vw-banner")).to_contain_text("You are hearing the small built-in voice.")
    page.click("#vw-banner-see")
    page.click("#vw-real-begin")
    expect(page.locator("#vw-banner")).to_contain_text("cannot be reached", timeout=CHANGE_MS)

    # After the stop, the download can be started again.
    hub.status = None
    page.click("#vw-banner-see")
    expect(page.locator("#vw-real-stop")).to_have_text("Choose other voices")
    page.click("#vw-real-stop")
    expect(page.locator("#vw-real-begin")).to_be_visible()
    expect(page.locator("#vw-real-error")).to_be_empty()


def stands(page: Page, words: str) -> None:
    """Check the text of the banner.

    The banner must not have moved other elements when it appeared.
    """
    expect(page.locator("#vw-banner")).to_contain_text(words)
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    shifts = page.evaluate("shifts")
    assert sum(shift["value"] for shift in shifts) < MAX_SHIFT, (page.viewport_size, shifts)


# Script that logs the kinds of the banner. A failed download is retried so quickly that a poll can miss a kind.
KINDS = """
() => {
  window.kinds = [];
  const banner = document.querySelector('#vw-banner');
  new MutationObserver(() => kinds.push(banner.dataset.kind)).observe(banner, { attributeFilter: ['data-kind'] });
}
"""


def test_waiting_or_failed_download_causes_no_layout_shift(open_studio: OpenStudio, own: App, hub: Hub) -> None:
    hub.rate, hub.hold_at = 200_000, 600_000
    page = open_studio(url=own.url, script=SHIFTS)
    downloads = f"{own.url}/studio/host/downloads"
    assert page.request.post(downloads, data={"models": [CUSTOM]}).ok
    assert page.request.post(f"{downloads}/pause").ok
    # These responses arrive after the page has been painted, as on a slow network.
    late = re.compile(r"/host/downloads$|/v1/models$")
    page.route(late, lambda route: (page.wait_for_timeout(400), route.continue_()))
    for width, height in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        for _ in range(2):
            reload_to_speak(page)
            page.wait_for_timeout(600)
            stands(page, "Paused.")
    hub.status = 503
    for width, height in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        reload_to_speak(page)
        page.evaluate("shifts.length = 0")
        page.evaluate(KINDS)
        for _ in range(2):
            page.evaluate("kinds.length = 0")
            page.click("#vw-banner-turn")
            page.wait_for_function("kinds.includes('fetching') && kinds.at(-1) === 'failed'")
        stands(page, "The real voices could not be installed.")


def test_late_response_does_not_replace_a_newer_state(open_studio: OpenStudio, own: App, hub: Hub) -> None:
    hub.hold_at = hub.sent
    page = open_studio(url=own.url)
    downloads = f"{own.url}/studio/host/downloads"
    assert page.request.post(downloads, data={"models": [CUSTOM]}).ok
    assert page.request.post(f"{downloads}/pause").ok
    late: list[tuple[Route, APIResponse]] = []

    def delay_first(route: Route) -> None:
        response = route.fetch()
        if late:
            route.fulfill(response=response)
        else:
            late.append((route, response))

    page.route("**/host/downloads", delay_first)
    page.reload(wait_until="domcontentloaded")
    until(lambda: page.wait_for_timeout(10) or late)
    with page.expect_response(downloads):
        page.click("#vw-banner-turn")
    expect(page.locator("#vw-banner")).to_contain_text("Downloading the real voices")
    route, response = late[0]
    with page.expect_request(downloads):  # The page continues to poll.
        route.fulfill(response=response)
    expect(page.locator("#vw-banner")).to_contain_text("Downloading the real voices")


def test_host_can_download_a_full_model_while_the_embedded_voice_speaks(
    open_studio: OpenStudio, own: App, hub: Hub
) -> None:
    page = open_studio(url=own.url)
    recall_a_take(page)
    banner, sheet = page.locator("#vw-banner"), page.locator("#vw-real-voices")
    expect(banner).to_contain_text("the small built-in voice")
    expect(page.locator("#vw-status")).to_have_text("Built-in voice")

    # After the notice was dismissed, it is still available below the status.
    page.click("#vw-banner-leave")
    expect(banner).to_be_hidden()
    reload_to_speak(page)
    expect(banner).to_be_hidden()
    page.click("#vw-loaded-open")
    page.click("#vw-loaded-see")
    expect(sheet).to_be_visible()
    expect(sheet.locator(".vw-offer")).to_have_count(5)
    edges = [page.locator(name).bounding_box() for name in ("#vw-real-sum", "#vw-real-begin")]
    assert edges[0] is not None
    assert edges[1] is not None
    total, begin = edges
    in_one_row = total["y"] < begin["y"] + begin["height"] and begin["y"] < total["y"] + total["height"]
    assert in_one_row, "the sum is beside the button, also before weights can be chosen"
    expect(sheet.locator(".vw-offer b").first).to_have_text("0.6B CustomVoice speakers to choose from")
    expect(sheet.locator(".vw-offer").first).to_contain_text("real time", timeout=CHANGE_MS)
    expect(sheet).to_contain_text("estimates")
    expect(page.locator("#vw-real-sum")).to_contain_text(re.compile(r"of [\d.]+ GB of memory"))
    expect_accessible(page)

    # The dialog shows the weight format, which can be changed.
    weights, first = sheet.get_by_role("combobox"), sheet.locator(".vw-offer").first
    expect(weights).to_have_value("auto")
    weights.select_option("int4")
    expect(first).to_contain_text("with 4-bit weights")
    weights.select_option("off")
    expect(first).not_to_contain_text("-bit weights")

    # Use the keyboard: the checkpoint of the Speak room stays selected, and the other checkpoint is removed.
    page.focus(f"#vw-real-voices input[value='{BASE}']")
    page.keyboard.press("Space")
    expect(page.locator("#vw-real-begin")).to_have_text("Download and switch")
    weights.select_option("int8")
    hub.rate, hub.hold_at = 200_000, hub.sent + 600_000
    page.click("#vw-real-begin")
    expect(sheet).to_be_hidden()
    expect(banner).to_contain_text("Downloading the real voices")
    page.wait_for_function("document.querySelector('#vw-banner-bar').value > 0.05")
    page.click("#vw-banner-turn")
    expect(banner).to_contain_text("Paused.")
    expect(page.locator("#vw-speak"), "the small voice goes on").to_be_enabled()

    # After a reload, the download is still paused.
    page.reload(wait_until="domcontentloaded")
    expect(banner).to_contain_text("Paused.")
    page.click("#vw-banner-see")
    expect(sheet.locator(".vw-down")).to_contain_text("0.6B CustomVoice")
    expect_accessible(page)
    hub.rate = hub.hold_at = None
    hub.asked.clear()
    page.click("#vw-real-turn")
    expect(page.locator("#vw-toasts")).to_contain_text("The real voices are ready.", timeout=CHANGE_MS)
    assert all(ranges.startswith("bytes=") for ranges in hub.weights_asked()[:1]), "from where it stopped"
    expect(page.locator("#vw-models")).to_contain_text(CUSTOM, timeout=CHANGE_MS)
    expect(banner).to_be_hidden()
    expect(page.locator("#vw-status")).to_have_text("Ready")

    # Deletion can be undone. tests/unit/studio/test_downloads.py tests the effect of the deletion.
    expect(page.locator("#vw-toasts button").last).to_have_text("Undo")
