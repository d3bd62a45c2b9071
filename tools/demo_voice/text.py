"""Generate training sentences from templates of everyday speech, WordNet and word lists."""

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


EVERYDAY = (
    "{Who} {did} {place} {when}.",
    "{Who} {did} with {name} {when}.",
    "Did {who} {do} {when}?",
    "{name}, could you {do} before {when2}?",
    "I {feel} that we {did} {when}.",
    "I'm sorry, I can't {do} {when2}.",
    "Let's {do} {when2}, shall we?",
    "Why didn't you {do} {when}?",
    "What time does the {venue} open {when2}?",
    "How much is the {thing}?",
    "Where did you put my {thing}?",
    "I left my {thing} {place}.",
    "The {thing} {place} is {quality}.",
    "This {thing} is really {quality}, don't you think?",
    "{Who} said the {thing} was {quality}, but it isn't.",
    "Could I have the {food}, please?",
    "We had {food} and {food} for dinner {when}.",
    "Is there any {food} left in the kitchen?",
    "I'd like the {food} with {food}, and a glass of water.",
    "My {relative} loves {food}.",
    "My {relative} {did} {place} when {who} called.",
    '"No," said {name}.',
    "Yes, I think so.",
    "Not at all!",
    "The weather will be {weather} {when2}.",
    "It was {weather} all day, so {who} stayed at home.",
    "Take the {vehicle} to the {venue} and get off at the {venue}.",
    "The {vehicle} to {city} leaves in {n99} minutes.",
    "Excuse me, is this the {vehicle} to {city}?",
    "{Who} moved to {city} about {n12} years ago.",
    "The news from {city} is {quality} this morning.",
    "Police in {city} are looking for a missing {thing}.",
    "The government announced a new plan for the {venue} {when}.",
    "Prices rose by {n12} percent in {month}.",
    "Once, {place}, there lived a {quality} {relative} with a {quality} {thing}.",
    "{name} opened the door, looked around, and saw a {quality} {thing}.",
    '"Come in," whispered the {relative}, "and close the door."',
    "Nobody knew why {who} {did} {when}.",
    "If {who} can {do}, then so can you.",
    "When {who} {did}, the {thing} was still {quality}.",
    "Please remember to {do} {when2}.",
    "Don't forget your {thing}, {name}!",
    "Thanks, {name}, that was {quality}.",
    "Have you ever {done} {place}?",
    "{Who} has never {done} before.",
    "I have {done} {n12} times this week.",
    "First {do}, then {do}, and finally {do}.",
    "Which do you prefer, {food} or {food}?",
    "Your {thing} will arrive on {day}, {month} {n31}.",
    "Happy birthday, {name}! You are {n99} today.",
    "Set a timer for {n99} minutes.",
    "Remind me to {do} {when2}.",
    "Good evening, and welcome to the {venue}.",
    "You have {n12} new messages.",
    "The doctor told {name} to {do} twice a day.",
    "{Who} would rather {do} than {do}.",
    "It takes about {n99} minutes to {do}.",
    "The {quality} {thing} belongs to my {relative}.",
    "There's a {quality} {venue} near the {venue}.",
)
SLOTS = {
    "who": "I|you|we|they|she|he|the children|my neighbor|our teacher|the old man|the young woman|somebody|everyone|"
           "the driver|the manager|two friends of mine",
    "did": "went for a walk|read a book|fixed the car|called the office|played the piano|bought some bread|"
           "found a key|watched the game|cooked dinner|waited for an hour|lost the ticket|painted the fence|"
           "made a mistake|fell asleep|told a story|cleaned the house|wrote a letter|missed the train|saw a bird",
    "do": "go for a walk|read the report|fix the window|call the bank|play the guitar|buy some milk|find the keys|"
          "watch the news|cook dinner|wait outside|book a table|water the plants|send the email|take the dog out|"
          "check the oven|write it down|turn off the lights|pay the bill|finish the homework|speak more slowly",
    "done": "been fishing|seen the ocean|tried to cook|lost a suitcase|forgotten a birthday|ridden a horse|"
            "played chess|worked at night|climbed a mountain|driven a truck|slept under the stars",
    "place": "in the garden|at the station|on the kitchen table|behind the house|near the river|in the hotel|"
             "under the bridge|at school|on the second floor|in the library|by the window|across the street|"
             "in the middle of the forest|at the airport|in the back of the car",
    "when": "yesterday|last night|this morning|on {day}|two weeks ago|after lunch|before sunrise|in the spring|"
            "around noon|at midnight|a moment ago|during the storm|on the weekend",
    "when2": "tomorrow|tonight|this afternoon|on {day}|next week|at {n12} o'clock|later|before dinner|in {month}|soon",
    "feel": "think|believe|hope|doubt|heard|know|guess",
    "venue": "museum|market|restaurant|hospital|theater|post office|bakery|swimming pool|university|town hall|"
             "pharmacy|zoo|concert hall|police station|gym|church|harbor|cinema",
    "thing": "umbrella|jacket|phone|bicycle|letter|camera|suitcase|picture|blanket|watch|laptop|mirror|ladder|"
             "package|necklace|engine|notebook|lamp|guitar|wallet|chair|sweater|machine|clock|box|dog|cat|horse",
    "quality": "beautiful|broken|expensive|strange|heavy|wonderful|very old|quite small|brand new|terrible|dirty|"
               "bright yellow|dark green|cheap|quiet|dangerous|perfect|boring|enormous|warm|empty|famous",
    "food": "cheese|fresh bread|tomato soup|rice|chocolate cake|fried fish|coffee|orange juice|apple pie|pasta|"
            "salad|strawberries|mushrooms|pancakes|garlic|chicken|roasted vegetables|green tea|butter|honey",
    "relative": "mother|father|sister|brother|grandmother|uncle|aunt|cousin|daughter|son|wife|husband|boss|friend",
    "weather": "sunny|cold and windy|cloudy|rainy|warmer than usual|foggy|freezing|stormy|mild",
    "vehicle": "train|bus|ferry|plane|taxi|tram|subway",
    "city": "London|Chicago|Paris|Boston|Tokyo|Dublin|Sydney|Toronto|Berlin|Seattle|Cairo|Madrid|New York|Denver|Rome",
}  # fmt: skip


def wordnet(folder: Path) -> tuple[list[str], list[str]]:
    """Return the definitions and the example sentences in WordNet's data files."""
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
    """Return a fragment, usually with a capital first letter and a full stop at the end."""
    if rng.random() < 0.75:
        text = text[0].upper() + text[1:]
    if text[-1].isalnum() and rng.random() < 0.75:
        text += rng.choice("........!?")
    return text


def fill(template: str, words: list[str], rng: random.Random) -> str:
    """Fill a template with random names, numbers and words."""
    values = {
        "name": lambda: rng.choice(FIRST), "day": lambda: rng.choice(DAYS),
        "month": lambda: rng.choice(MONTHS), "n12": lambda: str(rng.randint(1, 12)),
        "n31": lambda: str(rng.randint(1, 31)), "n99": lambda: str(rng.randint(2, 99)),
        "year": lambda: str(rng.randint(1850, 2040)), "word": lambda: rng.choice(words),
    } | {k: lambda k=k: rng.choice(SLOTS[k].split("|")) for k in SLOTS}  # fmt: skip

    def value(match: re.Match[str]) -> str:
        text = values[match.group(1).lower()]()
        return text[0].upper() + text[1:] if match.group(1)[0].isupper() else text

    while re.search(r"\{\w+\}", template):
        template = re.sub(r"\{(\w+)\}", value, template)
    return template


def corpus(debs: Path, seed: int, max_chars: int, held_out: int) -> tuple[list[str], list[str]]:
    """Return the training lines and the held-out sentences, both in random order."""
    rng = random.Random(seed)
    glosses, examples = wordnet(debs / "usr/share/wordnet")
    lines = (debs / "usr/share/dict/american-english").read_text().split()
    words = [w for w in lines if w.isalpha() and w.isascii() and 2 < len(w) < 13]
    nouns = [w for w in words if w.islower()]
    fit = [e for e in dict.fromkeys(examples) if PLAIN.match(e) and len(e) <= max_chars]
    candidates = [e for e in fit if 6 <= len(e.split()) <= 12 and not re.search(r"\d", e)]
    everyday = [fill(rng.choice(EVERYDAY), nouns, rng).replace('"', "") for _ in range(60000)]
    common = [e for e in dict.fromkeys(everyday) if 6 <= len(e.split()) <= 12 and not re.search(r"\d", e)]
    kept = rng.sample(sorted(candidates), held_out // 2) + rng.sample(common, held_out // 2)
    rng.shuffle(kept)
    kept.sort(key=set(candidates).__contains__)  # The everyday sentences come first.
    banned = {k.lower() for k in kept}
    fit, everyday = ([e for e in part if e.lower() not in banned] for part in (fit, everyday))
    plain = [g for g in dict.fromkeys(glosses) if PLAIN.match(g) and 8 <= len(g) <= max_chars]
    plain = rng.sample(plain, min(len(plain), 60000))
    out = [sentence(e, rng) for e in fit] + [sentence(g, rng) for g in plain]
    out += [sentence(" ".join(rng.sample(words, rng.randint(2, 6))), rng) for _ in range(16000)]
    out += [fill(rng.choice(TEMPLATES), nouns, rng) for _ in range(16000)]
    out += everyday
    pool = fit + plain + everyday
    for _ in range(12000):  # Fragments of sentences, because a request may be a single word.
        part = rng.choice(pool).split()
        start = rng.randrange(len(part))
        out.append(sentence(" ".join(part[start : start + rng.randint(1, 4)]).strip(",;:. ") or "Yes", rng))
    for _ in range(24000):  # Paragraphs of two or three sentences.
        text = " ".join(sentence(rng.choice(pool), rng) for _ in range(rng.randint(2, 3)))
        if len(text) <= max_chars:
            out.append(text)
    out = [o for o in out if PLAIN.match(o) and re.search(r"[A-Za-z0-9]", o)]
    rng.shuffle(out)
    return out, [sentence(k, random.Random(i)) for i, k in enumerate(kept)]
