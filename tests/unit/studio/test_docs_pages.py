"""Tests for the documentation pages: links have targets, and other files are not served."""

from __future__ import annotations

import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.routes.docs import DOCS, docs_routes

MAX_DOCS_BYTES = 190_000  # Maximum size of all pages together.


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=docs_routes()), base_url="http://studio/")


def test_first_docs_page_is_the_quickstart(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.url.path == "/docs/quickstart"
    assert '<h1 id="quickstart">Quickstart</h1>' in page.text
    assert '<a href="quickstart" aria-current=page>' in page.text


def test_sections_of_the_open_page_are_listed_below_its_name(client: TestClient) -> None:
    navigation = client.get("/docs/deploy").text.partition("<main>")[0]
    assert '<li><a href="#behind-a-proxy">Behind a proxy</a></li>' in navigation
    assert "#openai" not in navigation


def test_contents_list_every_page_once_in_the_group_of_its_reader(client: TestClient) -> None:
    navigation = client.get("/docs/quickstart").text.partition("</nav>")[0]
    assert re.findall(r"<b>(\w+)</b>", navigation) == ["Use", "Build", "Run", "Internals"]
    names = re.findall(r'<a href="([\w-]+)"', navigation)
    assert sorted(names) == sorted(path.stem for path in DOCS.glob("*.md"))


def test_search_finds_the_sections_that_contain_all_words(client: TestClient) -> None:
    found = client.get("/docs/search", params={"q": "behind PROXY"}).text.partition("<main>")[2]
    first = found.partition("<h2>")[2].partition("</h2>")[0]
    assert first.startswith('<a href="deploy#behind-a-proxy">')
    assert "<mark>proxy</mark>" in found
    for nothing in ("", "zyzzyva"):
        assert "<h2>" not in client.get("/docs/search", params={"q": nothing}).text


def test_query_of_a_search_is_only_text(client: TestClient) -> None:
    query = '"><script>@nonce</script>'
    page = client.get("/docs/search", params={"q": query}).text
    assert query not in page
    assert 'value="&quot;&gt;&lt;script&gt;&#64;nonce&lt;/script&gt;"' in page


def test_pages_together_do_not_exceed_their_size_limit() -> None:
    assert sum(path.stat().st_size for path in DOCS.glob("*.md")) <= MAX_DOCS_BYTES


def test_every_table_column_has_a_heading(client: TestClient) -> None:
    page = client.get("/docs/architecture").text
    assert "<table>" in page
    assert "<th></th>" not in page


def test_every_link_between_pages_leads_to_an_existing_heading(client: TestClient) -> None:
    pages = {path.stem: client.get(f"/docs/{path.stem}") for path in DOCS.glob("*.md")}
    assert {page.status_code for page in pages.values()} == {200}
    ids = {name: set(re.findall(r'<h\d id="([^"]+)"', page.text)) for name, page in pages.items()}
    found = 0
    for name, page in pages.items():
        for target, anchor in re.findall(r'<a href="([\w-]*)#([^"]+)"', page.text):
            assert anchor in ids[target or name], f"{name}: {target}#{anchor}"
            found += 1
        for source in re.findall(r'<img src="([^"]+)"', page.text):
            assert client.get(f"/docs/{source}").status_code == 200
    assert found > 40


@pytest.mark.parametrize("path", ["nowhere", "..%2fREADME", "images/..%2fapi.md", "api.md"])
def test_files_outside_the_documentation_are_not_served(client: TestClient, path: str) -> None:
    assert client.get(f"/docs/{path}").status_code == 404
