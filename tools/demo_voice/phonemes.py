"""Stage 0 of the voice training: Kokoro's styles, and text lines with phoneme ids.

Run: python phonemes.py   (writes work/voices.npz, unseen.npz, lines.npz and held_out.npz)
"""

from __future__ import annotations

import ctypes
import re
import tarfile
from pathlib import Path

import numpy as np

from config import CONFIG, DEBS, PHRASES, WORK
from text import corpus

MAPPING, IDS = PHRASES["phonemes"]["mapping"], dict(PHRASES["phonemes"]["ids"])


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
