"""Measurement of first use: one click starts a download, quantization and speech.

A local server replaces the Hugging Face Hub. It has a repository in the published 0.6B layout with random weights,
which are generated once per machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from tests.browser.steps import reading
from tests.support.app import App, running_app
from tests.support.checkpoints.torch_draw import write_synthetic
from tests.support.hub import Hub, serving

CHECKPOINT = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"
TEXT = "Hi."
# Timeout for a download of 2.5 GB over loopback, its hash check and the loading of the model, while other tests run.
DOWNLOAD_MS = 300_000
SPEECH_MS = 300_000
PAGE_MS = 120_000


@dataclass(frozen=True, slots=True)
class Walked:
    """Results of one measurement of first use."""

    model: str  # Model in the metadata of the stored take.
    weights: str  # Weight format on the card of the model.
    frames: int
    rtf: float  # Seconds of computation per second of audio.
    ttfa_ms: float
    plan_s: float  # Seconds from opening the dialog until it shows the measured speed.
    change_s: float  # Seconds from the click until the new voice serves requests.
    offered: str  # Text of the offer in the dialog before the download.


def repository() -> Path:
    """Return the folder of the random repository (2.5 GB), which is created if necessary.

    The folder appears only when it is complete.
    """
    folder = Path(tempfile.gettempdir()) / f"voicewright-random-0.6B-{os.getuid()}"
    if not folder.is_dir():
        making = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
        write_synthetic(making, "0.6B", "custom_voice", device="cpu")
        try:
            making.rename(folder)
        except OSError:  # Another process has created the folder.
            shutil.rmtree(making)
    return folder


@contextmanager
def fresh_studio(folder: Path) -> Iterator[App]:
    """Run a studio without stored data next to a fake Hub with the checkpoint.

    The studio uses all processor cores.
    """
    cores = {"OMP_NUM_THREADS": str(os.cpu_count()), "VOICEWRIGHT_THREADS": "0"}
    folders = {"HF_HOME": str(folder / "home"), "VOICEWRIGHT_DATA": str(folder / "data")}
    with (
        serving(Hub({CHECKPOINT: repository()})) as hub,
        running_app([], HF_ENDPOINT=hub.url, **folders, **cores) as app,
    ):
        yield app


def walk(page: Page, app: App) -> Walked:
    """Use the page like a new user until the first take has ended, and return measurements."""
    page.click("#vw-loaded-open")
    page.click("#vw-loaded-see")
    sheet, began = page.locator("#vw-real-voices"), time.monotonic()
    offer = sheet.locator(".vw-offer", has=page.locator(f"input[value='{CHECKPOINT}']"))
    expect(offer).to_contain_text("real time", timeout=PAGE_MS)
    plan_s = time.monotonic() - began
    # The fake Hub has only one of the offered models. On a fast machine, the page suggests a larger model of the same
    # mode.
    offer.locator("input").check()
    for box in sheet.locator(".vw-offer input").all():
        if box.get_attribute("value") != CHECKPOINT and box.is_checked():
            box.uncheck()
    sheet.get_by_role("combobox").select_option("int8")
    offered, began = offer.inner_text(), time.monotonic()
    page.click("#vw-real-begin")
    expect(page.locator("#vw-toasts")).to_contain_text("The real voices are ready.", timeout=DOWNLOAD_MS)
    expect(page.locator("#vw-models")).to_contain_text(CHECKPOINT, timeout=PAGE_MS)
    change_s = time.monotonic() - began
    page.fill("#vw-text", TEXT)
    page.click("#vw-speak")
    expect(page.locator("#vw-stop")).to_be_enabled(timeout=PAGE_MS)
    expect(page.locator("#vw-stop")).to_be_disabled(timeout=SPEECH_MS)
    cards = httpx.get(f"{app.url}/v1/models", trust_env=False).json()["data"]
    (take, *_) = httpx.get(f"{app.url}/studio/takes", trust_env=False).json()["takes"]
    return Walked(
        model=take["model"]["id"],
        weights=next(card["dtype"] for card in cards if card["id"] == CHECKPOINT),
        frames=int(reading(page, "frames")),
        rtf=float(reading(page, "rtf")),
        ttfa_ms=take["metrics"]["ttfa_ms"],
        plan_s=round(plan_s, 1),
        change_s=round(change_s, 1),
        offered=" ".join(offered.split()),
    )
