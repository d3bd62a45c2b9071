"""Measurement of the runaway detector, which stops speech that does not end.

The results are the speech durations of unusual texts, and the number of normal texts whose speech was stopped.
"""

from __future__ import annotations

import random

from runtime.engine.engine import Engine
from runtime.request import Guard, Mode, SpeechRequest
from runtime.settings import Settings
from tests.speech.test_guards import TEXTS
from tests.support.engines import EventRecorder, speak_together

PIECES = (
    *("ha", "no", "la", "Bahnhof", "xqz", "www", "...", "!?", "—", "1234567890", "3.14159", "A.B.C.", "()", "«»"),
    *("mmm", "aaaaaaaa", "ß", "ñ", "你好", "はい", "🙂", "\n", ",", "and", "the the the", "HTTP://", "#", "co-op"),
)
TOGETHER = 8


def odd_texts(count: int, seed: int = 1) -> list[str]:
    """Return `count` unusual texts, for which speech often does not end ("runaway").

    Each text repeats a word, consists of random words, or repeats a sentence.
    """
    dice = random.Random(seed)
    texts = []
    for number in range(count):
        match number % 3:
            case 0:
                texts.append(" ".join([dice.choice(PIECES)] * dice.randint(1, 24)))
            case 1:
                texts.append("".join(dice.choice(PIECES) + dice.choice(("", " ")) for _ in range(dice.randint(1, 24))))
            case _:
                texts.append(" ".join([dice.choice(TEXTS)] * dice.randint(1, 4)))
    return [text if any(map(str.isalnum, text)) else f"{text} a" for text in texts]


def runaway(count: int) -> str:
    """Generate speech for `count` unusual texts and for normal texts, and return a summary."""
    engine = Engine.open(Settings())
    voices = engine.cards[0].speakers

    def spoken(texts: list[str]) -> list[EventRecorder]:
        heard: list[EventRecorder] = []
        for start in range(0, len(texts), TOGETHER):
            requests = [
                SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, voice=voices[number % len(voices)], seed=number)
                for number, text in enumerate(texts[start : start + TOGETHER], start)
            ]
            heard += speak_together(engine, *requests)
        return heard

    odd, clean = spoken(odd_texts(count)), spoken(list(TEXTS))
    longest = max(len(each.pcm) for each in odd) / 24_000
    guards = {guard: sum(each.end.stats.guard is guard for each in odd) for guard in Guard}
    by_guard = ", ".join(f"{number} by {guard.value}" for guard, number in guards.items() if number) or "none"
    cut = sum(each.end.stats.guard is not None for each in clean)
    odd_ones = f"{count} odd texts: {longest:.1f} s at most; ended by a guard: {by_guard}"
    return f"{odd_ones}; of {len(clean)} clean texts {cut} cut"
