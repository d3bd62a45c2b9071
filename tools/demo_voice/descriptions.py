"""Random voice descriptions for the training, which match the speech."""

from __future__ import annotations

import random

from config import PHRASES

RANGES, WORDS, TRAITS = PHRASES["ranges"], PHRASES["words"], PHRASES["traits"]


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
