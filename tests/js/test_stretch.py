"""Tests for playback speed: duration, constant pitch and unchanged samples at rate 1."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.js.conftest import Node

RATE = 24000
WINDOW = 2400
RATES = [0.75, 1.25, 1.5, 2]

# Script that processes one block at a time, with as much input as the stretcher requests, like the audio thread.
STRETCH = """async ({ pcm, rate }) => {
  const { TimeStretch } = await import('/js/player/worklet_stretch.js');
  const stretch = new TimeStretch(24000);
  const all = Int16Array.from(pcm);
  const block = new Float32Array(128);
  const out = [];
  for (let at = 0, count = 1; count > 0; ) {
    const taken = Math.min(stretch.neededSamples, all.length - at);
    stretch.append(all, at, taken);
    at += taken;
    count = stretch.read(block, 0, rate);
    for (let i = 0; i < count; i++) out.push(block[i] * 32768);
  }
  return out;
}"""


def stretched(node: Node, pcm: NDArray[np.int16], rate: float) -> NDArray[np.float64]:
    return np.array(node.evaluate(STRETCH, {"pcm": pcm.tolist(), "rate": rate}))


def vowel(pitch: float, seconds: float = 4.0) -> NDArray[np.int16]:
    """Return synthetic audio of a spoken vowel: harmonics with two formants.

    The audio has a pitch glide of 8 %, syllable-like loudness and breath noise.
    """
    t = np.arange(int(RATE * seconds)) / RATE
    phase = 2 * np.pi * np.cumsum(pitch * (1 + 0.08 * np.sin(3 * np.pi * t))) / RATE
    sound = np.zeros(t.size)
    for k in range(1, int(4000 / pitch)):
        loud = np.exp(-(((k * pitch - 600) / 500) ** 2)) + np.exp(-(((k * pitch - 1500) / 400) ** 2)) / 2 + 0.1 / k
        sound += loud * np.sin(k * phase)
    sound *= (0.6 + 0.4 * np.sin(8 * np.pi * t)) / 2 / np.abs(sound).max()
    return ((sound + np.random.default_rng(1).normal(0, 0.005, t.size)) * 32767).astype(np.int16)


def pitch_of(sound: NDArray[np.int16] | NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Return the pitch in Hz of forty windows, from the lag of the highest autocorrelation."""
    hann = np.hanning(WINDOW)

    def correlation(window: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.fft.irfft(np.abs(np.fft.rfft(window, 8192)) ** 2)[:600]

    found = []
    for middle in np.linspace(0.3, 3.7, 40) * RATE / rate:
        at = int(middle) - WINDOW // 2
        alike = correlation(sound[at : at + WINDOW] * hann) / correlation(hann)
        lag = 60 + int(np.argmax(alike[60:500]))
        before, most, after = alike[lag - 1 : lag + 2]
        found.append(RATE / (lag + (before - after) / (before - 2 * most + after) / 2))
    return np.array(found)


@pytest.mark.slow(
    "0.75-140",
    "0.75-260",
    "0.75-350",
    "1.25-140",
    "1.25-260",
    "1.25-350",
    "1.5-140",
    "1.5-260",
    "1.5-350",
    "2-140",
    "2-260",
    "2-350",
)
@pytest.mark.parametrize("pitch", [75, 140, 260, 350])
@pytest.mark.parametrize("rate", RATES)
def test_time_stretching_changes_duration_and_keeps_pitch(node: Node, pitch: float, rate: float) -> None:
    pcm = vowel(pitch)
    sound = stretched(node, pcm, rate)
    assert sound.size * rate == pytest.approx(pcm.size, rel=0.01)
    assert np.median(pitch_of(sound, rate) / pitch_of(pcm, 1)) == pytest.approx(1, abs=0.01)
    assert np.sqrt(np.mean(sound**2)) == pytest.approx(np.sqrt(np.mean(pcm.astype(float) ** 2)), rel=0.05)


def test_time_stretching_at_normal_speed_changes_no_sample(node: Node) -> None:
    pcm = np.random.default_rng(0).integers(-32768, 32768, 30_000).astype(np.int16)
    assert np.array_equal(stretched(node, pcm, 1), pcm)


@pytest.mark.parametrize("rate", RATES)
def test_silence_is_stretched_like_speech(node: Node, rate: float) -> None:
    pcm = np.zeros(48_000, np.int16)
    sound = stretched(node, pcm, rate)
    assert sound.size * rate == pytest.approx(pcm.size, rel=0.01)
    assert not sound.any()
