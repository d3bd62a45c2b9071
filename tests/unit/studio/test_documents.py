"""EPUB, DOCX and texts become chapters of paragraphs; what is made to break the reader is refused in one sentence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from studio.documents import values
from studio.documents.desk import Documents
from studio.documents.reading import read
from studio.errors import DocumentUnreadable
from studio.routes.documents import MOST_BYTES, document_routes
from tests.support.documents import BOOK, OPF, archive, epub, letter
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


def test_a_book_is_read_in_the_order_of_its_spine_and_cut_where_its_contents_say() -> None:
    assert read(epub()).title == "A Book"
    assert chapters(epub()) == [
        ("First", ["Chapter One", "It was a dark night.", "Wind & rain came. On."]),
        ("", ["Before."]),
        ("Last", ['The "end"', "重庆漢"]),
    ]


def test_a_book_without_contents_has_its_headings_as_titles_and_broken_markup_is_read_all_the_same() -> None:
    opf = OPF.replace('properties="nav" ', "").replace('<itemref idref="nav"/>', "")
    found = chapters(epub(book=opf, one="<html><body><h1>Torn<p>Words &nbsp; here<p>and there"))
    assert found == [("Torn", ["Torn", "Words here", "and there"]), ("", ["Before.", 'The "end"', "重庆漢"])]


def test_a_letter_is_cut_at_its_first_headings_and_tables_are_read_row_by_row() -> None:
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


def test_entities_are_neither_grown_nor_fetched() -> None:
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
    "too many files": (lambda: archive({**BOOK, **{f"f{number}": "" for number in range(5001)}}), values.TOO_LARGE),
    "pictures only": (
        lambda: epub(one="<html><body><img/></body></html>", **{"two a": "<html/>"}),
        values.NO_TEXT,
    ),
    "no package": (lambda: archive({PACKAGE: "<container/>"}), values.DAMAGED),
    "a letter without its parts": (
        lambda: archive({"[Content_Types].xml": "<Types/>", "word/document.xml": "x"}),
        values.DAMAGED,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_says_why(name: str) -> None:
    make, why = BROKEN[name]
    with pytest.raises(values.UnreadableError) as refused:
        read(make())
    assert str(refused.value) == why


def test_a_book_whose_fonts_alone_are_scrambled_is_read() -> None:
    assert len(chapters(epub(encryption=ENCRYPTED.format("http://www.idpf.org/2008/embedding")))) == 3


def test_every_reason_has_words_on_the_page() -> None:
    assert {why for why in values.REASONS if why not in SHAPES} == set()


def test_a_document_is_read_over_http_by_a_process_of_its_own() -> None:
    async def run() -> tuple[Any, Any, Any]:
        async with served(document_routes()) as host, httpx.AsyncClient(trust_env=False, timeout=60) as client:
            url = f"http://{host}/studio/documents"
            refused = await client.post(url, content=b"\0nothing")
            subtitles = await client.post(url, params={"encoding": "cp437", "sounds": "1"}, content=SUBTITLES)
            assert [subtitles.json()[key] for key in ("encoding", "cues")] == ["cp437", [CUE]]
            assert subtitles.json()["chapters"][0]["paragraphs"] == ["é"]
            large = await client.post(url, content=bytes(MOST_BYTES + 1))
            return (await client.post(url, content=epub())).json(), refused, large.status_code

    read_, refused, large = asyncio.run(run())
    assert read_ == asdict(read(epub()))
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "document_unreadable")
    assert values.NO_DOCUMENT in refused.json()["error"]["message"]
    assert large == 413


def test_a_reader_that_takes_too_long_is_ended() -> None:
    async def run() -> float:
        begun = time.monotonic()
        with pytest.raises(DocumentUnreadable, match="within the limits"):
            await Documents(wall_s=0.01).read(epub())
        return time.monotonic() - begun

    assert asyncio.run(run()) < 60
