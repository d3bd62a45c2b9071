"""Training sequences of token ids in both published layouts, from encoded utterances.

The instructions are random descriptions that match the speech.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from config import CONFIG, PHRASES, WORK
from lm_model import SIZES
from runtime.engine.execution.prompt import PromptColumns, add_tags, add_text
from runtime.model.talker import NO_CODEC
from runtime.request import Layout
from store import FRAME_SAMPLES, STYLE_SCALE, STYLE_SIZE
from text_vocabulary import TextVocabulary

RANGES, WORDS, TRAITS = PHRASES["ranges"], PHRASES["words"], PHRASES["traits"]
TALKER = SIZES.talker
CODEBOOKS = TALKER.num_code_groups
MAX_FRAMES = 190
# Maximum number of text ids per frame in the streaming layout, which adds one text id to each frame. With nearly as
# many ids as frames, the speech would be ahead of the text.
MAX_TEXT_IDS_PER_FRAME = 0.85


def word_of(property_name: str, value: float) -> str:
    """Return the word for a value of a property, such as "low", or "" if no range contains it.

    Args:
        property_name: Key of `RANGES`, for example "stretch" (relative duration).
    """
    return next((word for word, (low, high) in RANGES[property_name].items() if low < value < high), "")


def brightness(formant: float, rng: random.Random) -> list[str]:
    """Return a list with one adjective for the brightness of the voice, or an empty list.

    The list is empty if the formants are almost unchanged, and otherwise with a probability of 30 %.
    """
    if 0.97 <= formant <= 1.03 or rng.random() < 0.3:
        return []
    return [rng.choice(TRAITS["bright" if formant > 1 else "dark"])]


def age(gender: str, f0: float, formant: float, stretch: float, rng: random.Random) -> str:
    """Return an adjective for the age that fits the pitch, formants and pace, or "".

    If no adjective fits, one for a medium age is returned with a probability of 10 %.
    """
    if formant > 1.03 and (f0 > 214 or (gender == "male" and f0 > 132)):
        return rng.choice(TRAITS["young"])
    if formant < 0.97 and stretch > 1.08:
        return rng.choice(TRAITS["old"])
    return rng.choice(TRAITS["adult"]) if rng.random() < 0.1 else ""


def design(gender: str, f0: float, stretch: float, formant: float, rng: random.Random) -> str:
    """Return a random description of a voice, which fits the properties of the audio."""
    pitch, speed = word_of(gender, f0), word_of("stretch", stretch)
    pitch = "" if pitch == "medium" and rng.random() < 0.5 else pitch
    speed = "" if speed == "normal" and rng.random() < 0.5 else speed
    who, how, pace = (rng.choice(WORDS[word]) if word else "" for word in (gender, pitch, speed))
    years = age(gender, f0, formant, stretch, rng)
    who = f"{years} {who}" if years and rng.random() < 0.6 else who
    quality = [rng.choice(TRAITS["qualities"])] if rng.random() < 0.3 else []
    tone = ", ".join([*(brightness(formant, rng) or quality), *([how] if how else [])])
    article, spaced = "An" if who[0] in "aeiou" else "A", tone + " " if tone else ""
    *forms, table, short = PHRASES["designs"]["paced" if pace else "unpaced"]
    text = rng.choice([*forms, table if (pitch or f0 <= 0) and speed else short]).format(
        article=article, who=who, tone=tone or "natural", spaced=spaced, pace=pace, gender=gender,
        pitch=pitch or "medium", speed=speed)  # fmt: skip
    text = text[0].upper() + text[1:] if rng.random() < 0.8 else text.lower()
    return text + ("." if rng.random() < 0.6 else "")


def portrait(gender: str, f0: float, stretch: float, formant: float, rng: random.Random) -> str:
    """Return a longer random description of a speaker.

    Gender, pitch, formants and pace fit the audio. Other details are invented.
    """
    female = gender == "female"
    his, he = ("her", "She") if female else ("his", "He")
    who, years = ("woman" if female else "man"), f" {rng.choice(TRAITS['ages'])}".format(h=his)
    heard = age(gender, f0, formant, stretch, rng)
    if female and f0 > 240:
        who, years = rng.choice((("girl", " of about eight"), ("little girl", ""), ("young woman", ""), ("girl", "")))
    elif heard:
        who, years = f"{heard} {who}", ""
    pitch = word_of(gender, f0)
    colours = [*rng.sample(TRAITS["timbres"], rng.randint(0, 2)), *brightness(formant, rng)]
    colours += [rng.choice(PHRASES["heights"][pitch])] if pitch and (pitch != "medium" or rng.random() < 0.5) else []
    rng.shuffle(colours)
    joined = ", ".join(colours[:-1]) + (" and " if len(colours) > 1 else "") + colours[-1] if colours else "natural"
    pace = rng.choice(PHRASES["paces"][word_of("stretch", stretch)])
    end = f", {rng.choice(TRAITS['manners'])}" if rng.random() < 0.6 else ""
    article, verb = "An" if who[0] in "aeiou" else "A", rng.choice(("reads", "speaks", "talks"))
    names = {"who": who + years, "joined": joined, "he": he, "his": his, "verb": verb, "article": article}
    return rng.choice(TRAITS["portraits"]).format(**names, pace=pace, capital=pace.capitalize(), end=end)


def mood(ratio: float, stretch: float, rng: random.Random) -> str:
    """Return an instruction with a random mood, and with the pace and the pitch of the audio."""
    pace = rng.choice(PHRASES["tempos"].get(word_of("stretch", stretch), ("",)))
    pitch = rng.choice(PHRASES["pitches"].get(word_of("ratio", ratio), ("",)))
    extras = [pace, pitch, rng.choice(TRAITS["manners"]) if rng.random() < 0.4 else ""]
    return ", ".join([rng.choice(TRAITS["moods"]), *(e for e in extras if e)]) + "."


def style(ratio: float, stretch: float, rng: random.Random) -> str:
    """Return an instruction that describes the pitch and pace of a named speaker's audio.

    `ratio` is the pitch of the audio divided by the speaker's median pitch.
    """
    speed = word_of("stretch", stretch)
    pace = rng.choice(WORDS[speed]) if speed in ("slow", "fast") else ""
    tone = rng.choice(PHRASES["tones"].get(word_of("ratio", ratio), ("",)))
    if not pace and not tone:
        return rng.choice(TRAITS["normal"])
    verb = rng.choice(("Speak", "Say it", "Read", "Talk", "Please speak"))
    parts = [p for p in (pace, tone) if p]
    rng.shuffle(parts)
    joined = rng.choice((" ", " and ")).join(parts)
    return f"{verb} {joined}" + ("." if rng.random() < 0.6 else "")


def prefix(
    t: TextVocabulary, instruct: list[int] | None, language: str, speaker: str | None, is_clone: bool
) -> PromptColumns:
    """Return a prompt that has the instruction, the role and the codec tags, but no text yet.

    `instruct` has the token ids of the instruction. The other arguments are those of `add_tags`.
    """
    prompt = PromptColumns()
    if instruct is not None:
        prompt.append_positions([t.im_start, t.user, t.newline, *instruct, t.im_end, t.newline], NO_CODEC)
    prompt.append_positions([t.im_start, t.assistant, t.newline], NO_CODEC)
    add_tags(prompt, t.config, language, speaker, is_clone)
    return prompt


class Corpus:
    """Collection of encoded utterances (rows), from which training sequences are drawn.

    The corpus grows while train_lm.py encodes new speech.
    """

    def __init__(self, t: TextVocabulary) -> None:
        self.t = t
        self.files: set[Path] = set()
        self.encode = t.tokenizer(CONFIG["lm"]["piece_dropout"]).encode
        self.rows: list[dict] = []
        self.groups: dict[str, list[int]] = defaultdict(list)
        self.group_pitch: dict[str, float] = {}
        self.pitches: dict[str, list[float]] = defaultdict(list)  # F0 values of each named speaker.
        self.own_pitch: dict[str, float] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the utterances that were encoded since the last call.

        All utterances of a group have the same voice and are in the same file, so each group is complete.
        """
        for path in sorted(set((WORK / "spoken").glob("*.pt")) - self.files):
            self.files.add(path)
            coded, shard = torch.load(path), torch.load(WORK / "shards" / path.name, mmap=True)
            codes, phones = coded["codes"].numpy(), shard["phones"].numpy().reshape(-1, 4)
            for row in shard["rows"]:
                first, count = row["start"] // FRAME_SAMPLES, row["length"] // FRAME_SAMPLES
                if count > MAX_FRAMES:
                    continue
                self.groups[row["group"]].append(len(self.rows))
                part, start = slice(first, first + count), coded["start"] + row["start"]
                self.rows.append({**row, "start": start, "codes": codes[part], "phones": phones[part]})
                if row["kind"] == "named" and row["f0"] > 0:
                    self.pitches[row["speaker"]].append(row["f0"])
        for group in self.groups.keys() - self.group_pitch.keys():
            self.group_pitch[group] = float(np.median([self.rows[i]["f0"] for i in self.groups[group]]))
        self.own_pitch = {speaker: float(np.median(f0)) for speaker, f0 in self.pitches.items()}

    def instruct(self, row: dict, mode: str, rng: random.Random) -> list[int] | None:
        pitch = self.group_pitch[row["group"]]
        if mode == "voice_design":
            describe = portrait if rng.random() < 0.5 else design
            return self.encode(describe(row["gender"], pitch, row["stretch"], row["formant"], rng)).ids
        if row["kind"] == "styled" or rng.random() < 0.12:
            own = self.own_pitch.get(row["speaker"], pitch) or 1.0
            describe = mood if rng.random() < 0.35 else style
            return self.encode(describe(pitch / own if pitch else 1.0, row["stretch"], rng)).ids
        return None

    def said(self, members: list[int]) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Join utterances of one voice, and return the text ids, frames and phones.

        `members` has the indices of the utterances.
        """
        texts = [self.rows[i]["text"] for i in members]
        texts[:-1] = [x if x[-1] in ".!?" else f"{x}." for x in texts[:-1]]
        frames, phones = (np.concatenate([self.rows[i][name] for i in members]) for name in ("codes", "phones"))
        return self.encode(" ".join(texts)).ids, frames.astype(np.int64), phones.astype(np.int64)

    def sequence(self, index: int, rng: random.Random) -> dict:
        """Return a training sequence of the utterance `index` with a random mode and layout.

        The result has the prompt, the text ids of the frames, the frames with their phones, and the index of the
        utterance whose audio is the reference, or None.
        """
        row, lm = self.rows[index], CONFIG["lm"]
        modes = lm["modes"][row["kind"]]
        mode = rng.choices(list(modes), list(modes.values()))[0]
        mates = [i for i in self.groups[row["group"]] if i != index]
        if mode == "base" and not mates:
            mode = "voice_design"
        reference = rng.choice(mates) if mode == "base" else None
        speaker = row["speaker"] if mode == "custom_voice" else None
        instruct = None if mode == "base" else self.instruct(row, mode, rng)
        language = "english" if rng.random() < 0.7 else "auto"
        prompt = prefix(self.t, instruct, language, speaker, mode == "base")
        members = [index]
        if mode != "base" and rng.random() < lm["joined"]:
            more = [index, *rng.sample(mates, min(len(mates), rng.randint(1, 2)))]
            if sum(len(self.rows[i]["codes"]) for i in more) <= lm["joined_frames"]:
                members = more
        body, frames, phones = self.said(members)
        if mode == "base" and rng.random() < 0.45:
            words, theirs, labels = self.said([reference])
            if len(theirs) + len(frames) <= MAX_FRAMES:
                body, frames, phones = words + body, np.concatenate((theirs, frames)), np.concatenate((labels, phones))
        is_streaming = rng.random() < lm["streaming"] and len(body) < MAX_TEXT_IDS_PER_FRAME * len(frames)
        layout = Layout.STREAMING if is_streaming else Layout.NON_STREAMING
        beside = add_text(prompt, [*body, self.t.eos], layout, self.t.config)
        return {"prompt": prompt, "beside": beside, "frames": frames, "phones": phones, "reference": reference}


def collate(parts: list[dict], width: int, corpus: Corpus, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Pad sequences on the right to `width`, and return a batch with noise in the input codes.

    The target of each position is the next frame.
    """
    lm, shape = CONFIG["lm"], (len(parts), width)
    text, codec, first = (np.full(shape, -1, np.int64) for _ in range(3))
    codes, target = (np.full((*shape, CODEBOOKS), -1, np.int64) for _ in range(2))
    phones = np.full((*shape, 4), -100, np.int64)
    slots, spans = np.full(len(parts), -1, np.int64), np.zeros((len(parts), 2), np.int64)
    pitch, formant = np.zeros(len(parts), np.float32), np.ones(len(parts), np.float32)
    styles = np.zeros((len(parts), STYLE_SIZE), np.float32)
    for b, part in enumerate(parts):
        prompt, clean = part["prompt"], part["frames"]
        start, count = len(prompt.text), len(clean)
        fed, predicted = slice(start, start + count), slice(start - 1, start - 1 + count)
        text[b, :start], codec[b, :start] = prompt.text, prompt.codec
        text[b, fed] = [*part["beside"], *[corpus.t.pad] * count][:count]
        noisy = clean.copy()
        swap = rng.random(count) < lm["frame_noise"]
        noisy[swap] = clean[rng.integers(0, count, swap.sum())]
        wrong = rng.random(noisy.shape) < lm["code_noise"]
        noisy[wrong] = rng.integers(0, TALKER.codes, wrong.sum())
        codes[b, fed], target[b, predicted], phones[b, predicted] = noisy, clean, part["phones"]
        first[b, predicted], first[b, start - 1 + count] = clean[:, 0], TALKER.codec_eos_token_id
        if part["reference"] is not None:
            slots[b], other = prompt.x_vector_at, corpus.rows[part["reference"]]
            spans[b] = other["start"], other["length"]
            pitch[b], formant[b] = corpus.group_pitch[other["group"]], other["formant"]
            styles[b] = other["style"] / STYLE_SCALE
    return {"text": text, "codec": codec, "codes": codes, "first": first, "target": target, "phones": phones,
            "slots": slots, "spans": spans, "pitch": pitch, "formant": formant, "styles": styles}  # fmt: skip
