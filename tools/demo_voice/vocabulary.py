"""Codec ids of the embedded voice, and random voice descriptions for its training."""

from __future__ import annotations

import random

from config import CONFIG

CODES = CONFIG["codec"]["codebook_size"]
# The offset of the special tokens from the first id after the codes is the same as in published checkpoints.
CODEC_VOCAB = CODES + 1024
CODEC_PAD, CODEC_BOS, CODEC_EOS = CODES + 100, CODES + 101, CODES + 102
THINK, NOTHINK, THINK_BOS, THINK_EOS = CODES + 106, CODES + 107, CODES + 108, CODES + 109
ENGLISH = CODES + 2
FIRST_SPEAKER = CODES + 813


def pitch_word(gender: str, f0: float) -> str:
    """Return "low", "medium" or "high", or "" for a pitch between two of these ranges."""
    low, middle, high = (166, (172, 204), 214) if gender == "female" else (98, (102, 130), 140)
    if f0 <= 0:
        return ""
    return "low" if f0 < low else "high" if f0 > high else "medium" if middle[0] < f0 < middle[1] else ""


def speed_word(stretch: float) -> str:
    """Return "slow", "normal" or "fast", or "" for a pace between two of these ranges."""
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


def brightness(formant: float, rng: random.Random) -> list[str]:
    """Return a list with an adjective for shifted formants, or an empty list."""
    if 0.97 <= formant <= 1.03 or rng.random() < 0.3:
        return []
    return [rng.choice(("bright", "light", "clear and bright") if formant > 1 else ("dark", "full", "rich"))]


def age(gender: str, f0: float, formant: float, stretch: float, rng: random.Random) -> str:
    """Return an adjective for the age that fits the pitch, formants and pace, or "".

    If none fits, an adjective for a medium age is returned with a probability of 10 %.
    """
    if formant > 1.03 and (f0 > 214 or (gender == "male" and f0 > 132)):
        return rng.choice(("young", "young", "young", "teenage"))
    if formant < 0.97 and stretch > 1.08:
        return rng.choice(("old", "elderly", "old", "aged"))
    return rng.choice(("middle-aged", "adult", "mature")) if rng.random() < 0.1 else ""


def design(gender: str, f0: float, stretch: float, formant: float, rng: random.Random) -> str:
    """Return a typical description of a voice that is true of the audio's properties."""

    def say(word: str) -> str:
        return rng.choice(WORDS[word]) if word else ""

    pitch, speed = pitch_word(gender, f0), speed_word(stretch)
    pitch = "" if pitch == "medium" and rng.random() < 0.5 else pitch
    speed = "" if speed == "normal" and rng.random() < 0.5 else speed
    who, how, pace = say(gender), say(pitch), say(speed)
    years = age(gender, f0, formant, stretch, rng)
    who = f"{years} {who}" if years and rng.random() < 0.6 else who
    quality = [rng.choice(QUALITIES)] if rng.random() < 0.3 else []
    tone = ", ".join([*(brightness(formant, rng) or quality), *([how] if how else [])])
    article = "An" if who[0] in "aeiou" else "A"
    forms = (
        f"{article} {who} with a {tone or 'natural'} voice" + (f", speaking {pace}" if pace else ""),
        f"A {tone + ' ' if tone else ''}{who} voice" + (f" speaking {pace}" if pace else ""),
        f"{tone + ' ' if tone else ''}{who} voice" + (f", {pace}" if pace else ""),
        f"Speak {pace + ' ' if pace else ''}in a {tone + ' ' if tone else ''}{who} voice",
        f"Gender: {gender}. Pitch: {pitch or 'medium'}. Speed: {speed or 'normal'}"
        if (pitch or f0 <= 0) and speed else f"{article} {who}",
    )  # fmt: skip
    text = rng.choice(forms)
    text = text[0].upper() + text[1:] if rng.random() < 0.8 else text.lower()
    return text + ("." if rng.random() < 0.6 else "")


AGES = ("in {h} twenties", "in {h} thirties", "in {h} forties", "in {h} fifties", "of about sixty")
TIMBRES = (
    "warm", "husky", "soft", "gravelly", "resonant", "friendly", "even", "lively", "smooth", "authoritative",
    "neutral", "amused", "curious", "gentle", "velvety", "crisp", "breathy", "cheerful", "serious",
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


def portrait(gender: str, f0: float, stretch: float, formant: float, rng: random.Random) -> str:
    """Return a longer description of a speaker.

    Only gender, pitch, formants and pace are true of the audio, and other details are invented.
    """
    female = gender == "female"
    his, he = ("her", "She") if female else ("his", "He")
    who, years = ("woman" if female else "man"), f" {rng.choice(AGES)}".format(h=his)
    heard = age(gender, f0, formant, stretch, rng)
    if female and f0 > 240:
        who, years = rng.choice((("girl", " of about eight"), ("little girl", ""), ("young woman", ""), ("girl", "")))
    elif heard:
        who, years = f"{heard} {who}", ""
    pitch = pitch_word(gender, f0)
    colours = [*rng.sample(TIMBRES, rng.randint(0, 2)), *brightness(formant, rng)]
    colours += [rng.choice(HEIGHTS[pitch])] if pitch and (pitch != "medium" or rng.random() < 0.5) else []
    rng.shuffle(colours)
    joined = ", ".join(colours[:-1]) + (" and " if len(colours) > 1 else "") + colours[-1] if colours else "natural"
    pace, manner = rng.choice(PACES[speed_word(stretch)]), rng.choice(MANNERS) if rng.random() < 0.6 else ""
    end = f", {manner}" if manner else ""
    article = "An" if who[0] in "aeiou" else "A"
    verb = rng.choice(("reads", "speaks", "talks"))
    return rng.choice((
        f"{article} {who}{years} with a {joined} voice. {he} {verb} {pace}{end}.",
        f"{article} {who}{years} with a {joined} voice, speaking {pace}{end}.",
        f"{article} {who}{years}; the voice is {joined}, {his} speech goes {pace}{end}.",
        f"The voice of a {who}{years}: {joined}. {pace.capitalize()}{end}.",
    ))  # fmt: skip


GENTLE = (
    "Speak warmly and gently", "Speak with bright excitement", "Speak softly", "Whisper softly",
    "Speak with contained anger", "Speak with a smile", "Read this like the news", "Say it sadly", "Speak solemnly",
    "Speak with confidence", "Say it kindly",
)  # fmt: skip


def mood(ratio: float, stretch: float, rng: random.Random) -> str:
    """Return an instruction with a mood, a pace and a pitch.

    Only the pace and the pitch are true of the audio, and the mood is random.
    """
    pace = {"slow": ("slowly", "a little slower than usual", "with long pauses, slowly"),
            "fast": ("a little faster than usual", "quickly", "in a hurry"),
            }.get(speed_word(stretch), ("",))  # fmt: skip
    pitch = ("in a deep voice",) if ratio < 0.92 else ("in a high voice",) if ratio > 1.08 else ("",)
    extras = [rng.choice(pace), rng.choice(pitch), rng.choice(MANNERS) if rng.random() < 0.4 else ""]
    return ", ".join([rng.choice(GENTLE), *(e for e in extras if e)]) + "."


def style(ratio: float, stretch: float, rng: random.Random) -> str:
    """Return an instruction with the pitch and pace of a named speaker's audio.

    `ratio` is the pitch of the audio divided by the speaker's median pitch.
    """
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
