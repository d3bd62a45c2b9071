"""From the click to the first sample at the loudspeaker, in Chromium: `python -m benchmarks.page http://localhost:7860`.

The page is warm: it was clicked before. What is compared is one take seen twice: by the page, from the moment of the
click to when its first sample leaves the AudioContext (the device's latency included), and by the runtime, from the
request to its first sample (`ttfa_ms` of audio.done). The difference is all that lies between: the page's own work,
the relay, the audio thread and the way back. The page's figures are those that it shows (whole milliseconds under a
second, hundredths of a second from there); the runtime's stand in the stored take.

The studio at the address must run already, and no other page should speak with it. Needs Playwright (the extra
`dev`) and a Chromium, that of CHROMIUM or on the PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.figures import nearest_rank
from benchmarks.report import machine, tables_of

TEXT = "The harbour was quiet."
WARM_UPS = 3
LIMIT_MS = 60_000
POLL_MS = 100  # a look at every frame, as Playwright would have it, takes a share of the core that it measures
ARGUMENTS = ("--no-sandbox", "--autoplay-policy=no-user-gesture-required")
# How old the click was when the first of the page's scripts heard of it; the page's own clock starts there.
WITNESS = """
addEventListener('click', (event) => {
  window.late = performance.now() - event.timeStamp;
}, { capture: true });
"""
SAID = "document.querySelector('#vw-reason').textContent !== '–' && document.querySelector('#vw-stop').disabled"

Click = dict[str, float]


def find_chromium() -> str | None:
    """The path of a Chromium: CHROMIUM, or the one on the PATH."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def clicks(url: str, count: int) -> list[Click]:
    """Click so many times, each take heard to its end. Figures in ms, but ``underruns``."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(LIMIT_MS)
        page.add_init_script(WITNESS)
        page.goto(url, wait_until="domcontentloaded")
        page.locator("#vw-speak:enabled").wait_for()
        page.fill("#vw-text", TEXT)
        figures = [_click(page, url) for _ in range(WARM_UPS + count)][WARM_UPS:]
        browser.close()
    return figures


def _click(page: Any, url: str) -> Click:
    before = _newest(page, url)
    page.click("#vw-speak")
    page.wait_for_function(SAID, polling=POLL_MS)
    late = page.evaluate("window.late")
    while (take := _newest(page, url)) is None or (before is not None and take["id"] == before["id"]):
        page.wait_for_timeout(50)  # it is stored as soon as it is whole
    audible, received, runtime = _shown(page, "audible"), _shown(page, "ttfa"), take["metrics"]["ttfa_ms"]
    return {
        "page": late + audible,
        "received": late + received,
        "runtime": runtime,
        "difference": late + audible - runtime,
        "underruns": float(page.text_content("#vw-underruns") or "0"),
    }


def _shown(page: Any, name: str) -> float:
    """A time as the page's meter writes it ("87 ms", "1.32 s"), in ms."""
    number, unit = (page.text_content(f"#vw-{name}") or "").split()
    return float(number) * {"ms": 1, "s": 1000}[unit]


def _newest(page: Any, url: str) -> dict[str, Any] | None:
    takes = page.request.get(f"{url.rstrip('/')}/studio/takes?limit=1").json()["takes"]
    return takes[0] if takes else None


def rows(figures: Sequence[Click]) -> list[dict[str, Any]]:
    """p50 and p95 of each figure, ms."""
    names = {
        "page": "click to first sample at the loudspeaker",
        "received": "click to first sample in the page",
        "runtime": "request to first sample, in the runtime",
        "difference": "first of these less the runtime's",
    }
    return [
        {
            "what": what,
            "clicks": len(figures),
            **{
                f"p{share}": round(nearest_rank([take[name] for take in figures], share / 100) or 0, 1)
                for share in (50, 95)
            },
            "most": round(max(take[name] for take in figures), 1),
        }
        for name, what in names.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("url", help="of a running studio")
    parser.add_argument("--clicks", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="every click, as JSON")
    arguments = parser.parse_args()
    figures = clicks(arguments.url, arguments.clicks)
    if arguments.json:
        json.dump({"machine": machine(), "clicks": figures}, sys.stdout, indent=2)
        return
    print(tables_of({"page (ms)": rows(figures)}))
    print(f"underruns: {sum(take['underruns'] for take in figures):g} in {len(figures)} takes")


if __name__ == "__main__":
    main()
