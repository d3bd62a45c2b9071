"""Test of the documentation pages: their examples use the URL of the running studio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.app import App

pytestmark = pytest.mark.browser


def test_example_copied_from_a_documentation_page_runs(app: App, studio: Page, tmp_path: Path) -> None:
    studio.goto(f"{app.url}/docs/quickstart", wait_until="domcontentloaded")
    examples = studio.eval_on_selector_all("pre code", "all => all.map((one) => one.textContent)")
    assert not [example for example in examples if "//127.0.0.1:8210" in example]
    (example,) = [one for one in examples if "import httpx" in one and "morning.pcm" in one]
    assert f'"{app.url}/v1/audio/speech"' in example
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True)
    assert (tmp_path / "morning.pcm").stat().st_size > 0
