"""From a row of the corpus to one training sequence in the published non-streaming layout."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

import vocabulary as v
from config import CONFIG

SPEAKERS = {name: v.FIRST_SPEAKER + i for i, name in enumerate(CONFIG["speakers"])}
BOOKS = CONFIG["codec"]["codebooks"]
MAX_FRAMES = 190
MODES = {  # custom_voice, voice_design, base
    "named": (0.55, 0.13, 0.32), "styled": (0.60, 0.20, 0.20), "flite": (0.0, 0.45, 0.55), "espeak": (0.0, 0.2, 0.8),
}  # fmt: skip


@dataclass
class Prompt:
    """Positions before the first frame. -1 means nothing on that side; `slot` is where the x-vector goes."""

    text: list[int]
    codec: list[int]
    slot: int = -1


def prefix(instruct: list[int] | None, language: bool, speaker: int | None) -> Prompt:
    """Return instruct, role and tags. `speaker`: an id, -1 for an x-vector, None for no slot."""
    text: list[int] = []
    if instruct is not None:
        text += [v.IM_START, v.USER, v.NEWLINE, *instruct, v.IM_END, v.NEWLINE]
    text += [v.IM_START, v.ASSISTANT, v.NEWLINE]
    codec = [-1] * len(text)
    tags = [v.THINK, v.THINK_BOS, v.ENGLISH, v.THINK_EOS] if language else [v.NOTHINK, v.THINK_BOS, v.THINK_EOS]
    codec += tags
    slot = len(codec) if speaker == -1 else -1
    codec += [] if speaker is None else [speaker]
    text += [v.PAD] * (len(codec) - len(text))
    return Prompt([*text, v.BOS], [*codec, v.CODEC_PAD], slot)


def add_text(prompt: Prompt, body: list[int]) -> None:
    """Append the non-streaming text and the position whose logits are the first code."""
    prompt.text += [*body, v.EOS, v.PAD]
    prompt.codec += [v.CODEC_PAD] * (len(body) + 1) + [v.CODEC_BOS]


class Corpus:
    """Rows with their tokens and codes; draws sequences."""

    def __init__(self, rows: list[dict], codes: np.ndarray, phones: np.ndarray) -> None:
        self.codes = codes
        self.phones = phones
        self.rows = [r for r in rows if r["length"] // 1920 <= MAX_FRAMES]
        self.tokens = [e.ids for e in v.tokenizer().encode_batch([r["text"] for r in self.rows])]
        self.groups: dict[str, list[int]] = defaultdict(list)
        pitch: dict[str, list[float]] = defaultdict(list)
        for i, row in enumerate(self.rows):
            self.groups[row["group"]].append(i)
            if row["kind"] == "named" and row["f0"] > 0:
                pitch[row["speaker"]].append(row["f0"])
        self.own_pitch = {s: float(np.median(p)) for s, p in pitch.items()}
        self.group_pitch = {g: float(np.median([self.rows[i]["f0"] for i in m])) for g, m in self.groups.items()}
        self.encode = v.tokenizer().encode

    def frames(self, row: dict) -> np.ndarray:
        return self.codes[row["start"] // 1920 : (row["start"] + row["length"]) // 1920].astype(np.int64)

    def labels(self, row: dict) -> np.ndarray:
        part = self.phones[row["start"] // 480 : (row["start"] + row["length"]) // 480]
        return np.where(part == 255, -100, part.astype(np.int64)).reshape(-1, 4)

    def instruct(self, row: dict, mode: str, rng: random.Random) -> list[int] | None:
        pitch = self.group_pitch[row["group"]]
        if mode == "voice_design":
            robotic = row["kind"] == "espeak"
            describe = v.portrait if rng.random() < 0.5 else v.design
            return self.encode(describe(row["gender"], pitch, row["stretch"], robotic, rng)).ids
        if row["kind"] == "styled" or rng.random() < 0.12:
            own = self.own_pitch.get(row["speaker"], pitch) or 1.0
            describe = v.mood if rng.random() < 0.35 else v.style
            return self.encode(describe(pitch / own if pitch else 1.0, row["stretch"], rng)).ids
        return None

    def sequence(self, index: int, rng: random.Random) -> dict:
        """Draw a mode and return one sequence: arrays over positions, and the reference row for the x-vector."""
        row = self.rows[index]
        mode = rng.choices(("custom_voice", "voice_design", "base"), MODES[row["kind"]])[0]
        mates = [i for i in self.groups[row["group"]] if i != index]
        if mode == "base" and not mates:
            mode = "voice_design"
        reference = rng.choice(mates) if mode == "base" else None
        speaker = {"custom_voice": SPEAKERS.get(row["speaker"]), "voice_design": None, "base": -1}[mode]
        instruct = None if mode == "base" else self.instruct(row, mode, rng)
        prompt = prefix(instruct, rng.random() < 0.7, speaker)
        frames, phones, body = self.frames(row), self.labels(row), self.tokens[index]
        if mode == "base" and rng.random() < 0.35:
            other = self.rows[reference]
            joined = np.concatenate((self.frames(other), frames))
            if len(joined) <= MAX_FRAMES:
                frames, body = joined, self.tokens[reference] + body
                phones = np.concatenate((self.labels(other), phones))
        add_text(prompt, body)
        return {"prompt": prompt, "frames": frames, "phones": phones, "reference": reference, "row": row}


def collate(parts: list[dict], width: int, corpus: Corpus, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Pad sequences on the right, add input noise, line up targets (the frame that each position predicts)."""
    lm = CONFIG["lm"]
    shape = (len(parts), width)
    text, codec, first = (np.full(shape, -1, np.int64) for _ in range(3))
    codes, target = np.full((*shape, BOOKS), -1, np.int64), np.full((*shape, BOOKS), -1, np.int64)
    phones = np.full((*shape, 4), -100, np.int64)
    slots, spans = np.full(len(parts), -1, np.int64), np.zeros((len(parts), 2), np.int64)
    pitch = np.zeros(len(parts), np.float32)
    for b, part in enumerate(parts):
        prompt, clean = part["prompt"], part["frames"]
        start, count = len(prompt.text), len(clean)
        text[b, :start], codec[b, :start] = prompt.text, prompt.codec
        text[b, start : start + count] = v.PAD
        noisy = clean.copy()
        swap = rng.random(count) < lm["frame_noise"]
        noisy[swap] = clean[rng.integers(0, count, swap.sum())]
        wrong = rng.random(noisy.shape) < lm["code_noise"]
        noisy[wrong] = rng.integers(0, v.CODES, wrong.sum())
        codes[b, start : start + count] = noisy
        target[b, start - 1 : start - 1 + count] = clean
        first[b, start - 1 : start - 1 + count] = clean[:, 0]
        first[b, start - 1 + count] = v.CODEC_EOS
        phones[b, start - 1 : start - 1 + count] = part["phones"]
        slots[b] = prompt.slot
        if part["reference"] is not None:
            other = corpus.rows[part["reference"]]
            spans[b] = other["start"], other["length"]
            pitch[b] = corpus.group_pitch[other["group"]]
    return {"text": text, "codec": codec, "codes": codes, "first": first, "target": target, "phones": phones,
            "slots": slots, "spans": spans, "pitch": pitch}  # fmt: skip
