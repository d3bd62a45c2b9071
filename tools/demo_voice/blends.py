"""Measure the median F0 of blends of two voices at several weights.

Run: python -m tools.demo_voice.blends http://127.0.0.1:7860 angus clara
"""

from __future__ import annotations

import argparse
import io

import httpx
import numpy as np
import soundfile

from tools.demo_voice.pitch import track_f0

TEXTS = (
    "The kettle has just boiled, and the sea was calm this morning.",
    "Nobody in the village could say who had put out the light.",
)
SEEDS = (1, 2)
SECOND_VOICE_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)


def median_f0(client: httpx.Client, voice: str) -> float:
    """Return the median F0 in Hz of all voiced frames over texts and seeds."""
    voiced = []
    for text in TEXTS:
        for seed in SEEDS:
            body = {"voice": voice, "input": text, "seed": seed, "response_format": "wav", "stream": False}
            reply = client.post("/v1/audio/speech", json=body).raise_for_status()
            samples, _ = soundfile.read(io.BytesIO(reply.content), dtype="float32")
            f0 = track_f0(samples)
            voiced.append(f0[f0 > 0])
    return float(np.median(np.concatenate(voiced)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("first")
    parser.add_argument("second")
    given = parser.parse_args()
    with httpx.Client(base_url=given.url, timeout=600, trust_env=False) as client:
        found = [
            median_f0(client, f"{given.first}:{1 - weight:g}+{given.second}:{weight:g}")
            for weight in SECOND_VOICE_WEIGHTS
        ]
    for weight, f0 in zip(SECOND_VOICE_WEIGHTS, found, strict=True):
        print(f"{given.first} {1 - weight:.2f} + {given.second} {weight:.2f}: {f0:.1f} Hz")
    steps = np.diff(found)
    print("monotonic" if (steps > 0).all() or (steps < 0).all() else "not monotonic")


if __name__ == "__main__":
    main()
