"""Subtitle reader with a parser for SubRip and WebVTT (pysubs2 reads other formats).

pysubs2 is not used for SubRip and WebVTT for two reasons. It treats identifiers, comments and times without a fraction
as text. It also starts a new cue at each time inside a karaoke line.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from xml.etree.ElementTree import ParseError

import pysubs2
from pysubs2.exceptions import Pysubs2Error
from pysubs2.formats import get_format_class

from studio.documents.values import DAMAGED, SUBTITLE_TIMES, UnreadableError

# Frame rate of MicroDVD files that do not state a rate. FFmpeg has the same default.
FRAMES_PER_S = 23.976
OTHER_FORMATS = ("ass", "ssa", "ttml", "sami", "microdvd", "mpl2")
# Start of an ASS file. pysubs2 only detects ASS by its styles section, which may be missing.
_ASS = re.compile(
    r"\s*(?:\[Script Info\]|(?:\[Events\]\s*)?(?:Format:.*\n)?Dialogue:[^,\n]*,\s*\d+:\d\d:\d\d[.:]\d)", re.IGNORECASE
)

# Complete TMP file. pysubs2 detects TMP by one row with a time, and drops rows without a time.
_TMP = re.compile(r"(?:\s*\d{1,2}:\d\d:\d\d:[^\n]+(?:\n|\Z))+\s*")
_SUBVIEWER = re.compile(r"\s*\[INFORMATION\]")
# Start of MPSub, SubViewer 1 and LRC files, which are not supported.
_UNSUPPORTED = re.compile(
    r"\s*(?:(?:[A-Z]+=.*\n\s*)*FORMAT=(?:TIME|\d+)\s*\n|(?:\[[A-Z]+\]\n(?:[^\[\n].*\n|\n)?)*\[BEGIN\]\n"
    r"|(?:\[[a-z]+:[^\[\]\n]*\]\s*)*\[\d+:\d\d[.:]\d\d\d?\])"
)

_STAMP = r"((?:\d+:)?\d{1,3}:\d{1,2}(?:[.,:]\d{1,3})?)"
# Pattern of the separator between two times. YouTube's files have a comma. Whisper's output has the times in brackets
# before the text. Text editors and web pages replace the arrow `-->` by similar characters.
_ARROW = r"\s*(?:[-–—=]+(?:>|&gt;)|→)\s*|(?:(?<=[.,]\d\d\d)|(?<=[.,]\d\d))(?:,|\s*[-–—]\s*)(?=\d+:\d\d:)"
_TIMES = re.compile(rf"[\s\ufeff]*(\[)?{_STAMP}(?:{_ARROW}){_STAMP}(?![\d:])(?(1)\])(.*)")
_SETTINGS = re.compile(r"\b\w+:\S+")  # Position settings of a cue, which follow its times.
_INVALID_TIMES = re.compile(r"\s*-?\d+:\d.*(?:-->|→)")
_DRAWING = re.compile(r"\{(?=[^{}]*\\p[1-9])[^{}]*+\}.*?(?=\{[^{}]*\\p0|$)", re.DOTALL)
_NOT_SPOKEN = re.compile(r"(?:NOTE|STYLE|REGION)(?:[ \t].*)?")
_TAG = re.compile(
    r"</?(?:b|i|u|s|c|em|strong|font|span|ruby|rt|rp|p|div|a|center|small|big|tt)(?:\.[^<>]*|\s[^<>=]*=[^<>]*)?\s*/?>"
    r"|</?(?:lang|v)(?:[.\s][^<>]*)?>|<(?:\d+:)?\d+:\d+[.,]\d+>",
    re.IGNORECASE,
)
_OVERRIDE = re.compile(r"\{(?:\\|[a-zA-Z]:)[^{}]*\}")
_READING = re.compile(
    r"(?<=[^\s<>])\s*<rt\b[^<>]*>.*?(?:</rt>|(?=</ruby>)|$)|<rp\b[^<>]*>.*?</rp>", re.IGNORECASE | re.DOTALL
)
_DASH_BEFORE_VOICE = re.compile(r"^\s*[-–—]\s*(?=<v[.\s])", re.MULTILINE | re.IGNORECASE)
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>(.*?)(?:</v>|(?=<v[.\s])|$)", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True)
class Cue:
    """Subtitle cue with its text, times and speaker.

    If several people speak in a cue, each of them gets a separate object. `start` and `end` are in seconds. `voice` is
    the name of the speaker, or None if the file does not state it.
    """

    start: float
    end: float
    rows: list[str]
    voice: str | None = None


def read_cues(text: str) -> list[Cue] | None:
    """Return the cues in order of time, or None if the text is not in a subtitle format.

    Raises:
        UnreadableError: The text is in a subtitle format but invalid.
    """
    kind = next((name for name in OTHER_FORMATS if get_format_class(name).guess_format(text) is not None), None)
    if kind is None and _ASS.match(text):
        kind = "ass"
    if kind is None and _TMP.fullmatch(text):
        kind = "tmp"
    if kind is None and _UNSUPPORTED.match(text):
        raise UnreadableError(SUBTITLE_TIMES)
    if kind is not None:
        cues = _others(text, kind)
    else:
        cues = _timed(text)
        if not cues:
            return None
    return sorted((cue for cue in cues if any(cue.rows)), key=lambda cue: cue.start)


def _others(text: str, kind: str) -> list[Cue]:
    if kind == "sami":  # Paragraphs with the same time, for example in several languages, become separate rows.
        text = re.sub(r"<p\b", "<br><p", text, flags=re.IGNORECASE)
    states_rate = re.match(r"\s*\{1\}\{1\}[\d.]+\s*\n", text) is not None
    try:
        found = pysubs2.SSAFile.from_string(text, format_=kind, fps=None if states_rate else FRAMES_PER_S)
    except NotImplementedError:
        raise UnreadableError(SUBTITLE_TIMES) from None
    except (Pysubs2Error, ParseError, ValueError, KeyError, AssertionError):
        raise UnreadableError(DAMAGED) from None
    cues = []
    for event in found:
        if not event.is_comment:
            event.text = _DRAWING.sub("", event.text)
            cues.append(Cue(event.start / 1000, event.end / 1000, _rows(event.plaintext), event.name.strip() or None))
    return cues


def _timed(text: str) -> list[Cue]:
    """Parse the cues of a SubRip or WebVTT file.

    Empty rows neither end a cue nor have to separate cues. A cue with invalid times starts at the end of the previous
    cue. Text before the first cue is a cue as well, except the header of WebVTT and SubViewer 2.
    """
    is_vtt = text.lstrip().startswith("WEBVTT")
    has_head = is_vtt or _SUBVIEWER.match(text)
    blocks: list[tuple[float, float, list[str]]] = [] if has_head else [(0, 0, [])]
    is_comment, is_timed = False, False
    for row in text.split("\n"):
        if (times := _TIMES.match(row)) or _INVALID_TIMES.match(row):
            if blocks:
                _drop_identifier(blocks[-1][2])
            end = blocks[-1][1] if blocks else 0.0
            start, end = (_seconds(times[2]), _seconds(times[3])) if times else (end, end)
            rest = _SETTINGS.sub("", times[4]).strip() if times else ""
            blocks.append((start, end, [rest] if rest else []))
            is_timed |= times is not None
            is_comment = False
        elif not row.strip():
            is_comment = False
            if blocks:
                blocks[-1][2].append("")
        elif blocks:
            is_comment |= is_vtt and not _last(blocks[-1][2]) and _NOT_SPOKEN.fullmatch(row.strip()) is not None
            if not is_comment:
                blocks[-1][2].append(row)
    if not is_timed:
        return []
    return [cue for start, end, rows in blocks for cue in _spoken(start, end, "\n".join(rows))]


def _drop_identifier(rows: list[str]) -> None:
    """Remove the identifier that precedes the times of the next cue.

    An identifier is a number, or any row after an empty row.
    """
    if rows and rows[-1].strip() and (rows[-1].strip().isdecimal() or rows[-2:-1] == [""]):
        rows.pop()


def _last(rows: list[str]) -> str:
    return rows[-1].strip() if rows else ""


def _spoken(start: float, end: float, markup: str) -> list[Cue]:
    """Split a cue at its `<v>` spans into parts with one speaker."""
    markup = _DASH_BEFORE_VOICE.sub("", _READING.sub("", markup))
    cues = []
    done = 0
    for span in _VOICE.finditer(markup):
        cues.append(Cue(start, end, _rows(markup[done : span.start()])))
        cues.append(Cue(start, end, _rows(span[2]), html.unescape(span[1]).strip()))
        done = span.end()
    return [cue for cue in [*cues, Cue(start, end, _rows(markup[done:]))] if cue.rows]


def _rows(markup: str) -> list[str]:
    """Return the rows of a cue without markup and without empty rows."""
    plain = _OVERRIDE.sub("", _TAG.sub("", re.sub(r"<br\s*/?>|\[br\]|\\N", "\n", markup, flags=re.IGNORECASE)))
    rows = [re.sub(r"\s+", " ", re.sub("[\u200b\u200e\u200f\ufeff]", "", row)).strip() for row in _unescaped(plain)]
    return [row for row in rows if row]


def _unescaped(plain: str) -> list[str]:
    return html.unescape(plain).split("\n")


def _seconds(stamp: str) -> float:
    """Parse a time such as ``01:02:03,4``, ``02:03.450``, ``01:02:03`` or ``01:02:03:450``."""
    *fields, last = re.split(r"[:.,]", stamp) if re.search(r"[.,]|:\d+:\d+:", stamp) else [*stamp.split(":"), "0"]
    seconds = 0
    for number in fields:
        seconds = seconds * 60 + int(number)
    return seconds + int(last) / 10 ** len(last)
