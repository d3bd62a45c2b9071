"""Tests for the import of web pages.

Articles are imported without menus. Private addresses are refused.
"""

from __future__ import annotations

import sys

import httpx
import pytest

from studio.documents.reading import read
from studio.documents.values import NO_EXTRACTOR, ContentChoice, UnreadableError
from studio.routes.documents import document_routes
from tests.unit.shared.test_fetch import Trap, fetcher, trap
from tests.unit.studio.serving import served

__all__ = ["trap"]

BEND = "A bend begins where a bank is weak, and where the water is fast it takes the bank with it, until it is wide."
CYRILLIC = "Реки медленно движутся по своим долинам, и люди учатся двигаться вместе с ними."
CHINESE = "河流緩慢移動。"
PAGE = f"""<!doctype html><html><head><title>How rivers move - The Journal</title>
<meta name=author content="Ann Author"></head><body>
<nav><ul><li><a href=/>Home</a></li><li><a href=/a>About us</a></li></ul></nav>
<header><h1>The Journal</h1></header><main><article><h1>How rivers move</h1>
<p>Rivers move slowly across their valleys, and the people who live beside them learn to move too.</p>
<h2>The first bend</h2><p>{BEND}</p>
<table><tr><th>Year</th><th>Metres</th></tr><tr><td>1900</td><td>12</td></tr></table>
<pre><code>x = 1</code></pre><h2>The second bend</h2>
<p>The second bend follows the first, since the water that leaves one bank meets the other, and so all of it sways.</p>
</article></main><aside><p>Subscribe to our newsletter now for 5 dollars a month.</p></aside>
<footer><p>Copyright The Journal 2026. Cookies. Privacy.</p></footer></body></html>""".encode()


@pytest.fixture
def extractor() -> None:
    pytest.importorskip("trafilatura", reason="trafilatura is not installed (voicewright[web])")


@pytest.mark.usefixtures("extractor")
def test_ordered_lists_of_an_article_keep_their_numbers() -> None:
    steps = (
        "<ol start=4><li>Cross the <b>old</b> bridge.<ol type=a><li>Look left.</li></ol></li><li>Sit down.</li></ol>"
    )
    page = PAGE.replace(b"<h2>The second bend", f"{steps}<ul><li>Bring bread.</li></ul><h2>The second bend".encode())
    found = ["4. Cross the old bridge.", "a. Look left.", "5. Sit down.", "Bring bread."]
    texts = [text for chapter in read(page, web=True).chapters for text in chapter.paragraphs]
    assert [text for text in texts if text in found] == found
    document = read(page, web=True, spoken=ContentChoice(list_numbers=False))
    assert "Sit down." in [text for chapter in document.chapters for text in chapter.paragraphs]
    assert "list_numbers" in [note.code for note in document.notes]


@pytest.mark.usefixtures("extractor")
def test_the_article_of_a_page_becomes_chapters_without_menus_and_notices() -> None:
    document = read(PAGE, web=True)
    assert (document.title, document.author) == ("How rivers move", "Ann Author")
    assert [chapter.title for chapter in document.chapters if chapter.title][-2:] == [
        "The first bend",
        "The second bend",
    ]
    texts = [text for chapter in document.chapters for text in chapter.paragraphs]
    assert BEND in texts
    assert "1900, 12" in texts
    for around in ("Home", "About", "newsletter", "Cookies", "x = 1"):
        assert around not in " ".join(texts)
    document = read(PAGE, web=True, spoken=ContentChoice(tables=False, code=True))
    texts = [text for chapter in document.chapters for text in chapter.paragraphs]
    assert "1900, 12" not in texts
    assert "x = 1" in texts


@pytest.mark.usefixtures("extractor")
@pytest.mark.parametrize(("name", "sentence"), [("windows-1251", CYRILLIC), ("big5", CHINESE)])
def test_declared_encoding_of_a_web_page_is_used(name: str, sentence: str) -> None:
    page = f"<!doctype html><html><head><meta charset={name}><title>{sentence}</title></head><body><article>"
    page += f"<p>{BEND}</p><p>{sentence}</p><p>{BEND} {BEND}</p></article></body></html>"
    document = read(page.encode(name), web=True)
    assert document.title == sentence
    assert sentence in [text for chapter in document.chapters for text in chapter.paragraphs]


@pytest.mark.usefixtures("extractor")
def test_web_page_without_an_article_is_refused() -> None:
    with pytest.raises(UnreadableError, match="no text"):
        read(b"<html><body></body></html>", web=True)


def test_web_page_without_the_extractor_is_refused_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(UnreadableError, match="web pages are not read here") as refused:
        read(PAGE, web=True)
    assert str(refused.value) == NO_EXTRACTOR


@pytest.mark.usefixtures("extractor")
async def test_web_page_route_accepts_only_public_addresses(trap: Trap) -> None:
    trap.body = PAGE
    routes = document_routes(fetcher=fetcher(trap, public=True))
    async with served(routes) as host, httpx.AsyncClient(trust_env=False, timeout=120) as client:
        url = f"http://{host}/studio/documents"
        found = await client.post(url, params={"url": "https://voices.example/rivers", "tables": "0"})
        assert found.status_code == 200, found.text
        assert found.json()["title"] == "How rivers move"
        assert found.json()["found"]["tables"] == 2
        assert trap.asked == [("/rivers", "voices.example")]
        refused = await client.post(url, params={"url": "http://127.0.0.1/x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "address_refused")
    async with served(document_routes()) as host, httpx.AsyncClient(trust_env=False, timeout=120) as client:
        refused = await client.post(f"http://{host}/studio/documents", params={"url": "https://localhost.localdomain/"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "url")
