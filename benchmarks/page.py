"""Benchmark of the page's latency in Chromium, after a click or a typed clause.

`python -m benchmarks.page http://localhost:7860` measures a running studio that no other page uses. Each recording is
timed twice. The page measures from the click on Speak until the first sample leaves the AudioContext, including the
device's latency. The runtime measures from the request to the first sample (`ttfa_ms` of audio.done). The difference is
the time for the page's own work, the proxy, the audio thread and the network. The page shows whole milliseconds below a
second, and hundredths of a second above.

With *As I type*, a clause is timed from the key press of its comma until its first sample leaves the AudioContext. The
time has three parts: until the text is sent, until the first PCM arrives, and until the first sample is played. The
next clause is typed after the previous one has been played. The whole clause is inserted in one step, because on a busy
machine a stall between two key presses would end the clause early.

The benchmark needs Playwright (the extra `dev`), and Chromium, which is searched in the variable CHROMIUM and on PATH.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.common.metrics import percentiles
from benchmarks.common.report import Row, create_parser, write_report

TEXT = "The harbour was quiet."
CLAUSE = " the harbour was quiet"
WARM_UPS = 3
TIMEOUT_MS = 60_000
# Poll interval in ms. Playwright's default, every animation frame, uses CPU time and changes the measurement.
POLL_MS = 100
ARGUMENTS = ("--no-sandbox", "--autoplay-policy=no-user-gesture-required")
# Script that stores the age of the click event when the page's first handler receives the event.
CLICK_AGE = """
addEventListener('click', (event) => {
  window.clickAge = performance.now() - event.timeStamp;
}, { capture: true });
"""
# Script that records times of performance.now(): the last comma, its text message, the first PCM after this message,
# the last PCM, and the first sample after a silence.
ONSETS = """
(() => {
  const SIZE = 2048;
  const SILENCE_S = 0.4;
  const onsets = (window.onsets = { key: 0, sent: 0, received: 0, arrived: 0, at: 0, heard: -Infinity, context: null });
  addEventListener('keydown', ({ key, timeStamp }) => {
    if (key === ',') onsets.key = timeStamp;
  }, { capture: true });
  const { send } = WebSocket.prototype;
  const sockets = new WeakSet();
  WebSocket.prototype.send = function (data) {
    if (!sockets.has(this)) {
      this.addEventListener('message', ({ data: { byteLength } }) => {
        if (!byteLength) return;
        onsets.arrived = performance.now();
        if (onsets.received < onsets.sent) onsets.received = onsets.arrived;
      });
    }
    sockets.add(this);
    if (String(data).includes('input.text')) onsets.sent = performance.now();
    return send.call(this, data);
  };
  const { connect } = AudioNode.prototype;
  AudioNode.prototype.connect = function (target, ...rest) {
    const { context } = this;
    if (target === context.destination) {
      const analyser = new AnalyserNode(context, { fftSize: SIZE });
      const samples = new Float32Array(SIZE);
      onsets.context = context;
      connect.call(this, analyser);
      setInterval(() => {
        const end = context.currentTime;
        analyser.getFloatTimeDomainData(samples);
        const first = samples.findIndex((sample) => sample !== 0);
        if (first < 0) return;
        const at = end - (SIZE - first) / context.sampleRate;
        if (at - onsets.heard > SILENCE_S) {
          const { contextTime, performanceTime } = context.getOutputTimestamp();
          onsets.at = performanceTime + (at - contextTime) * 1000;
        }
        onsets.heard = end;
      }, 15);
    }
    return connect.call(this, target, ...rest);
  };
})();
"""
# Script that returns true if no more PCM arrives, so that a clause has ended. Silence alone does not prove the end,
# because the audio has gaps on a machine that is slower than real time.
HAS_CLAUSE_ENDED = (
    "onsets.context && onsets.context.currentTime - onsets.heard > 0.6 && performance.now() - onsets.arrived > 2000"
)
HAS_ENDED = "document.querySelector('#vw-reason').textContent !== '–' && document.querySelector('#vw-stop').disabled"
NAMES = {
    "page": "click to first sample at the loudspeaker",
    "received": "click to first sample in the page",
    "runtime": "request to first sample, in the runtime",
    "difference": "the first of these less the runtime's",
}

PARTS = {
    "clause": "end of a typed clause to its first sample at the loudspeaker",
    "sent": "key of the comma to its text in the socket",
    "made": "text in the socket to its first PCM in the page",
    "played": "first PCM in the page to the loudspeaker",
}
TIMES_OF_CLAUSE = """(({ key, sent, received, at }) => ({
  clause: at - key, sent: sent - key, made: received - sent, played: at - received,
}))(onsets)"""

Click = dict[str, float]


def find_chromium() -> str | None:
    """Return the path of Chromium, or None.

    It is the value of the environment variable CHROMIUM, or the first Chromium on PATH.
    """
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def measure_clicks(url: str, count: int) -> list[Click]:
    """Click Speak `count` times, and return the measured times of each click in ms."""
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


def measure_clauses(url: str, count: int) -> list[dict[str, float]]:
    """Type `count` clauses, and return the measured times of each clause in ms.

    Each time starts at the comma and ends at the first sample of its clause.
    """
    from playwright.sync_api import sync_playwright

    times: list[dict[str, float]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(ONSETS)
        page.goto(url, wait_until="domcontentloaded")
        page.locator("#vw-typed:enabled").click()
        for clause in range(WARM_UPS + count):
            page.keyboard.insert_text(CLAUSE)
            page.keyboard.press(",")
            page.wait_for_function("onsets.at > onsets.key", polling=POLL_MS)
            if clause >= WARM_UPS:
                times.append(page.evaluate(TIMES_OF_CLAUSE))
            page.wait_for_function(HAS_CLAUSE_ENDED, polling=POLL_MS)
        page.keyboard.press("Control+Enter")
        browser.close()
    return times


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
    """Return a time that the page displays ("87 ms", "1.32 s") in ms."""
    number, unit = (page.text_content(f"#vw-{name}") or "").split()
    return float(number) * {"ms": 1, "s": 1000}[unit]


def _newest_take(page: Any, url: str) -> dict[str, Any] | None:
    takes = page.request.get(f"{url.rstrip('/')}/studio/takes?limit=1").json()["takes"]
    return takes[0] if takes else None


def rows_of(clicks: Sequence[Click]) -> list[Row]:
    """Return table rows with the percentiles of each measured time.

    The first row also has the total number of underruns.
    """
    rows: list[Row] = []
    for name, label in NAMES.items():
        rows.append(_row(label, [click[name] for click in clicks]))
    rows[0]["underruns"] = sum(click["underruns"] for click in clicks)
    return rows


def _row(label: str, times: Sequence[float]) -> Row:
    columns = {**percentiles("time", times, 50, 95, digits=1), "max_ms": round(max(times), 1)}
    return {"what": label, "times": len(times), **columns}


def main() -> int:
    parser = create_parser(__doc__)
    parser.add_argument("url", help="of a running studio")
    parser.add_argument("--clicks", type=int, default=30)
    parser.add_argument("--clauses", type=int, default=30)
    arguments = parser.parse_args()
    clicks = measure_clicks(arguments.url, arguments.clicks)
    clauses = measure_clauses(arguments.url, arguments.clauses)
    rows = [*rows_of(clicks), *(_row(label, [clause[name] for clause in clauses]) for name, label in PARTS.items())]
    write_report({"page": rows}, arguments.json, clicks=clicks, clauses=clauses)
    return 0


if __name__ == "__main__":
    sys.exit(main())
