"""Tests for EPUB, DOCX and text import: chapters, paragraphs and malicious files."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import shutil
import subprocess
import time
import unicodedata
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import av
import chardet
import httpx
import numpy as np
import pytest
from starlette.responses import StreamingResponse

from runtime.errors import Overloaded, RateLimited
from runtime.shared.audio.book_container import MAX_COVER_BYTES, read_cover
from studio.documents import values
from studio.documents.reading import read
from studio.documents.service import DocumentService, FairQueue
from studio.documents.xhtml import body_of
from studio.errors import DocumentUnreadable
from studio.routes.documents import MAX_BYTES, document_routes
from studio.routes.responses import streamed_json
from studio.words import languages, words
from tests.support.documents import BOOK, OPF, XHTML, archive, epub, letter, paragraph, run, word
from tests.unit.studio.serving import served
from tests.unit.studio.test_server_words import SHAPES

PACKAGE = "META-INF/container.xml"
ENCRYPTED = '<encryption><EncryptedData><EncryptionMethod Algorithm="{}"/></EncryptedData></encryption>'
LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(12))
BOMB = f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}]><html><body><p>&l12;</p><p>Hello.</p></body></html>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY file SYSTEM "file:///etc/passwd">]><html><body><p>Mine: &file;.</p></body></html>'

SUBTITLES = b"1\n00:00:01,000 --> 00:00:02,000\n[\x82]\n"
CUE = {"start": 1.0, "end": 2.0, "name": None}


def chapters(data: bytes) -> list[tuple[str, list[str]]]:
    return [(chapter.title, chapter.paragraphs) for chapter in read(data).chapters]


def test_epub_is_read_in_spine_order_and_split_at_its_contents() -> None:
    assert read(epub()).title == "A Book"
    assert chapters(epub()) == [
        ("First", ["Chapter One", "It was a dark night.", "Wind & rain came. On."]),
        ("", ["Before."]),
        ("Last", ['The "end"', "重庆漢"]),
    ]


def picture(width: int, height: int, codec: str = "mjpeg") -> bytes:
    """Return a picture of random noise, which cannot be compressed well."""
    file = io.BytesIO()
    values = np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)
    with av.open(file, "w", format="image2pipe") as container:
        stream = container.add_stream(codec, rate=1)
        stream.width, stream.height, stream.pix_fmt = width, height, "rgb24" if codec == "png" else "yuvj420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(values).reformat(format=stream.pix_fmt)))
        container.mux(stream.encode(None))
    return file.getvalue()


def with_cover(image: bytes, item: str, meta: str = "") -> bytes:
    opf = OPF.replace(
        "</metadata>", f"<dc:creator>Ann  Author</dc:creator><dc:creator>Ben</dc:creator>{meta}</metadata>"
    )
    opf = opf.replace("</manifest>", f'<item id="c" href="img/cover.jpg" {item}/></manifest>')
    return archive(BOOK | {"OPS/book.opf": opf, "OPS/img/cover.jpg": image})


def test_epub_has_authors_and_its_cover() -> None:
    small = picture(60, 80)
    marked = read(with_cover(small, 'media-type="image/jpeg" properties="cover-image"'))
    named = read(with_cover(small, 'media-type="image/jpeg"', '<meta name="cover" content="c"/>'))
    assert marked.author == named.author == "Ann Author, Ben"
    assert marked.cover == named.cover == "data:image/jpeg;base64," + base64.b64encode(small).decode()
    assert (read(epub()).author, read(epub()).cover) == ("", "")


def test_large_cover_is_scaled_down_and_an_invalid_cover_is_omitted() -> None:
    marked = 'media-type="image/png" properties="cover-image"'
    large = picture(1500, 2000, "png")
    assert len(large) > MAX_COVER_BYTES
    cover = read_cover(read(with_cover(large, marked)).cover)
    assert cover is not None
    with av.open(io.BytesIO(cover), "r") as file:
        assert (file.streams.video[0].width, file.streams.video[0].height) == (900, 1200)
    for image in (b"", b"<svg/>", b"\xff\xd8\xff" + bytes(2**20), large[:5000] + bytes(2**20)):
        document = read(with_cover(image, marked))
        assert document.chapters
        assert document.cover == ""


def test_epub_without_contents_uses_headings_and_tolerates_broken_markup() -> None:
    opf = OPF.replace('properties="nav" ', "").replace('<itemref idref="nav"/>', "")
    found = chapters(epub(book=opf, one="<html><body><h1>Torn<p>Words &nbsp; here<p>and there"))
    assert found == [("Torn", ["Torn", "Words here", "and there"]), ("", ["Before.", 'The "end"', "重庆漢"])]


def test_docx_is_split_at_headings_and_tables_are_read_by_row() -> None:
    data = letter(
        *(
            ("Title", "My Letter"),
            ("Normal", "Dear  you,"),
            ("Heading 1", "News"),
            ("Normal", "It rains."),
            ("Normal", ""),
        ),
        table=[["Name", "Age"], ["Ann", "7"]],
    )
    assert read(data).title == "My Letter"
    assert chapters(data) == [("", ["My Letter", "Dear you,"]), ("News", ["News", "It rains.", "Name, Age", "Ann, 7"])]
    assert read(letter(("Normal", "x"), title="By the file")).title == "By the file"


PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>My  Page</title><style>p { padding-left: 1em }</style></head><body>
<nav id="TOC"><h2>Contents</h2><ul><li><a href="#a">One</a></ul></nav>
<h1 id="a">My Page</h1><p>Caf&eacute; é.<a href="#fn1" class="footnote-ref" role="doc-noteref"><sup>1</sup></a>
<h2 id="a">One</h2><p>Hello<br>you.<h3>Deep</h3><p>More.<h2>Two</h2><script>var x = "<p>";</script>
<ol><li>First<li>Next</ol>
<section class="footnotes" role="doc-endnotes"><ol><li id="fn1"><p>A note.</p></ol></section></body></html>"""


@pytest.mark.parametrize(
    "data",
    [
        PAGE.encode(),
        b"\xef\xbb\xbf \n" + PAGE.encode(),
        PAGE.encode("utf-16"),
        PAGE.encode("utf-32"),
        PAGE.encode("utf-32-be"),
        PAGE.replace("utf-8", "windows-1252").encode("cp1252"),
        PAGE.replace("<!DOCTYPE html>", '<?xml version="1.0"?><!-- a > b -->').encode(),
    ],
)
def test_html_is_split_at_headings(data: bytes) -> None:
    document = read(data)
    assert document.title == "My Page"
    assert [(one.title, one.paragraphs, one.is_notes) for one in document.chapters] == [
        ("My Page", ["My Page", "Café é."], False),
        ("One", ["One", "Hello you.", "Deep", "More."], False),
        ("Two", ["Two", "1. First", "2. Next"], False),
        ("", ["1. A note."], True),
    ]
    assert {note.code: (note.count, note.examples) for note in document.notes} == {
        "contents": (1, ["Contents One"]),
        "note_marks": (1, ["1"]),
    }


def test_code_in_html_is_left_out_and_poems_are_kept() -> None:
    found = read(
        b"<html><body><p>Hi.<pre><code>x = 1\ny = 2</code></pre><pre>A poem\n  here</pre><p>Use <code>x</code>."
    )
    assert [one.paragraphs for one in found.chapters] == [["Hi.", "A poem here", "Use x."]]
    assert [(note.code, note.count, note.examples) for note in found.notes] == [("code", 1, ["x = 1 y = 2"])]


MARKDOWN = """# Tea

The **kettle**[^1] is _on_,
see [the stove](https://example.com/a).

[^1]: Of copper.

## Cups & more

| Name | Age |
|------|-----|
| Ann  | 7   |

```
# no heading
```

Second
------

* one
* two
"""


def test_markdown_text_is_extracted_with_chapters_at_headings() -> None:
    found = read(MARKDOWN.encode(), markdown=True)
    assert [(chapter.title, chapter.paragraphs) for chapter in found.chapters] == [
        ("Tea", ["Tea.", "The kettle is on,\nsee the stove."]),
        ("Cups & more", ["Cups & more.", "Name, Age.\nAnn, 7."]),
        ("Second", ["Second.", "one.\ntwo."]),
    ]
    assert [(note.code, note.count) for note in found.notes] == [("code", 1), ("footnotes", 1)]
    assert "no heading" in found.notes[0].examples[0]
    assert "Of copper." in found.notes[1].examples[0]
    assert read(MARKDOWN.encode()).chapters[0].paragraphs[0] == "# Tea"
    assert [(one.title, one.paragraphs) for one in read(b"Not ~~un~~done.", markdown=True).chapters] == [
        ("", ["Not undone."])
    ]


@pytest.mark.parametrize(
    ("before", "title", "count"),
    [
        ('---\ntitle: "A day"\ndate: 2026-01-02\ntags:\n  - sea\n---\n', "A day", 3),
        ("+++\ntitle = 'A day'\n+++\n\n", "A day", 1),
        ("---\n# by hand\nlayout: post\n...\n", "", 1),
        ("---\ntitle: >\n  Rain\n  again\ntags: [a, b]\n---\n", "Rain again", 2),
        ("---\ntitle: |-\n  Rain\n  again\n---\n", "Rain again", 1),
        ("---\ntitle: 'It''s # wet'  # by hand\n---\n", "It's # wet", 1),
        ("---\ntitle: Rain\n  in rows\n---\n", "Rain in rows", 1),
        ("---\nother:\n  title: Wrong\ntitle: 2001-01-01\n---\n", "2001-01-01", 2),
        ("---\ntitle:Rain\n---\n", "", 1),
        ("---\ntitle: &t [*t]\n---\n", "", 1),
        (f"---\ntitle: {'[' * 3000}\n---\n", "", 1),
        ('+++\ntitle = """\nRain \\u263c\nagain"""\n+++\n', "Rain \u263c again", 1),
        ("+++\ntitle = 'a' 'b'\n+++\n", "", 1),
        ("---\n\nNo: settings.\n\n---\n\n", "", 0),
    ],
)
def test_markdown_front_matter_is_left_out(before: str, title: str, count: int) -> None:
    found = read(f"{before}It rains.\n".encode(), markdown=True)
    assert found.title == title
    assert {note.code: note.count for note in found.notes} == ({"front_matter": count} if count else {})
    assert found.chapters[0].paragraphs == (["It rains."] if count else ["No: settings.", "It rains."])


@pytest.mark.parametrize(
    ("data", "markdown", "title"),
    [
        (b"---\ntitle: Given\n---\n# Written\n\nText.", True, "Given"),
        (b"Text.\n\n## The *first*\n\nMore.\n\n## Second\n", True, "The first"),
        (b"<html><body><p>Text.<h2>A  heading</h2><p>More.", False, "A heading"),
        (b"<html><title>Given</title><body><h2>A heading</h2>", False, "Given"),
        (letter(("Normal", "Text."), ("Heading 1", "News")), False, "News"),
        (b"Text.", True, ""),
        (b"# No heading in plain text", False, ""),
    ],
)
def test_document_without_a_title_gets_the_first_heading_as_title(data: bytes, markdown: bool, title: str) -> None:
    assert read(data, markdown=markdown).title == title


RAISED = "Ab said⁴ so.² It was⁵ 3 km², 10⁴ m³ or x⁴, and words²."
PLAIN = "Ab said so. It was 3 km², 10⁴ m³ or x⁴, and words."


def test_superscript_numbers_after_words_are_footnote_marks() -> None:
    page = re.sub("[⁴⁵²³]", lambda found: f"<sup>{unicodedata.normalize('NFKC', found[0])}</sup>", RAISED)
    runs = [run(one, '<w:rStyle w:val="Raised"/>' if one.isdecimal() else "") for one in re.split("<sup>|</sup>", page)]
    for data, markdown in (
        (RAISED.encode(), False),
        (RAISED.encode(), True),
        (f"<html><body><p>{page}".encode(), False),
        (epub(one=f"{XHTML}<body><p>{page}</p></body></html>"), False),
        (word(paragraph(*runs)), False),
    ):
        found = read(data, markdown=markdown)
        assert found.chapters[0].paragraphs[0] == PLAIN
        [note] = [one for one in found.notes if one.code == "note_marks"]
        assert (note.count, note.examples) == (4, ["said⁴", "so.²", "was⁵"])
    powers = "3 miles², sin²(x) and cubes³."
    assert read(powers.encode()).chapters[0].paragraphs == [powers], "nothing says that there are notes"
    assert read(RAISED.encode(), as_is=True).chapters[0].paragraphs == [RAISED]


def test_styles_in_brackets_are_reported_in_a_note_in_every_format() -> None:
    text = "I [laughs] did. [door slams] [softly] No [sic]. [pause 1s]"
    for data, markdown in (
        (text.encode(), False),
        (text.encode(), True),
        (f"<html><body><p>{text}".encode(), False),
        (word(paragraph(run(text))), False),
    ):
        found = read(data, markdown=markdown)
        assert found.chapters[0].paragraphs == [text]
        assert [(one.code, one.count, one.examples) for one in found.notes] == [("styles", 2, ["[laughs]", "[softly]"])]


@pytest.mark.parametrize("text", ["", "\n\n", "---\n"])
def test_markdown_without_text_is_empty(text: str) -> None:
    with pytest.raises(values.UnreadableError, match=values.EMPTY):
        read(text.encode(), markdown=True)


def test_xml_entities_are_neither_expanded_nor_fetched() -> None:
    grown = str(chapters(epub(one=BOMB)))
    assert "Hello." in grown
    assert "lol" not in grown
    assert chapters(epub(one=OUTSIDE))[0][1] == ["Mine: ."]


def locked() -> bytes:
    data = bytearray(epub())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def bomb() -> bytes:
    return archive({**BOOK, **{f"OPS/{number}.bin": b"\0" * (64 * 2**20) for number in range(5)}})


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "no archive": (lambda: b"\0\1\2", values.NO_DOCUMENT),
    "an archive of something else": (lambda: archive({"a.txt": "x"}), values.NO_DOCUMENT),
    "cut off": (lambda: epub()[: len(epub()) // 2], values.DAMAGED),
    "a file locked by a password": (locked, values.LOCKED),
    "an old or locked .doc": (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), values.OLD_OR_LOCKED),
    "rights of a shop": (lambda: epub(rights="<rights/>"), values.PROTECTED),
    "encrypted text": (
        lambda: epub(encryption=ENCRYPTED.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")),
        values.PROTECTED,
    ),
    "a bomb of a few kilobytes": (bomb, values.TOO_LARGE),
    "one endless file": (lambda: epub(one=b"<p>" + b" " * (17 * 2**20)), values.TOO_LARGE),
    "millions of empty elements": (lambda: epub(one="<p>" + "<b/>" * 2_000_001 + "</p>"), values.TOO_LARGE),
    "too many files": (lambda: archive({**BOOK, **{f"f{number}": "" for number in range(5001)}}), values.TOO_LARGE),
    "an HTML file of millions of empty elements": (
        lambda: b"<html>" + b"<b/>" * values.MAX_TAGS,
        values.TOO_LARGE,
    ),
    "an HTML file of nested tables": (lambda: b"<html>" + b"<table><tr><td>a" * 3000, values.TOO_LARGE),
    "an HTML file without text": (lambda: b"<html><body><img></body></html>", values.NO_TEXT),
    "pictures only": (
        lambda: epub(one="<html><body><img/></body></html>", **{"two a": "<html/>"}),
        values.NO_TEXT,
    ),
    "no package": (lambda: archive({PACKAGE: "<container/>"}), values.DAMAGED),
    "a letter that is nested without end": (lambda: word("<w:sdt>" * 5000), values.DAMAGED),
    "a workbook": (lambda: archive({"word/document.xml": "<workbook/>"}), values.NO_DOCUMENT),
    "a letter without its parts": (
        lambda: archive({"[Content_Types].xml": "<Types/>", "word/document.xml": "x"}),
        values.DAMAGED,
    ),
}


@pytest.mark.slow("a bomb of a few kilobytes")
@pytest.mark.parametrize("name", BROKEN)
def test_unreadable_document_error_contains_the_reason(name: str) -> None:
    make, why = BROKEN[name]
    with pytest.raises(values.UnreadableError) as refused:
        read(make())
    assert str(refused.value) == why


def test_epub_with_only_fonts_encrypted_is_read() -> None:
    assert len(chapters(epub(encryption=ENCRYPTED.format("http://www.idpf.org/2008/embedding")))) == 3


def test_page_has_a_text_for_every_document_error() -> None:
    assert {why for why in values.REASONS if why not in SHAPES} == set()


async def test_document_upload_is_read_by_a_child_process() -> None:
    async with served(document_routes()) as host, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        url = f"http://{host}/studio/documents"
        refused = await client.post(url, content=b"\0nothing")
        subtitles = await client.post(url, params={"encoding": "cp437", "sounds": "1"}, content=SUBTITLES)
        assert [subtitles.json()[key] for key in ("encoding", "cues")] == ["cp437", [CUE]]
        assert subtitles.json()["chapters"][0]["paragraphs"] == ["é"]
        large = await client.post(url, content=bytes(MAX_BYTES + 1))
        read_, refused, large = (await client.post(url, content=epub())).json(), refused, large.status_code
    assert read_ == asdict(read(epub()))
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "document_unreadable")
    assert values.NO_DOCUMENT in refused.json()["error"]["message"]
    assert large == 413


async def test_document_reader_has_a_timeout() -> None:
    begun = time.monotonic()
    with pytest.raises(DocumentUnreadable, match="within the limits"):
        await DocumentService(timeout_s=0.01).read(sends(epub()))
    assert (time.monotonic() - begun) < 60


async def test_error_of_a_document_reader_is_logged_without_the_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with pytest.raises(DocumentUnreadable, match=values.DAMAGED):
        await DocumentService().read(sends(b"secret"), no_such_option=True)
    assert "reading.py" in caplog.text
    assert "TypeError" in caplog.text
    assert "secret" not in caplog.text


def sends(data: bytes) -> Callable[[], Awaitable[list[bytes]]]:
    async def receive() -> list[bytes]:
        return [data]

    return receive


def test_page_repeated_in_the_spine_is_read_once() -> None:
    spine = '<itemref idref="one"/>' * 5000
    document = read(epub(book=OPF.replace('<itemref idref="one"/>', spine)))
    assert [chapter.title for chapter in document.chapters] == ["First", "", "Last"]
    assert {note.code: note.count for note in document.notes}["repeated_pages"] == 4999


def long_book(pages: Iterable[str | bytes]) -> bytes:
    bodies = {f"OPS/{n}.xhtml": page for n, page in enumerate(pages)}
    items = "".join(
        f'<item id="i{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(bodies))
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(len(bodies)))
    opf = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    return archive({**BOOK, **bodies, "OPS/book.opf": opf})


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Record parsed pages, and return the list to which they are appended."""
    pages: list[bytes] = []
    monkeypatch.setattr(
        "studio.documents.epub.body_of", lambda page, encoding: pages.append(page) or body_of(page, encoding)
    )
    return pages


@pytest.mark.parametrize("count", [3, 5])
def test_total_markup_of_a_book_is_limited(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("studio.documents.archive.MAX_TOTAL_MARKUP_BYTES", 40_000)
    data = long_book([f"<html><body><p>{'word ' * 2000}</p></body></html>"] * count)
    if count == 3:
        assert len(chapters(data)) == 3
    else:
        with pytest.raises(values.UnreadableError, match=values.TOO_LARGE):
            read(data)


@pytest.mark.parametrize("page", ["<p>a</p>" * 250, "word " * 3000], ids=["tags", "bytes"])
def test_too_long_spine_is_refused_before_a_page_is_parsed(parsed: list[bytes], page: str) -> None:
    with pytest.raises(values.UnreadableError, match=values.TOO_LARGE):
        read(long_book([f"<html><body>{page}</body></html>"] * 4900))
    assert parsed == []


def test_reading_stops_at_the_text_limit_of_a_book(monkeypatch: pytest.MonkeyPatch, parsed: list[bytes]) -> None:
    monkeypatch.setattr("studio.documents.epub.MAX_TEXT_CHARS", 40_000)
    with pytest.raises(values.UnreadableError, match=values.TOO_LARGE):
        read(long_book([f"<html><body><p>{'word ' * 2000}</p></body></html>"] * 50))
    assert len(parsed) == 5


def test_encoding_of_a_book_is_detected_once_from_all_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    detected: list[int] = []
    detect = chardet.detect_all
    monkeypatch.setattr(
        chardet, "detect_all", lambda data, **options: detected.append(len(data)) or detect(data, **options)
    )
    long = "Był sobie król, który miał żonę i trzech synów. Każdy z nich chciał zostać rycerzem."
    texts = ["Idę do domu.", *[f"{long} {number}" for number in range(50)], "Only words.", "Obiad już gotowy."]
    pages = [f"<html><body><p>{text}</p></body></html>".encode("cp1250") for text in texts]
    assert [chapter[1] for chapter in chapters(long_book(pages))] == [[text] for text in texts]
    assert len(detected) == 1


def test_page_has_a_text_for_every_document_note() -> None:
    for language in languages():
        own = words(language)
        assert {code for code in values.LEFT_OUT if "{n" not in own.get(f"importing.note.{code}", "")} == set()


async def test_document_queue_alternates_between_clients() -> None:
    turns, served_, busy = FairQueue(slots=1, waiting=9, per_client=5, retry_after_s=1), [], asyncio.Event()

    async def work(client: str) -> None:
        async with turns.reserve_place(client), turns.slot(client):
            served_.append(client)
            await busy.wait()

    tasks = [asyncio.create_task(work(client)) for client in ("a", "a", "a", "b", "c", "b")]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.sleep(0)
    busy.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(1), turns.reserve_place("d"), turns.slot("d"):
        result = served_
    assert result == ["a", "a", "b", "c", "b"]


async def test_document_queue_is_limited_per_client_and_in_total() -> None:
    turns = FairQueue(slots=1, waiting=2, per_client=2, retry_after_s=5)
    async with turns.reserve_place("a"), turns.reserve_place("a"):
        with pytest.raises(RateLimited):
            await turns.reserve_place("a").__aenter__()
        async with turns.reserve_place("b"):
            with pytest.raises(Overloaded) as refused:
                await turns.reserve_place("c").__aenter__()
            assert refused.value.facts["retry_after_s"] == 5
    async with turns.reserve_place("c"):
        pass


async def test_document_queue_is_keyed_by_the_requesting_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.documents.service.MAX_PER_CLIENT", 1)

    routes = document_routes(lambda connection: connection.headers.get("x-client", ""))
    async with served(routes) as host, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        senders = ("a", "a", "b")
        answers = await asyncio.gather(
            *(
                client.post(f"http://{host}/studio/documents", content=epub(), headers={"x-client": one})
                for one in senders
            )
        )
        statuses, waits = [one.status_code for one in answers], [one.headers.get("retry-after", "") for one in answers]
    assert sorted(statuses[:2]) == [200, 429]
    assert statuses[2] == 200
    assert waits[statuses.index(429)] == "5"


CHOICES = """# One

Words.[^1] More words.

1. first item
2. second item

| left | right |
|------|-------|
| three| four  |

: A caption.

```
code = 5
```

The end.

[^1]: A note.
"""
FORMATS = ["epub", "docx", "html", "markdown"]


def chosen(data: bytes, kind: str, **spoken: bool) -> str:
    """Read a document with these content options, and return its text."""
    options = {"markdown": True} if kind == "markdown" else {}
    document = read(data, spoken=values.ContentChoice(**spoken), **options)
    texts = [text for chapter in document.chapters if not chapter.is_notes for text in chapter.paragraphs]
    return " | ".join(texts).replace("\n", " | ")


@pytest.mark.parametrize("kind", FORMATS)
def test_content_options_apply_to_every_format(kind: str, tmp_path: Path) -> None:
    data = CHOICES.encode()
    if kind != "markdown":
        if shutil.which("pandoc") is None:
            pytest.skip("no pandoc")
        path = tmp_path / f"choices.{kind}"
        subprocess.run(["pandoc", "-s", "-f", "markdown", "-o", path, "-M", "title=T"], input=data, check=True)
        data = path.read_bytes()
    usual = chosen(data, kind)
    for part in ("1. first", "2. second", "left, right", "three, four", "The end."):
        assert part in usual
    assert "code" not in usual
    assert re.search(r"Words\.\s+More", usual)
    assert "code = 5" in chosen(data, kind, code=True)
    assert "three" not in chosen(data, kind, tables=False)
    assert "first" in chosen(data, kind, list_numbers=False)
    assert "1. first" not in chosen(data, kind, list_numbers=False)
    if kind != "markdown":  # The Markdown filter supports neither captions nor note marks.
        assert "caption" in usual
        assert "caption" not in chosen(data, kind, captions=False)
        assert re.search(r"Words\.\s*[1¹]", chosen(data, kind, note_marks=True))
        assert read(data).found == {"list_numbers": 2, "tables": 2, "captions": 1, "code": 1, "note_marks": 1}


def test_content_options_remove_page_numbers_captions_and_list_numbers() -> None:
    rows = [
        "He went to",
        "",
        "12",
        "",
        "the shore.",
        "",
        "Figure 3. The shore.",
        "",
        "1. first",
        "",
        "2) second",
        "",
        "7. alone",
    ]
    data = "\n".join(rows).encode()
    assert chosen(data, "text") == "He went to the shore. | Figure 3. The shore. | 1. first | 2) second | 7. alone"
    assert (
        chosen(data, "text", captions=False, list_numbers=False) == "He went to the shore. | first | second | 7. alone"
    )
    assert " | 12 | " in chosen(data, "text", page_numbers=True)


async def test_document_route_accepts_content_options() -> None:
    async with served(document_routes()) as host, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        page = b"<html><body><table><tr><td>a</td><td>b</td></tr></table><p>Words.</p></body></html>"
        answer = (await client.post(f"http://{host}/studio/documents?tables=0", content=page)).json()
        assert answer["chapters"][0]["paragraphs"] == ["Words."]
        assert answer["found"] == {"tables": 1}
        assert [note["code"] for note in answer["notes"]] == ["tables"]


async def test_other_tasks_run_between_the_pieces_of_a_long_response() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    response = streamed_json([b" "] * 100, 100)
    assert isinstance(response, StreamingResponse)
    assert len([piece async for piece in response.body_iterator]) == 100
    counting.cancel()
    assert turns >= 100
