"""Tests for subtitle import in all supported formats, compared with FFmpeg's cues."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from studio.documents.charset import decode
from studio.documents.subtitles import read_cues
from studio.documents.text import TextDocument, read_text
from studio.documents.values import UnreadableError

FOLDER = Path(__file__).parent / "subtitles"
FFMPEG = shutil.which("ffmpeg")

Spoken = list[tuple[str | None, str]]
LINES: dict[str, Spoken] = {
    "dashes.srt": [
        ("Speaker 1", "Where are you?"),
        ("Speaker 2", "Here."),
        (None, "She came in & sat down."),
        ("Speaker 1", "One."),
        ("Speaker 2", "Two."),
    ],
    "turns_inside_rows.srt": [
        ("Speaker 1", "Where are you?"),
        ("Speaker 2", "Here."),
        ("Speaker 1", "And I?"),
        ("MARY", "Hello."),
        ("JOHN", "Hi."),
        ("Speaker 1", "What?"),
        ("Speaker 2", "Nothing."),
        ("Speaker 2", "He - my friend. - left. Pages 10 - 20. 5 >> 3, they say."),
    ],
    "sounds.srt": [(None, "What?"), (None, "Yes (of course)."), (None, "Wait [pause 2s] here.")],
    "turns_of_a_cue.srt": [
        ("小明", "你好。"),
        ("小红", "再见。"),
        ("Speaker 1", "A?"),
        ("Speaker 2", "if a<b and c>d"),
        ("Mary", "One."),
        ("John", "Two."),
    ],
    "names.srt": [
        ("MARY", "Hello."),
        ("JOHN", "Hi."),
        ("SPEAKER_00", "It is 10:30."),
        ("Anna", "Good."),
        ("Speaker 1", "Bad."),
        ("Anna", "Note: it rains."),
    ],
    "no_empty_rows.srt": [(None, "One."), (None, "Two."), (None, "Three.")],
    "empty_rows_inside.srt": [(None, "I <3 you, 5 < 6. Really."), (None, "Two.")],
    "without_fractions.srt": [(None, "One."), (None, "Two.")],
    "voices.vtt": [("Mary Ann", "Hello there."), ("John", "Hi, R&D."), (None, "漢字です")],
    "rolling.vtt": [(None, "yeah what"), (None, "this is")],
    "growing.srt": [(None, "Hello my friend."), (None, "Hello my friend.")],
    "actors.ass": [("Mary", "Hello there, you"), (None, "Later.")],
    "without_styles.ass": [("Mary", "Hello there, you"), (None, "Later.")],
    "drawing.ass": [(None, "Left. Right.")],
    "stated_rate.sub": [(None, "Hello there"), (None, "Bye.")],
    "languages.smi": [(None, "Hello there Bonjour"), (None, "Bye.")],
    "plan.srt": [(None, "Our plan:"), (None, "Lunch"), (None, "Talk See you.")],
    "invalid_times.srt": [(None, "One."), (None, "Two."), (None, "Three."), (None, "Four.")],
    "times_alone.vtt": [(None, "One."), (None, "Two."), (None, "Three.")],
    "other_arrows.srt": [
        *((None, f"{number}.") for number in ("One", "Two", "Three", "Four", "Five")),
        (None, "Six. Open 10:30 - 11:00. 10:30 - 11:00 Lunch."),
    ],
    "youtube.sbv": [(None, "Hello there"), (None, "Bye.")],
    "whisper.txt": [(None, "Hello there"), (None, "Bye.")],
    "frames.sub": [(None, "Hello there"), (None, "Bye.")],
    "lines.mpl2": [(None, "Hello there"), (None, "Bye.")],
    "starts.tmp": [(None, "Hello there"), (None, "Bye, my friend.")],
    "subviewer.txt": [(None, "Hello there."), (None, "Second line of two.")],
    "page.smi": [(None, "Hello there & you"), (None, "Bye.")],
    "timed.ttml": [(None, "Hello there"), (None, "Bye.")],
}
NOTES = {
    "sounds.srt": [("sounds", 3, ["door slams", "laughs", "la la lo lo"])],
    "rolling.vtt": [("repeated", 3, ["yeah what", "this is"])],
    "growing.srt": [("repeated", 2, ["Hello", "Hello my"])],
}
# FFmpeg does not read TTML, SBV and the output of Whisper. It requires empty rows, valid times and fractions of
# seconds, and it treats ruby annotations and drawings as text.
FORMATS = {".sub": "microdvd", ".mpl2": "mpl2"}  # FFmpeg cannot detect the format of these short files.
UNKNOWN_TO_FFMPEG = {
    "timed.ttml",
    "without_fractions.srt",
    "voices.vtt",
    "drawing.ass",
    "languages.smi",
    "invalid_times.srt",
    "plan.srt",
    "turns_of_a_cue.srt",
    "times_alone.vtt",
    "other_arrows.srt",
    "youtube.sbv",
    "whisper.txt",
}


def spoken(document: TextDocument) -> Spoken:
    (chapter,) = document.chapters
    return [(cue.name, text) for cue, text in zip(document.cues, chapter.paragraphs, strict=True)]


@pytest.mark.parametrize("name", sorted(LINES))
def test_subtitles_become_lines_with_speakers(name: str) -> None:
    document = read_text((FOLDER / name).read_bytes())
    assert spoken(document) == LINES[name]
    assert [(note.code, note.count, note.examples) for note in document.notes] == NOTES.get(name, [])
    assert {path.name for path in FOLDER.iterdir()} == set(LINES)


def test_sound_descriptions_become_lines_without_speaker_if_requested() -> None:
    document = read_text((FOLDER / "sounds.srt").read_bytes(), keep_sounds=True)
    assert [text for _, text in spoken(document)][:4] == ["door slams", "What?", "laughs", "Yes (of course)."]
    assert document.notes == []


def test_imported_times_equal_the_times_in_the_subtitle_file() -> None:
    times = {name: read_text((FOLDER / name).read_bytes()).cues for name in LINES}
    assert [(cue.start, cue.end) for cue in times["without_fractions.srt"]] == [(1, 2), (2, 3)]
    assert [(cue.start, cue.end) for cue in times["growing.srt"]] == [(1, 3), (4, 5)]
    assert [(cue.start, cue.end) for cue in times["actors.ass"]] == [(1, 2), (3, 4)]
    assert [round(cue.start, 1) for cue in times["frames.sub"]] == [1, 3]
    assert [round(cue.start, 1) for cue in times["stated_rate.sub"]] == [1, 3]
    assert [(cue.start, cue.end) for cue in times["invalid_times.srt"]] == [(0, 0), (3, 4), (4, 4), (7, 8)]
    assert [(cue.start, cue.end) for cue in times["other_arrows.srt"]] == [(at, at + 1) for at in range(1, 12, 2)]
    assert [(cue.start, cue.end) for cue in times["youtube.sbv"]] == [(1, 2), (3, 4)]
    assert [(cue.start, cue.end) for cue in times["whisper.txt"]] == [(1, 2), (3, 4)]
    assert [(cue.start, cue.end) for cue in times["subviewer.txt"]] == [(1, 3.5), (4, 6)]


@pytest.mark.parametrize(
    "text",
    [
        "TITLE=x\nFORMAT=TIME\n\n1 3.5\nHello.\n",
        "[TITLE]\nx\n[AUTHOR]\n\n[BEGIN]\n[00:00:01]\nHello.\n[00:00:03]\n",
        "[ar:Artist]\n[ti:Title]\n\n[00:01.00]Hello.\n[00:04.00]Bye.\n",
        "[00:01.00] <00:01.00> Hello <00:01.50> there.\n",
    ],
    ids=["MPSub", "SubViewer 1", "LRC", "enhanced LRC"],
)
def test_unsupported_subtitle_formats_are_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="convert it to SRT or WebVTT"):
        read_text(text.encode())


@pytest.mark.parametrize("text", ["10:30:00:\nWe begin.", "[A]\n" * 20_000, "10:30:00:A\n" * 20_000 + "B"])
def test_text_that_resembles_subtitles_stays_text(text: str) -> None:
    assert read_cues(text) is None


@pytest.mark.skipif(FFMPEG is None, reason="FFmpeg is not installed")
@pytest.mark.parametrize("name", sorted(set(LINES) - UNKNOWN_TO_FFMPEG))
def test_subtitle_text_and_times_equal_the_output_of_ffmpeg(name: str) -> None:
    path = FOLDER / name
    kind = ["-f", FORMATS[path.suffix]] if path.suffix in FORMATS else []
    command = [str(FFMPEG), "-v", "error", *kind, "-i", str(path), "-f", "srt", "-"]
    theirs = subprocess.run(command, capture_output=True, check=True, text=True, encoding="utf-8").stdout
    cues = read_cues(re.sub("\r\n?", "\n", decode(path.read_bytes()).text)) or []
    blocks = [block.split("\n", 2) for block in re.split(r"\n\n(?=\d+\n\d\d:)", theirs.strip())]
    found = [(_seconds(block[1][:12]), _words(html.unescape(_MARKUP.sub("", block[2])))) for block in blocks]
    assert [(round(cue.start, 1), _words(" ".join(cue.rows))) for cue in cues] == [
        (round(start, 1), words) for start, words in found if words
    ]


_MARKUP = re.compile(r"</?[a-z][^<>]*>|\{[^{}]*\}")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _seconds(stamp: str) -> float:
    hours, minutes, seconds = stamp.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
