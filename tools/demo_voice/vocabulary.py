"""Text tokens, codec ids and the words of instructions."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# just enough merges for the two words of the chat template to be one token each
MERGES = (("i", "s"), ("s", "is"), ("a", "n"), ("an", "t"), ("t", "ant"), ("a", "s"), ("as", "sis"),
          ("assis", "tant"), ("e", "r"), ("u", "s"), ("us", "er"))  # fmt: skip
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
CODES = 512


def byte_letters() -> list[str]:
    """Return GPT-2's printable letter of each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)}
    return [chr(b) if b in plain else other[b] for b in range(256)]


VOCABULARY = {t: i for i, t in enumerate([*byte_letters(), *("".join(m) for m in MERGES)])}
TEXT_IDS = {name: len(VOCABULARY) + i for i, name in enumerate(SPECIALS)}
TEXT_VOCAB = -(-(len(VOCABULARY) + len(SPECIALS)) // 16) * 16
IM_START, IM_END = TEXT_IDS["<|im_start|>"], TEXT_IDS["<|im_end|>"]
PAD, BOS, EOS = (TEXT_IDS[n] for n in SPECIALS[3:])
ASSISTANT, USER, NEWLINE = VOCABULARY["assistant"], VOCABULARY["user"], VOCABULARY[byte_letters()[10]]

# the specials keep their published distance from the first id after the codes
CODEC_VOCAB = CODES + 1024
CODEC_PAD, CODEC_BOS, CODEC_EOS = CODES + 100, CODES + 101, CODES + 102
THINK, NOTHINK, THINK_BOS, THINK_EOS = CODES + 106, CODES + 107, CODES + 108, CODES + 109
ENGLISH = CODES + 2
FIRST_SPEAKER = CODES + 813


def tokenizer() -> Tokenizer:
    """Return the text tokenizer: Qwen2's scheme with a handful of merges."""
    tok = Tokenizer(models.BPE(vocab=VOCABULARY, merges=list(MERGES)))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    return tok


def write_tokenizer(folder: Path) -> None:
    """Write vocab.json, merges.txt and tokenizer_config.json in the published form."""
    (folder / "vocab.json").write_text(json.dumps(VOCABULARY, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    added = {str(i): {"content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                      "special": True} for t, i in TEXT_IDS.items()}  # fmt: skip
    config = {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added,
        "additional_special_tokens": list(SPECIALS[1:]), "bos_token": None, "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>", "errors": "replace", "model_max_length": 131072,
        "pad_token": "<|endoftext|>", "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))


def pitch_word(gender: str, f0: float) -> str:
    """Return low, medium, high, or nothing when the pitch lies between two of them."""
    low, middle, high = (162, (167, 206), 214) if gender == "female" else (95, (98, 136), 146)
    if f0 <= 0:
        return ""
    return "low" if f0 < low else "high" if f0 > high else "medium" if middle[0] < f0 < middle[1] else ""


def speed_word(stretch: float) -> str:
    """Return slow, normal, fast, or nothing when the pace lies between two of them."""
    return "fast" if stretch < 0.88 else "slow" if stretch > 1.2 else "normal" if 0.92 < stretch < 1.13 else ""


WORDS = {
    "female": ("woman", "female", "lady", "female speaker", "woman"),
    "male": ("man", "male", "gentleman", "male speaker", "man"),
    "low": ("low", "deep", "low-pitched", "low"), "medium": ("medium", "normal", "natural", "mid-range"),
    "high": ("high", "high-pitched", "bright", "high"),
    "slow": ("slowly", "very slowly", "at a slow pace", "slowly and calmly"),
    "normal": ("at a normal pace", "at a natural speed", "normally", "steadily"),
    "fast": ("fast", "quickly", "very fast", "rapidly", "at a fast pace"),
}  # fmt: skip
QUALITIES = ("clear", "warm", "friendly", "gentle", "confident", "pleasant", "soft", "young", "professional")


def design(gender: str, f0: float, stretch: float, robotic: bool, rng: random.Random) -> str:
    """Return a description such as people type for VoiceDesign, true of this sound."""

    def say(word: str) -> str:
        return rng.choice(WORDS[word]) if word else ""

    pitch, speed = pitch_word(gender, f0), speed_word(stretch)
    pitch = "" if pitch == "medium" and rng.random() < 0.5 else pitch
    speed = "" if speed == "normal" and rng.random() < 0.5 else speed
    who, how, pace = say(gender), say(pitch), say(speed)
    quality = "robotic" if robotic else rng.choice(QUALITIES) if rng.random() < 0.3 else ""
    tone = ", ".join(w for w in (quality, how) if w)
    forms = (
        f"A {who} with a {tone or 'natural'} voice" + (f", speaking {pace}" if pace else ""),
        f"A {tone + ' ' if tone else ''}{who} voice" + (f" speaking {pace}" if pace else ""),
        f"{tone + ' ' if tone else ''}{who} voice" + (f", {pace}" if pace else ""),
        f"Speak {pace + ' ' if pace else ''}in a {tone + ' ' if tone else ''}{who} voice",
        f"Gender: {gender}. Pitch: {pitch or 'medium'}. Speed: {speed or 'normal'}"
        if (pitch or f0 <= 0) and speed else f"A {who}",
    )  # fmt: skip
    text = rng.choice(forms)
    text = text[0].upper() + text[1:] if rng.random() < 0.8 else text.lower()
    return text + ("." if rng.random() < 0.6 else "")


AGES = ("in {h} twenties", "in {h} thirties", "in {h} forties", "in {h} fifties", "of about sixty")
TIMBRES = (
    "warm", "husky", "clear", "bright", "soft", "rough", "gravelly", "resonant", "friendly", "even", "lively", "smooth",
    "authoritative", "neutral", "amused", "curious", "gentle", "velvety", "crisp", "breathy", "cheerful", "serious",
)  # fmt: skip
MANNERS = (
    "like someone telling a story by the fire", "like a newsreader", "with clean pauses", "with crisp consonants",
    "with long breaths between phrases", "with a smile", "as if to an old friend",
    "a little breathless with excitement", "with perfect diction", "in an intimate tone",
    "like a teacher in front of a class", "close to the microphone",
)  # fmt: skip
PACES = {
    "slow": (
        "unhurriedly",
        "slowly",
        "at a leisurely pace",
        "slowly and calmly",
        "in a slow and measured way",
        "very slowly",
    ),
    "normal": ("at a natural pace", "evenly", "at a relaxed pace", "clearly", "steadily"),
    "fast": ("briskly", "quickly", "at a brisk pace", "fast and with energy", "rapidly", "hurriedly"),
    "": ("clearly", "naturally"),
}
HEIGHTS = {"low": ("low", "deep", "low-pitched", "dark and low"), "medium": ("mid-range", "medium-pitched", "balanced"),
           "high": ("high", "high-pitched", "light and high", "bright and high")}  # fmt: skip


def portrait(gender: str, f0: float, stretch: float, robotic: bool, rng: random.Random) -> str:
    """Return a longer description with a person in it. What it adds beyond gender, pitch and pace is colour."""
    female = gender == "female"
    his, he = ("her", "She") if female else ("his", "He")
    who, age = ("woman" if female else "man"), f" {rng.choice(AGES)}".format(h=his)
    if female and f0 > 235:
        who, age = rng.choice((("girl", " of about eight"), ("little girl", ""), ("young woman", ""), ("woman", "")))
    elif rng.random() < 0.35:
        who, age = rng.choice(("young", "elderly", "middle-aged", "old", "mature")) + " " + who, ""
    pitch, colours = pitch_word(gender, f0), rng.sample(TIMBRES, rng.randint(0, 3))
    if robotic:
        colours[:1] = [rng.choice(("robotic", "synthetic", "mechanical"))]
    colours += [rng.choice(HEIGHTS[pitch])] if pitch and (pitch != "medium" or rng.random() < 0.5) else []
    rng.shuffle(colours)
    joined = ", ".join(colours[:-1]) + (" and " if len(colours) > 1 else "") + colours[-1] if colours else "natural"
    pace, manner = rng.choice(PACES[speed_word(stretch)]), rng.choice(MANNERS) if rng.random() < 0.6 else ""
    end = f", {manner}" if manner else ""
    article = "An" if who[0] in "aeiou" else "A"
    verb = rng.choice(("reads", "speaks", "talks"))
    return rng.choice((
        f"{article} {who}{age} with a {joined} voice. {he} {verb} {pace}{end}.",
        f"{article} {who}{age} with a {joined} voice, speaking {pace}{end}.",
        f"{article} {who}{age}; the voice is {joined}, {his} speech goes {pace}{end}.",
        f"The voice of a {who}{age}: {joined}. {pace.capitalize()}{end}.",
    ))  # fmt: skip


GENTLE = (
    "Speak warmly and gently", "Speak with bright excitement", "Speak softly", "Whisper softly",
    "Speak with contained anger", "Speak with a smile", "Read this like the news", "Say it sadly", "Speak solemnly",
    "Speak with confidence", "Say it kindly",
)  # fmt: skip


def mood(ratio: float, stretch: float, rng: random.Random) -> str:
    """Return a way of speaking of which this corpus holds pace and pitch only; the rest is colour."""
    pace = {"slow": ("slowly", "a little slower than usual", "with long pauses, slowly"),
            "fast": ("a little faster than usual", "quickly", "in a hurry"),
            }.get(speed_word(stretch), ("",))  # fmt: skip
    pitch = ("in a deep voice",) if ratio < 0.92 else ("in a high voice",) if ratio > 1.08 else ("",)
    extras = [rng.choice(pace), rng.choice(pitch), rng.choice(MANNERS) if rng.random() < 0.4 else ""]
    return ", ".join([rng.choice(GENTLE), *(e for e in extras if e)]) + "."


def style(ratio: float, stretch: float, rng: random.Random) -> str:
    """Return an instruction for a named speaker: `ratio` is pitch over the speaker's own."""
    speed = speed_word(stretch)
    pitch = "low" if ratio < 0.92 else "high" if ratio > 1.08 else ""
    pace = rng.choice(WORDS[speed]) if speed in ("slow", "fast") else ""
    tone = {"low": ("in a low voice", "in a deep voice", "with a low pitch", "with a deeper voice"),
            "high": ("in a high voice", "with a high pitch", "in a high-pitched voice", "with a higher voice"),
            }.get(pitch, ("",))  # fmt: skip
    tone = rng.choice(tone)
    if not pace and not tone:
        return rng.choice(
            ("Speak normally.", "Speak in your natural voice.", "Read this clearly.", "In a neutral tone.")
        )
    verb = rng.choice(("Speak", "Say it", "Read", "Talk", "Please speak"))
    parts = [p for p in (pace, tone) if p]
    rng.shuffle(parts)
    joined = rng.choice((" ", " and ")).join(parts)
    return f"{verb} {joined}" + ("." if rng.random() < 0.6 else "")
