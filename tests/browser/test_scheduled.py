"""Tests for playback without an AudioWorklet: start times of buffers, and underruns."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = [pytest.mark.quick, pytest.mark.browser]

# Script that plays chunks of 80 ms, which arrive at the given times of a fake clock, and returns their start times.
PLAY = """async (times) => {
  const { ScheduledOutput } = await import('/js/player/outputs.js');
  const starts = [];
  const context = {
    currentTime: 1,
    createBuffer: (_, length) => ({ getChannelData: () => new Float32Array(length) }),
    createBufferSource: () => ({ connect() {}, start: (at) => starts.push(at), stop() {} }),
  };
  let counters;
  const output = new ScheduledOutput({ context }, (counted) => { counters = counted; });
  output.begin(1, 1920);
  for (const now of times) {
    context.currentTime = now;
    output.push(1, new Int16Array(1920));
  }
  output.stop();
  return { starts, underruns: counters.underruns, lost: counters.underrunSamples };
}"""


def play(page: Page, *times: float) -> dict[str, Any]:
    heard = page.evaluate(PLAY, list(times))
    assert isinstance(heard, dict)
    return heard


def test_audio_received_in_time_plays_without_a_gap(blank: Page) -> None:
    heard = play(blank, 1.0, 1.07, 1.1)
    assert heard == {"starts": pytest.approx([1.01, 1.09, 1.17]), "underruns": 0, "lost": 0}


def test_audio_received_after_an_underrun_waits_for_twice_the_buffer(blank: Page) -> None:
    heard = play(blank, 1.0, 1.2, 1.3)
    assert heard == {"starts": pytest.approx([1.01, 1.31, 1.39]), "underruns": 1, "lost": 5280}


def test_audio_received_too_late_to_be_scheduled_counts_as_an_underrun(blank: Page) -> None:
    heard = play(blank, 1.0, 1.085, 1.2)
    assert heard == {"starts": pytest.approx([1.01, 1.21, 1.29]), "underruns": 1, "lost": 2880}
