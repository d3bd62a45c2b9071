"""Test of first use with a checkpoint of the published 0.6B size: click, download, speech.

The test prints the speed. The speed is not checked, because it depends on the machine.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from tests.browser.conftest import OpenStudio
from tests.browser.newcomer import CHECKPOINT, fresh_studio, walk

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_first_click_on_speak_plays_audio_of_a_checkpoint_of_published_size(
    open_studio: OpenStudio, tmp_path: Path
) -> None:
    with fresh_studio(tmp_path) as app:
        walked = walk(open_studio(url=app.url), app)
    print(asdict(walked))
    assert (walked.model, walked.weights) == (CHECKPOINT, "int8")
    assert walked.frames > 0
    assert walked.ttfa_ms > 0
    assert "with 8-bit weights" in walked.offered
