"""Pytest options that make the page slow, to find tests that read a result too early.

``pytest tests/browser --page-latency 500`` delays every HTTP response by 500 ms. ``--page-pause 150`` waits 150 ms
before every action of a test. ``--page-processor 4`` makes the scripts of the page four times slower.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from playwright.sync_api import Page


@dataclass(frozen=True)
class Slowness:
    """Latency and pause in ms, and slowdown factor of the processor."""

    latency_ms: float
    pause_ms: float
    processor: float

    @classmethod
    def of(cls, config: pytest.Config) -> Slowness:
        return cls(*(float(config.getoption(name)) for name in ("page_latency", "page_pause", "page_processor")))

    def slow_down(self, page: Page) -> None:
        if self.latency_ms == 0 and self.processor == 1:
            return
        devtools = page.context.new_cdp_session(page)
        devtools.send("Emulation.setCPUThrottlingRate", {"rate": self.processor})
        if self.latency_ms:
            unlimited = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
            devtools.send("Network.enable")
            devtools.send("Network.emulateNetworkConditions", {"latency": self.latency_ms} | unlimited)
