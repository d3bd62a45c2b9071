"""Sentences to be spoken: WordNet's glosses and examples, word lists and templates."""

from __future__ import annotations

import random
import re
from pathlib import Path

PLAIN = re.compile(r"^[A-Za-z0-9 ,.'?!;:-]+$")
FIRST = [
    "Ada", "Ben", "Carol", "Daniel", "Emma", "Felix", "Grace", "Henry", "Iris", "Jack", "Kate", "Leo", "Maria", "Nina",
    "Oscar", "Paul", "Quinn", "Rosa", "Sam", "Tina", "Uma", "Victor", "Wendy", "Xavier", "Yara", "Zoe",
]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
TEMPLATES = (
    "Hello, my name is {name}.", "Good morning, {name}, how are you today?",
    "The meeting is on {day}, {month} {n31}.", "Please call {name} at {n12} o'clock.",
    "It costs {n99} dollars and {n99} cents.", "There are {n99} {word} in the {word}.",
    "{name} and {name} went to the {word} on {day}.", "I would like {n12} of these, please.",
    "Welcome to the {word} studio.", "Thank you very much, {name}!", "What is a {word}?",
    "Today is {day} and it is {n31} degrees outside.", "This voice was made by a small model.",
    "The user asked the assistant about the {word}.", "Can you hear me, {name}?",
    "Every {word} has its {word}.", "You can change the speaker, the speed and the pitch.",
    "Turn left at the {word}, then go straight for {n99} miles.", "The {word} is here.",
    "Once upon a time there was a {word} who lived near the {word}.",
    "Type any sentence here and listen to the {word}.", "The year was {year}.",
    "My {word} is better than your {word}, said {name}.", "One, two, three, {word}!",
    "Speech synthesis turns written text into sound.", "How can I help you today?",
)  # fmt: skip


def wordnet(folder: Path) -> tuple[list[str], list[str]]:
    """Return (glosses, examples) of WordNet's data files."""
    glosses, examples = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            gloss = line.split("|", 1)[1].strip()
            examples += [e.strip() for e in re.findall(r'"([^"]+)"', gloss)]
            plain = re.sub(r"\([^)]*\)", "", re.sub(r'"[^"]*"', "", gloss))
            glosses += [re.sub(r"\s+", " ", g).strip(" ,;:") for g in plain.split(";")]
    return glosses, examples


def sentence(text: str, rng: random.Random) -> str:
    """Give a fragment the look of what people type: mostly a capital and a full stop."""
    if rng.random() < 0.75:
        text = text[0].upper() + text[1:]
    if text[-1].isalnum() and rng.random() < 0.75:
        text += rng.choice("........!?")
    return text


def fill(template: str, words: list[str], rng: random.Random) -> str:
    """Fill one template with random names, numbers and words."""
    values = {
        "name": lambda: rng.choice(FIRST), "day": lambda: rng.choice(DAYS),
        "month": lambda: rng.choice(MONTHS), "n12": lambda: str(rng.randint(1, 12)),
        "n31": lambda: str(rng.randint(1, 31)), "n99": lambda: str(rng.randint(2, 99)),
        "year": lambda: str(rng.randint(1850, 2040)), "word": lambda: rng.choice(words),
    }  # fmt: skip
    return re.sub(r"\{(\w+)\}", lambda m: values[m.group(1)](), template)


def corpus(debs: Path, seed: int, max_chars: int, held_out: int) -> tuple[list[str], list[str]]:
    """Return (training lines, held-out sentences), both shuffled by `seed`."""
    rng = random.Random(seed)
    glosses, examples = wordnet(debs / "usr/share/wordnet")
    lines = (debs / "usr/share/dict/american-english").read_text().split()
    words = [w for w in lines if w.isalpha() and w.isascii() and 2 < len(w) < 13]
    nouns = [w for w in words if w.islower()]
    fit = [e for e in dict.fromkeys(examples) if PLAIN.match(e) and len(e) <= max_chars]
    candidates = [e for e in fit if 6 <= len(e.split()) <= 12 and not re.search(r"\d", e)]
    kept = rng.sample(sorted(candidates), held_out)
    banned = {k.lower() for k in kept}
    fit = [e for e in fit if e.lower() not in banned]
    plain = [g for g in dict.fromkeys(glosses) if PLAIN.match(g) and 8 <= len(g) <= max_chars]
    out = [sentence(e, rng) for e in fit] + [sentence(g, rng) for g in plain]
    out += [sentence(" ".join(rng.sample(words, rng.randint(2, 6))), rng) for _ in range(24000)]
    out += [fill(rng.choice(TEMPLATES), nouns, rng) for _ in range(16000)]
    pool = fit + plain
    for _ in range(12000):  # fragments: a request may be a single word
        part = rng.choice(pool).split()
        start = rng.randrange(len(part))
        out.append(sentence(" ".join(part[start : start + rng.randint(1, 4)]).strip(",;:. ") or "Yes", rng))
    for _ in range(24000):  # paragraphs: two or three sentences in one breath
        text = " ".join(sentence(rng.choice(pool), rng) for _ in range(rng.randint(2, 3)))
        if len(text) <= max_chars:
            out.append(text)
    out = [o for o in out if PLAIN.match(o) and re.search(r"[A-Za-z0-9]", o)]
    rng.shuffle(out)
    return out, [sentence(k, random.Random(i)) for i, k in enumerate(kept)]
