"""A thousand sentences of our own, no two alike, and how many frames each is spoken for.

The same texts for every engine and every run: no prompt is seen twice in a suite, so that no cache of prompts helps,
and the number of frames follows from the text alone, so that outputs are equally long.
"""

from __future__ import annotations

import random
from functools import cache

COUNT = 1000
FRAMES_PER_S = 12.5
LEAD_S, CHARACTER_S = 0.35, 0.062  # seconds of an English text: mean of the thousand is 4.3, as of Seed-TTS EN

ADJECTIVES = (
    *("old", "young", "quiet", "cheerful", "patient", "careful", "tired", "clever", "curious", "gentle", "stubborn"),
    *("famous", "lonely", "honest", "restless", "thoughtful", "nervous", "proud"),
)
PEOPLE = (
    *(
        "gardener",
        "pilot",
        "teacher",
        "baker",
        "sailor",
        "painter",
        "doctor",
        "carpenter",
        "singer",
        "farmer",
        "driver",
    ),
    *("librarian", "neighbour", "traveller", "fisherman", "engineer", "stranger", "captain", "tailor", "student"),
)
DEEDS = (
    *("waited", "listened", "worked", "slept", "whistled", "rested", "stopped", "laughed", "wrote a letter"),
    *("told a story", "found a key", "drank some tea", "repaired a clock", "watched the rain", "counted the boats"),
    *("opened a window", "lost a glove", "read the paper", "carried a ladder", "sang a song"),
)
PLACES = (
    *("near the harbour", "behind the station", "under the bridge", "at the market", "in the garden", "by the river"),
    *("on the hill", "beside the church", "in the kitchen", "at the corner", "across the street", "in the museum"),
    *("outside the village", "on the platform", "along the beach", "in the library", "above the bakery"),
)
OPENINGS = (
    *("Yesterday", "This morning", "In the evening", "Last winter", "Before dinner", "On Sunday", "After the storm"),
    *("Every summer", "Late at night", "Once again"),
)
LINKS = ("and", "but", "while", "because", "until", "so", "although")

WORDS = tuple(
    sorted(
        {word for phrases in (ADJECTIVES, PEOPLE, DEEDS, PLACES, LINKS) for text in phrases for word in text.split()}
    )
)


@cache
def sentences() -> tuple[str, ...]:
    """All of them, 20 to 160 characters each; the same on every machine."""
    made: dict[str, None] = {}
    number = 0
    while len(made) < COUNT:
        made[_sentence(random.Random(f"prompt {number}"))] = None
        number += 1
    return tuple(made)


def frames_of(text: str) -> int:
    """Frames (80 ms) that a text is spoken for."""
    return round(FRAMES_PER_S * (LEAD_S + CHARACTER_S * len(text)))


def single_tokens() -> tuple[str, ...]:
    """What a tokenizer should hold whole, so that these texts are as many tokens as they would be of a published one.

    No two of them can meet inside a word: each begins with a space or a capital, but for the two of the template, which
    come last and so never win over another.
    """
    openings = {*" ".join(OPENINGS).split(), "The"}
    later = {word for opening in OPENINGS for word in opening.split()[1:]}
    spaced = sorted({*WORDS, *later, "the"})
    return (*(f" {word}" for word in spaced), *sorted(openings - later), "assistant", "user")


def _sentence(mind: random.Random) -> str:
    opening = f"{mind.choice(OPENINGS)} " if mind.random() < 0.4 else ""
    clauses = mind.choices((1, 2, 3), (8, 4, 1))[0]
    text = opening + _clause(mind)
    for _ in range(clauses - 1):
        text += f", {mind.choice(LINKS)} {_clause(mind)}"
    return text[0].upper() + text[1:] + "."


def _clause(mind: random.Random) -> str:
    adjective = f"{mind.choice(ADJECTIVES)} " if mind.random() < 0.6 else ""
    place = f" {mind.choice(PLACES)}" if mind.random() < 0.6 else ""
    return f"the {adjective}{mind.choice(PEOPLE)} {mind.choice(DEEDS)}{place}"
