"""Conversion of subtitle cues to spoken lines with their speakers.

Sound descriptions in brackets and the repeated text of rolling captions are removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from studio.documents.subtitles import Cue

# Minimum fraction of cues that start with rows of the previous cue, for captions to count as rolling.
ROLLING_SHARE = 1 / 3
MIN_ROLLING_CUES = 2
MAX_ROWS = 8  # Maximum number of rows on the screen at the same time.
# Maximum gap in seconds between two cues for an equal row to count as repeated. After a longer gap, the row counts as
# spoken again.
MAX_ROLLING_GAP_S = 0.5

UNNAMED_SPEAKER = "Speaker {}"  # Name if only dashes or >> mark a change of speaker.

_NOTES = "♪♫♬♩"
_SOUND = re.compile(
    # Sound descriptions in brackets. `[pause]` is excluded because it is a tag of the page.
    r"\[(?!\s*pause\b)[^\[\]]*\]|［[^［］]*］|【[^【】]*】"
    # Text after a music note. It ends at the next note in the row, at a note at the end of a later row, or at the end
    # of the row.
    rf"|[{_NOTES}][^{_NOTES}\n]*[{_NOTES}]+"
    rf"|[{_NOTES}][^{_NOTES}\n]*(?:\n(?![{_NOTES}])[^{_NOTES}\n]*)+[{_NOTES}]+(?=\s*(?:\n|$))"
    rf"|[{_NOTES}][^{_NOTES}\n]*"
    # Round brackets are a sound description only at the start of a sentence. Inside a sentence, they contain a remark.
    r"|(?:^|(?<=\n)|(?<=[.!?…。！？\]]\s))\s*[(（][^()（）]*[)）]"
)
_CHANGE = re.compile(r"\s*(?:(?P<dash>[-‐−–—―](?:\s+|(?=[^\W\d]|[\"“‘'¿¡(\[♪…])))|(?P<arrows>(?:>>+|»)\s*))")
# Patterns for a change of speaker inside a row. A dash marks a change only if the row begins with a dash.
_ARROWS_INSIDE = re.compile(r"(?<=[.!?…\"”'’)\]♪])\s+(?=>>)")
_DASH_INSIDE = re.compile(r"(?<=[.!?…\"”'’)\]♪])\s+(?=[-‐−–—―]\s*[^\W\d])")
_NAME = r"(?P<name>[^\W\d_][\w .'’&/#-]{0,31}?)"
_SPEAKER = re.compile(
    rf"(?:\[(?P<boxed>[^\[\]]{{1,32}})\]|\((?P<round>[^()]{{1,32}})\)|{_NAME})\s*"
    r"(?:[(\[（][^)\]）]{1,60}[)\]）]\s*)?(?::(?=\s|$)|：)\s*"
    r"|\[(?P<label>SPEAKER[ _]?\d+)\]\s*",
    re.IGNORECASE,
)
_HYPHENS = ("-", "\u2010", "\u00ad")
_WIDE = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]")


@dataclass(slots=True)
class Line:
    """Spoken text of one person in a subtitle file, with start and end times in seconds.

    `name` is the name of the speaker, or None if it is unknown.
    """

    start: float
    end: float
    name: str | None
    text: str


@dataclass(slots=True)
class Dialogue:
    """Spoken lines of a subtitle file, and the texts that were omitted.

    `sounds` are omitted texts in brackets, such as descriptions of noises. `repeated` are omitted rows that a previous
    cue already contained.
    """

    lines: list[Line] = field(default_factory=list)
    sounds: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)


def dialogue_of(cues: list[Cue], *, keep_sounds: bool = False) -> Dialogue:
    """Convert subtitle cues to lines of a dialogue.

    Args:
        cues: Cues in order of time.
        keep_sounds: True to convert text in brackets or between music notes to lines without a speaker.
    """
    dialogue = Dialogue()
    cues = [replace(cue, rows=list(_turn_rows(cue.rows))) for cue in _unrolled(cues, dialogue.repeated)]
    turns = _Turns(_names(cues))
    for cue in cues:
        for name, rows in turns.of(cue):
            for is_sound, text in _sounds("\n".join(rows)):
                line_text = join_rows(text)
                if is_sound and not keep_sounds:
                    dialogue.sounds.append(line_text)
                elif any(letter.isalnum() for letter in line_text):
                    dialogue.lines.append(Line(cue.start, cue.end, None if is_sound else name, line_text))
    return dialogue


def _turn_rows(rows: list[str]) -> Iterator[str]:
    """Yield the rows, split where the speaker changes."""
    for row in rows:
        for part in _ARROWS_INSIDE.split(row):
            change = _CHANGE.match(part)
            yield from _DASH_INSIDE.split(part) if change and change["dash"] else (part,)


def _unrolled(cues: list[Cue], repeated: list[str]) -> list[Cue]:
    """Return the cues without the rows that rolling captions repeat from the previous cue."""
    again = [0] * len(cues)  # Number of repeated rows at the start of each cue.
    grown = [False] * len(cues)  # True for one-row cues that the next cue repeats and extends.
    for at, (before, cue) in enumerate(pairwise(cues), 1):
        if cue.start - before.end > MAX_ROLLING_GAP_S or cue.voice != before.voice:
            continue
        most = min(len(before.rows), len(cue.rows), MAX_ROWS)
        again[at] = next((n for n in range(most, 0, -1) if before.rows[-n:] == cue.rows[:n]), 0)
        grown[at - 1] = len(before.rows) == 1 and cue.rows[0].startswith(f"{before.rows[0]} ")
    rolling = sum(map(bool, again)) + sum(grown)
    if rolling < max(MIN_ROLLING_CUES, ROLLING_SHARE * (len(cues) - 1)):
        return cues
    cues_left = []
    # Start time of the current group of rolling captions. Each cue of a group repeats and extends the previous row.
    start = None
    for cue, n, grows in zip(cues, again, grown, strict=True):
        begun = cue.start if start is None else start
        start = begun if grows else None
        repeated += cue.rows if grows else cue.rows[:n]
        if not grows and cue.rows[n:]:
            cues_left.append(Cue(begun, cue.end, cue.rows[n:], cue.voice))
    return cues_left


def _names(cues: list[Cue]) -> set[str]:
    """Return the speaker names among the words before a colon.

    Names are in capitals, in brackets, repeated, or in all rows of a cue.
    """
    counts: Counter[str] = Counter()
    sure: set[str] = set()
    for cue in cues:
        inside: list[str] = []
        for row in cue.rows:
            change = _CHANGE.match(row)
            if not (found := _SPEAKER.match(row, change.end() if change else 0)):
                continue
            name = _name_of(found)
            if not name[0].islower():
                counts[name.lower()] += 1
                inside.append(name.lower())
            if found["name"] is None or (len(name) > 1 and name.isupper()):
                sure.add(name.lower())
        if len(inside) == len(cue.rows) > 1:
            sure.update(inside)
    return sure | {name for name, count in counts.items() if count > 1}


def _name_of(found: re.Match[str]) -> str:
    return str(found["name"] or found["boxed"] or found["round"] or found["label"]).strip()


class _Turns:
    """Assignment of subtitle rows to speakers.

    A row without a speaker belongs to the previous speaker.
    """

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._speaker: str | None = None
        self._number = 0

    def of(self, cue: Cue) -> Iterator[tuple[str | None, list[str]]]:
        """Split a cue into speeches, and yield the speaker and the text rows of each speech."""
        if cue.voice is not None:
            yield cue.voice, cue.rows
            return
        changes = [_CHANGE.match(row) for row in cue.rows]
        dashes = sum(bool(change and change["dash"]) for change in changes)
        rows: list[str] = []
        for row, change in zip(cue.rows, changes, strict=True):
            speech = row[change.end() :] if change else row
            found = _SPEAKER.match(speech)
            name = _name_of(found) if found else ""
            if name.lower() not in self._names:
                found = None
            if (change or found) and rows:
                yield self._speaker, rows
                rows = []
            if found:
                self._speaker = name
                speech = speech[found.end() :]
            elif change and (change["arrows"] or dashes > 1):
                self._change()
            rows.append(speech)
        if rows:
            yield self._speaker, rows
        if dashes > 1 and self._speaker is not None and self._speaker == UNNAMED_SPEAKER.format(self._number):
            self._speaker, self._number = None, 0

    def _change(self) -> None:
        self._number = self._number % 2 + 1
        self._speaker = UNNAMED_SPEAKER.format(self._number)


def _sounds(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is_sound, text) pairs: spoken text, and sound descriptions without brackets."""
    done = 0
    for sound in _SOUND.finditer(text):
        yield False, text[done : sound.start()]
        yield True, sound[0].strip(f" \n[]［］【】()（）{_NOTES}")
        done = sound.end()
    yield False, text[done:]


def join_rows(text: str) -> str:
    """Join the rows of a text into one line, and remove the hyphens of divided words.

    Rows are joined with a space, except after Chinese or Japanese characters.
    """
    pieces: list[str] = []
    for row in filter(None, map(str.strip, text.split("\n"))):
        before = pieces[-1] if pieces else ""
        if before.endswith(_HYPHENS) and before[-2:-1].isalpha() and row[0].islower():
            pieces[-1] = before[:-1]
        elif before and not _WIDE.fullmatch(before[-1]):
            pieces.append(" ")
        pieces.append(row)
    return re.sub(r"\s+", " ", "".join(pieces))
