"""Measure the time from a click on Speak to the first audible sample, in Chromium.

`python -m benchmarks.page http://localhost:7860` measures a running studio that no other page uses. Each take is timed
twice: by the page, from the click until its first sample leaves the AudioContext (including the device's latency), and
by the runtime, from the request to its first sample (`ttfa_ms` of audio.done). The difference is the time for the
page's own work, the proxy, the audio thread and the network. The page shows whole milliseconds below a second, and
hundredths of a second above. Needs Playwright (the extra `dev`) and the Chromium of CHROMIUM or on PATH.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.common.metrics import percentiles
from benchmarks.common.report import Row, parser_of, report

TEXT = "The harbour was quiet."
WARM_UPS = 3
TIMEOUT_MS = 60_000
POLL_MS = 100  # Polling at every animation frame, Playwright's default, uses CPU time that is being measured.
ARGUMENTS = ("--no-sandbox", "--autoplay-policy=no-user-gesture-required")
# Age of the click event when the page's first handler gets it, at which the page's own clock starts.
CLICK_AGE = """
addEventListener('click', (event) => {
  window.clickAge = performance.now() - event.timeStamp;
}, { capture: true });
"""
HAS_ENDED = "document.querySelector('#vw-reason').textContent !== '–' && document.querySelector('#vw-stop').disabled"
NAMES = {
    "page": "click to first sample at the loudspeaker",
    "received": "click to first sample in the page",
    "runtime": "request to first sample, in the runtime",
    "difference": "the first of these less the runtime's",
}

Click = dict[str, float]


def find_chromium() -> str | None:
    """Return the path of Chromium: from the variable CHROMIUM, or from PATH."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def measure_clicks(url: str, count: int) -> list[Click]:
    """Click `count` times, and wait for the end of each take. Times are in ms."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(CLICK_AGE)
        page.goto(url, wait_until="domcontentloaded")
        page.locator("#vw-speak:enabled").wait_for()
        page.fill("#vw-text", TEXT)
        clicks = [_click(page, url) for _ in range(WARM_UPS + count)][WARM_UPS:]
        browser.close()
    return clicks


def _click(page: Any, url: str) -> Click:
    before = _newest_take(page, url)
    page.click("#vw-speak")
    page.wait_for_function(HAS_ENDED, polling=POLL_MS)
    age = page.evaluate("window.clickAge")
    while (take := _newest_take(page, url)) is None or (before is not None and take["id"] == before["id"]):
        page.wait_for_timeout(50)  # The studio stores a take when it is complete.
    audible, received, runtime = _shown_ms(page, "audible"), _shown_ms(page, "ttfa"), take["metrics"]["ttfa_ms"]
    return {
        "page": age + audible,
        "received": age + received,
        "runtime": runtime,
        "difference": age + audible - runtime,
        "underruns": float(page.text_content("#vw-underruns") or "0"),
    }


def _shown_ms(page: Any, name: str) -> float:
    """Return a time from the page's display ("87 ms", "1.32 s") in ms."""
    number, unit = (page.text_content(f"#vw-{name}") or "").split()
    return float(number) * {"ms": 1, "s": 1000}[unit]


def _newest_take(page: Any, url: str) -> dict[str, Any] | None:
    takes = page.request.get(f"{url.rstrip('/')}/studio/takes?limit=1").json()["takes"]
    return takes[0] if takes else None


def rows_of(clicks: Sequence[Click]) -> list[Row]:
    """Return percentiles of each time, and the total number of underruns."""
    rows: list[Row] = []
    for name, what in NAMES.items():
        times = [click[name] for click in clicks]
        columns = {**percentiles("time", times, 50, 95, digits=1), "max_ms": round(max(times), 1)}
        rows.append({"what": what, "clicks": len(clicks), **columns})
    rows[0]["underruns"] = sum(click["underruns"] for click in clicks)
    return rows


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("url", help="of a running studio")
    parser.add_argument("--clicks", type=int, default=30)
    arguments = parser.parse_args()
    clicks = measure_clicks(arguments.url, arguments.clicks)
    report({"page": rows_of(clicks)}, arguments.json, clicks=clicks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
