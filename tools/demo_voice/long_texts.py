"""Measurement of the words that a long text loses on a server, compared with its single sentences.

Run: python long_texts.py http://127.0.0.1:8000   (a runtime: voicewright runtime --port 8000)
The same held-out sentences form texts of each length. Each text is compared with the audio of its sentences, joined by
silence and recognised at once, because recognition of long audio differs from that of short audio.
"""

from __future__ import annotations

import argparse
import json
import random
import urllib.request
from pathlib import Path

import numpy as np

from config import CONFIG, HERE
from phonemes import read_lines
from recognise import apart, hear, rate

LENGTHS = (300, 600, 1000)  # Characters of a text.
GAP_S = 0.35  # Pause between two sentences.


def spoken(url: str, text: str, speaker: str, seed: int) -> np.ndarray:
    """Return the server's speech as float samples at 24 kHz."""
    body = {"input": text, "voice": speaker, "seed": seed, "response_format": "pcm"}
    request = urllib.request.Request(
        f"{url}/v1/audio/speech", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return np.frombuffer(answer.read(), np.int16).astype(np.float32) / 32768.0


def texts(sentences: list[str], count: int) -> list[list[str]]:
    """Return `count` lists of sentences, each as long as the longest length needs."""
    rng, out = random.Random(CONFIG["seed"]), []
    pool = [s if s[-1] in ".!?" else f"{s}." for s in sentences]
    rng.shuffle(pool)
    for _ in range(count):
        chosen: list[str] = []
        while len(" ".join(chosen)) < LENGTHS[-1]:
            chosen.append(pool.pop())
        out.append(chosen)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--texts", type=int, default=10)
    parser.add_argument("--speaker", default="angus")
    parser.add_argument("--held-out", type=Path, default=HERE / CONFIG["paths"]["work"] / "held_out.npz")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    chosen, gap = texts(read_lines(args.held_out)[0], args.texts), np.zeros(int(GAP_S * 24000), np.float32)
    single = [[spoken(args.url, s, args.speaker, 1) for s in sentences] for sentences in chosen]
    for length in LENGTHS:
        truths, whole, joined = [], [], []
        for sentences, sounds in zip(chosen, single, strict=True):
            count = next(n for n in range(1, len(sentences) + 1) if len(" ".join(sentences[:n])) >= length)
            truths.append(" ".join(sentences[:count]))
            whole.append(spoken(args.url, truths[-1], args.speaker, 1))
            joined.append(np.concatenate([part for sound in sounds[:count] for part in (sound, gap)]))
        ours, theirs = hear(whole, args.workers), hear(joined, args.workers)
        gap_words, error = apart(truths, theirs, ours)
        seconds = sum(map(len, whole)) / sum(map(len, joined))
        figures = {"texts": len(truths), "single": rate(truths, theirs), "whole": rate(truths, ours), "gap": gap_words,
                   "error": error, "length": seconds}  # fmt: skip
        print(length, json.dumps({k: round(x, 3) for k, x in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
