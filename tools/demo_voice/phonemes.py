"""Stage 0 of the voice training: Kokoro's styles, and text lines with phoneme ids.

The sentences are from templates of everyday speech, WordNet and word lists.

Run: python phonemes.py   (writes work/voices.npz, unseen.npz, lines.npz and held_out.npz)
"""

from __future__ import annotations

import ctypes
import random
import re
import tarfile
from pathlib import Path

import numpy as np

from config import CONFIG, DEBS, PHRASES, WORK

PLAIN = re.compile(r"^[A-Za-z0-9 ,.'?!;:-]+$")
TEMPLATES, EVERYDAY, SLOTS = PHRASES["text"]["templates"], PHRASES["text"]["everyday"], PHRASES["slots"]
# Placeholders in a template, each with the range of the random number that replaces it.
NUMBERS = {"n12": (1, 12), "n31": (1, 31), "n99": (2, 99), "year": (1850, 2040)}
MAPPING, IDS = PHRASES["phonemes"]["mapping"], dict(PHRASES["phonemes"]["ids"])


def wordnet() -> tuple[list[str], list[str]]:
    """Return the definitions and the example sentences of WordNet."""
    glosses, examples = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (DEBS / f"usr/share/wordnet/data.{part}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            gloss = line.split("|", 1)[1].strip()
            examples += [e.strip() for e in re.findall(r'"([^"]+)"', gloss)]
            plain = re.sub(r"\([^)]*\)", "", re.sub(r'"[^"]*"', "", gloss))
            glosses += [re.sub(r"\s+", " ", g).strip(" ,;:") for g in plain.split(";")]
    return glosses, examples


def sentence(text: str, rng: random.Random) -> str:
    """Return a text, usually with a capital first letter and a final punctuation mark."""
    if rng.random() < 0.75:
        text = text[0].upper() + text[1:]
    if text[-1].isalnum() and rng.random() < 0.75:
        text += rng.choice("........!?")
    return text


def fill(template: str, words: list[str], rng: random.Random) -> str:
    """Fill the placeholders of a sentence template with random names, numbers and words."""

    def value(match: re.Match[str]) -> str:
        slot = match.group(1).lower()
        if slot in NUMBERS:
            return str(rng.randint(*NUMBERS[slot]))
        text = rng.choice(words if slot == "word" else SLOTS[slot])
        return text[0].upper() + text[1:] if match.group(1)[0].isupper() else text

    while re.search(r"\{\w+\}", template):
        template = re.sub(r"\{(\w+)\}", value, template)
    return template


def is_sentence(text: str) -> bool:
    return 6 <= len(text.split()) <= 12 and not re.search(r"\d", text)


def corpus() -> tuple[list[str], list[str]]:
    """Return the lines of training text and the held-out sentences."""
    rng, max_chars, held_out = random.Random(CONFIG["seed"]), CONFIG["text"]["max_chars"], CONFIG["text"]["held_out"]
    glosses, examples = wordnet()
    listed = (DEBS / "usr/share/dict/american-english").read_text().split()
    words = [w for w in listed if w.isalpha() and w.isascii() and 2 < len(w) < 13]
    nouns = [w for w in words if w.islower()]
    fit = [e for e in dict.fromkeys(examples) if PLAIN.match(e) and len(e) <= max_chars]
    everyday = [fill(rng.choice(EVERYDAY), nouns, rng).replace('"', "") for _ in range(60000)]
    candidates, common = (list(filter(is_sentence, dict.fromkeys(part))) for part in (fit, everyday))
    kept = rng.sample(sorted(candidates), held_out // 2) + rng.sample(common, held_out // 2)
    rng.shuffle(kept)
    kept.sort(key=set(candidates).__contains__)  # The everyday sentences come first.
    banned = {k.lower() for k in kept}
    fit, everyday = ([e for e in part if e.lower() not in banned] for part in (fit, everyday))
    plain = [g for g in dict.fromkeys(glosses) if PLAIN.match(g) and 8 <= len(g) <= max_chars]
    plain = rng.sample(plain, min(len(plain), 60000))
    out = [sentence(e, rng) for e in fit + plain]
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


def symbols(ipa: str) -> str:
    """Convert espeak-ng's IPA to Kokoro's phoneme symbols.

    The IPA is American English, and ^ joins the two symbols of an affricate or a diphthong.
    """
    ipa = re.sub(r"\(.*?\)|[\u200d_]", "", ipa)
    for old, new in MAPPING:
        ipa = ipa.replace(old, new)
    # The pronoun "I" gets a secondary stress, as in misaki. Without it, Kokoro often omits an "I" at the beginning of a
    # text.
    return " ".join("ˌI" if word == "I" else word for word in re.sub(r"(\S)\u0329", r"ᵊ\1", ipa).split())


class Espeak:
    """Converter of text to phonemes with espeak-ng.

    The library is not thread-safe. Each process needs its own object.
    """

    def __init__(self, libraries: Path) -> None:
        for name in ("libpcaudio.so.0", "libsonic.so.0"):
            ctypes.CDLL(str(libraries / name), ctypes.RTLD_GLOBAL)
        lib = self._lib = ctypes.CDLL(str(libraries / "libespeak-ng.so.1"))
        lib.espeak_Initialize(2, 0, str(libraries).encode(), 0)
        lib.espeak_TextToPhonemes.restype = ctypes.c_char_p
        if lib.espeak_SetVoiceByName(b"en-us") != 0:
            raise ValueError("espeak-ng has no voice en-us")

    def clause(self, text: str) -> str:
        """Return the IPA of a text that has no punctuation.

        The two symbols of an affricate or a diphthong are joined by ^.
        """
        pointer, parts = ctypes.c_char_p(text.encode()), []
        while pointer.value is not None:
            parts.append(self._lib.espeak_TextToPhonemes(ctypes.byref(pointer), 1, 0x82 | ord("^") << 8) or b"")
        return b" ".join(parts).decode()

    def ids(self, text: str) -> list[int]:
        """Return Kokoro's phoneme ids of a line, with 0 at both ends."""
        out = ""
        for part in re.split(r"([,.;:!?]+)", text):
            if part[:1] in tuple(",.;:!?"):
                out += part[0]
            elif part.strip():
                out += (" " if out else "") + symbols(self.clause(part))
        return [0, *(IDS[c] for c in out if c in IDS), 0]


def read_lines(path: Path) -> tuple[list[str], list[np.ndarray]]:
    """Return the texts and their phoneme ids from a file that phonemes.py has written."""
    data = np.load(path)
    ids = np.split(data["ids"].astype(np.int64), data["lengths"].cumsum())
    return bytes(data["text"]).decode().split("\n"), ids[:-1]


def main() -> None:
    # Row n of a style [510, 1, 256] is for a text of n tokens.
    taught = [name for names in CONFIG["styles"].values() for name in names]
    with tarfile.open(WORK / "kokoro-js-1.2.1.tgz") as package:
        for file, names in (("voices", taught), ("unseen", CONFIG["clones"]["styles"])):
            raw = {name: package.extractfile(f"package/voices/{name}.bin").read() for name in names}
            styles = {k: np.frombuffer(r, np.float32).reshape(-1, 1, 256).astype(np.float16) for k, r in raw.items()}
            np.savez(WORK / f"{file}.npz", **styles)
    lines, held_out = corpus()
    espeak = Espeak(DEBS / "usr/lib/x86_64-linux-gnu")
    for name, part in (("lines", lines), ("held_out", held_out)):
        ids = [espeak.ids(line) for line in part]
        np.savez_compressed(WORK / f"{name}.npz", text=np.frombuffer("\n".join(part).encode(), np.uint8),
                            ids=np.concatenate(ids).astype(np.uint8), lengths=[len(i) for i in ids])  # fmt: skip
        print(name, len(part), "lines", sum(map(len, ids)) / len(ids), "ids a line")


if __name__ == "__main__":
    main()
