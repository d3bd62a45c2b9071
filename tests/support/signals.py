"""Deterministic voice-like audio with gliding harmonics, syllables and a little noise.

The audio is not speech. However, pitch, loudness and timbre change as in a voice, so codes and x-vectors change too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24000


def voice(seconds: float, seed: int, sample_rate: int = SAMPLE_RATE) -> NDArray[np.float32]:
    """Return voice-like mono audio.

    Shapes: [round(seconds * sample_rate)], peak 0.5. Each seed yields a different voice.
    """
    return _voice(seconds, seed, sample_rate).copy()


@lru_cache(64)  # Tests request the same signals hundreds of times.
def _voice(seconds: float, seed: int, sample_rate: int) -> NDArray[np.float32]:
    stream = np.random.RandomState(seed)
    count = round(seconds * sample_rate)
    time = np.arange(count) / sample_rate
    base = 90.0 + 130.0 * stream.random_sample()
    glide = 0.15 * np.sin(2 * np.pi * (0.7 + stream.random_sample()) * time + 6.0 * stream.random_sample())
    phase = 2 * np.pi * np.cumsum(base * (1.0 + glide)) / sample_rate
    signal = np.zeros(count)
    for harmonic in range(1, 13):
        colour = stream.random_sample(3)
        sway = 0.5 + 0.5 * np.sin(2 * np.pi * (0.5 + 3.0 * colour[0]) * time + 6.0 * colour[1])
        signal += (0.3 + sway) * (0.2 + colour[2]) / harmonic * np.sin(harmonic * phase + 6.0 * colour[1])
    rate = 3.0 + 2.0 * stream.random_sample()
    envelope = 0.15 + 0.85 * np.sin(np.pi * rate * time) ** 2
    signal = envelope * signal + 0.02 * (2.0 * stream.random_sample(count) - 1.0)
    # Sine functions of different platforms differ in the last bits. Rounding to 16 bits removes the difference.
    return (np.round(16384 * signal / np.abs(signal).max()) / 32768).astype(np.float32)


def noise(count: int, channels: int, seed: int) -> NDArray[np.float32]:
    """Return white noise with independent samples and channels.

    Shapes: [count, channels], peak 0.5.
    """
    return np.random.RandomState(seed).uniform(-0.5, 0.5, (count, channels)).astype(np.float32)


def hush(seed: int = 1) -> NDArray[np.float32]:
    """Return samples of a long "sh", as loud as a voice: noise from 2200 to 4500 Hz."""
    count = round(0.25 * SAMPLE_RATE)
    spectrum = np.fft.rfft(np.random.RandomState(seed).standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / SAMPLE_RATE)
    noise = np.fft.irfft(spectrum * (hertz > 2200) * (hertz < 4500), count)
    return (0.6 * noise * np.hanning(count) / np.abs(noise).max()).astype(np.float32)


def cough(seed: int = 1) -> NDArray[np.float32]:
    """Return samples of a cough: a decaying burst of noise between 500 and 3000 Hz."""
    count = round(0.35 * SAMPLE_RATE)
    time = np.arange(count) / SAMPLE_RATE
    spectrum = np.fft.rfft(np.random.RandomState(seed).standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / SAMPLE_RATE)
    noise = np.fft.irfft(spectrum * (hertz / 400) ** 2 / (1 + (hertz / 400) ** 2) / (1 + (hertz / 3000) ** 4), count)
    burst = noise * np.minimum(1, time / 0.01) * np.exp(-time / 0.12)
    return (0.6 * burst / np.abs(burst).max()).astype(np.float32)


def knock(seed: int = 1) -> NDArray[np.float32]:
    """Return a knock on a table: resonances below 1 kHz that decay within 0.1 s."""
    stream = np.random.RandomState(seed)
    time = np.arange(round(0.2 * SAMPLE_RATE)) / SAMPLE_RATE
    sound = 0.8 * stream.standard_normal(len(time)) * np.exp(-time / 0.006)
    for hertz in 150.0 + 800.0 * stream.random_sample(5):
        sound += np.sin(2 * np.pi * hertz * time) * np.exp(-time / 0.02)
    return (0.8 * sound / np.abs(sound).max()).astype(np.float32)


def creak(seed: int = 1) -> NDArray[np.float32]:
    """Return a creaky vowel: glottal pulses with irregular periods of 12 to 30 ms."""
    stream = np.random.RandomState(seed)
    count = round(0.3 * SAMPLE_RATE)
    sound = np.zeros(count + SAMPLE_RATE)
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    at = 0
    while at < count:
        strength = (0.6 + 0.4 * stream.random_sample()) * (1 - 0.7 * at / count)
        for hertz, share in ((600.0, 1.0), (1300.0, 0.6), (2500.0, 0.3)):
            sound[at : at + SAMPLE_RATE] += strength * share * np.sin(2 * np.pi * hertz * time) * np.exp(-time / 0.004)
        at += round((0.012 + 0.018 * stream.random_sample()) * SAMPLE_RATE)
    return (0.5 * sound[:count] / np.abs(sound).max()).astype(np.float32)


def chords(seconds: float) -> NDArray[np.float32]:
    """Return samples of decaying two-second chords, with a root mean square of 1."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    steps = ((220.0, 277.2, 329.6), (174.6, 220.0, 261.6), (261.6, 329.6, 392.0), (196.0, 246.9, 293.7))
    step, since = (time // 2).astype(int) % len(steps), time % 2
    phases = [2 * np.pi * np.array(steps)[step, note] * since for note in range(3)]
    tones = sum(np.sin(harmonic * phase) / harmonic for phase in phases for harmonic in range(1, 7))
    return _unit(tones * np.minimum(1, since / 0.02) * np.exp(-since / 1.5))


def drums(seconds: float) -> NDArray[np.float32]:
    """Return samples of a drum pattern at 110 beats per minute, with a root mean square of 1."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    beat, since = np.divmod(time, 30 / 110)
    hiss = np.random.RandomState(1).standard_normal(len(time))
    kick = (beat % 4 == 0) * np.sin(2 * np.pi * 60 * since) * np.exp(-since / 0.1)
    snare = (beat % 4 == 2) * 0.6 * hiss * np.exp(-since / 0.07)
    return _unit(kick + snare + 0.15 * hiss * np.exp(-since / 0.03))


def _unit(signal: NDArray[np.float64]) -> NDArray[np.float32]:
    return (signal / np.sqrt((signal**2).mean())).astype(np.float32)
