"""Takes the tags of Cartesia's and ElevenLabs' texts out of a growing one, so that none is read aloud.

``<spell>`` is acted on: what it holds is spoken letter by letter. ``<break>`` becomes a pause of punctuation.
``<speed>``, ``<volume>``, ``<emotion>`` and ``<phoneme>`` ask for what a checkpoint cannot do in the middle of a text
and are left out; the words between them are spoken. A tag may come in pieces; any other ``<`` is text.
"""

from __future__ import annotations

import re

_NAMES = ("break", "spell", "speed", "volume", "emotion", "phoneme")
_TAG = re.compile(rf"<(/?)\s*({'|'.join(_NAMES)})\b[^<>]*>", re.IGNORECASE)
_MAX_TAG = 100  # characters; what has not ended by then is no tag
_PAUSE = ", "
_MARKS = ".,;:!?…。，、；：！？"


class Tags:
    """One transcript. What `add` and `finish` return, joined, is what is to be spoken."""

    def __init__(self) -> None:
        self._tail = ""  # may be the beginning of a tag
        self._is_spelling = False
        self._last = ""  # character that was given out

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        text, self._tail = self._tail + text, ""
        start = text.rfind("<")
        if start >= 0 and _may_become_a_tag(text[start:]):
            text, self._tail = text[:start], text[start:]
        return self._spoken(text)

    def finish(self) -> str:
        """Return what was held back: it is text, because nothing has closed it."""
        tail, self._tail = self._tail, ""
        return self._spoken(tail)

    def _spoken(self, text: str) -> str:
        parts, start = [], 0
        for tag in _TAG.finditer(text):
            parts.append(self._plain(text[start : tag.start()]))
            start = tag.end()
            is_end, name = bool(tag[1]), tag[2].lower()
            if name == "spell":
                parts.append(self._given(" ") if self._last.strip() else "")
                self._is_spelling = not is_end
            elif name == "break" and self._last.strip():
                parts.append(self._given(" " if self._last in _MARKS else _PAUSE))
        parts.append(self._plain(text[start:]))
        return "".join(parts)

    def _plain(self, text: str) -> str:
        if self._is_spelling:
            text = "".join(f"{letter}, " for letter in text if letter.isalnum())
        return self._given(text)

    def _given(self, text: str) -> str:
        self._last = text[-1:] or self._last
        return text


def without_tags(text: str) -> str:
    """Return a whole transcript as it is to be spoken."""
    tags = Tags()
    return tags.add(text) + tags.finish()


def _may_become_a_tag(tail: str) -> bool:
    """Tell whether more text could close it as one of the tags."""
    if ">" in tail or len(tail) > _MAX_TAG:
        return False
    word = tail[1:].removeprefix("/").lstrip().lower()
    name = re.match(r"[a-z]*", word)
    begun = name[0] if name else ""
    return begun in _NAMES if begun != word else any(known.startswith(begun) for known in _NAMES)
