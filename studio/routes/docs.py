"""HTTP routes that show the Markdown files in docs/ as HTML pages, and search them."""

from __future__ import annotations

import html
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from runtime.errors import UnknownRoute
from runtime.shared.port.errors import error_response
from runtime.shipped import shipped
from studio.page.security_headers import nonce_of
from studio.routes.docs_search import Match, Section, find_sections
from studio.static_files import FreshFiles

DOCS = shipped("studio", "docs")
TEMPLATE = shipped("studio", "assets/html/docs.html")
GROUPS = {  # Names of the pages by reader, in the order of the contents.
    "Use": ("quickstart", "guide", "features"),
    "Build": ("api", "protocol", "mcp"),
    "Run": ("deploy", "settings", "checkpoints", "performance", "scaling", "reliability"),
    "Internals": ("architecture", "model", "npu", "decisions"),
}
FIRST = "quickstart"
_LINK = re.compile(r"(?P<name>[\w-]+)\.md(?P<anchor>#.*)?")
_NO_SLUG = re.compile(r"[^\w\- ]")


def docs_routes() -> list[BaseRoute]:
    """Return the HTTP routes of the documentation: pages, search and pictures.

    A page is rendered at its first request and then cached.
    """
    return [
        Route("/docs", _first, methods=["GET", "HEAD"]),
        Route("/docs/search", _search, methods=["GET", "HEAD"]),
        Route("/docs/{name}", _page, methods=["GET", "HEAD"]),
        Mount("/docs/images", FreshFiles(directory=DOCS / "images")),
    ]


async def _first(_: Request) -> Response:
    return RedirectResponse(f"docs/{FIRST}")


def _page(request: Request) -> Response:
    """Return a documentation page (the first rendering takes a tenth of a second)."""
    name = request.path_params["name"]
    if name not in _titles():
        return error_response(UnknownRoute(hint=""))
    return _response(request, _rendered(name))


def _search(request: Request) -> Response:
    """Return an HTML page with the sections that contain all words of the query parameter `q`."""
    query = request.query_params.get("q", "").strip()
    matches = find_sections((section for name in _titles() for section in _sections(name)), query)
    items = "".join(map(_result, matches)) or "<p>No section has all these words.</p>"
    body = f"<h1>Search</h1>{items if query else ''}"
    return _response(request, _filled("Search", _contents(), body, html.escape(query).replace("@", "&#64;")))


def _response(request: Request, page: str) -> Response:
    return HTMLResponse(page.replace("@nonce", nonce_of(request.scope)), headers={"cache-control": "no-cache"})


def _result(match: Match) -> str:
    section = match.section
    place = " › ".join(dict.fromkeys((_titles()[section.page], section.title)))
    return f'<h2><a href="{section.page}#{section.anchor}">{html.escape(place)}</a></h2><p>{match.excerpt}</p>'


@cache
def _titles() -> dict[str, str]:
    """Return the title of each documentation page by name, in the order of the contents."""
    return {name: _title(DOCS / f"{name}.md") for names in GROUPS.values() for name in names}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next(
            (line.removeprefix("# ").replace("`", "").strip() for line in file if line.startswith("# ")), path.stem
        )


@cache
def _rendered(name: str) -> str:
    tokens = _tokens(name)
    for token in tokens:
        for inner in token.children or ():
            if inner.type == "link_open":
                inner.attrSet("href", _address(str(inner.attrGet("href"))))
    reader = _reader()
    body = reader.renderer.render(tokens, reader.options, {})
    # An empty header cell becomes an ordinary cell, for screen readers.
    body = body.replace("<th></th>", "<td></td>")
    # Wide tables scroll inside their own element, which can be scrolled with the keyboard.
    body = body.replace("<table>", '<div class="vw-docs-table" tabindex="0"><table>')
    body = body.replace("</table>", "</table></div>")
    # The page's script shows the buttons.
    body = body.replace("<pre>", '<div class="vw-docs-code"><pre tabindex="0">')
    body = body.replace("</pre>", '</pre><button type="button" hidden>Copy</button></div>')
    return _filled(html.escape(_titles()[name]), _contents(name), body, "")


def _contents(open_page: str | None = None) -> str:
    """Return the list of all pages by reader as HTML, with the sections of the open page."""
    return "".join(
        f"<li><b>{group}</b><ul>{''.join(_entry(name, is_open=name == open_page) for name in names)}</ul></li>\n"
        for group, names in GROUPS.items()
    )


def _entry(name: str, *, is_open: bool) -> str:
    current, sections = "", ""
    if is_open:
        current = " aria-current=page"
        links = (
            f'<li><a href="#{section.anchor}">{html.escape(section.title)}</a></li>'
            for section in _sections(name)
            if section.level == 2
        )
        sections = f"<ul>{''.join(links)}</ul>"
    return f'<li><a href="{name}"{current}>{html.escape(_titles()[name])}</a>{sections}</li>'


def _filled(title: str, pages: str, body: str, query: str) -> str:
    """Return a page from the template.

    All arguments are HTML.
    """
    places = {"title": title, "pages": pages, "body": body, "query": query}
    return re.sub(r"@(\w+)", lambda found: places.get(found[1], found[0]), TEMPLATE.read_text("utf-8"))


def _reader() -> MarkdownIt:
    """Return a new parser, because the first use of a parser is not thread-safe."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _tokens(name: str) -> list[Token]:
    tokens = _reader().parse((DOCS / f"{name}.md").read_text("utf-8"))
    _name_headings(tokens)
    return tokens


def _name_headings(tokens: list[Token]) -> None:
    """Set the ids of headings to the anchors of Markdown links: lower-case words with hyphens."""
    for opening, words in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", _NO_SLUG.sub("", words.content.lower()).replace(" ", "-"))


@cache
def _sections(page: str) -> list[Section]:
    """Return the sections of a page with their text, in order."""
    sections: list[Section] = []
    for before, token in pairwise(_tokens(page)):
        if before.type == "heading_open":
            sections.append(Section(page, str(before.attrGet("id")), int(before.tag[1:]), token.content, []))
        elif token.type in ("inline", "fence") and sections:
            words = [inner.content or " " for inner in token.children or (token,) if not inner.type.startswith("link")]
            sections[-1].texts.append("".join(words))
    return sections


def _address(link: str) -> str:
    """Convert a link to a Markdown file into a link to the documentation page."""
    found = _LINK.fullmatch(link)
    return f"{found['name']}{found['anchor'] or ''}" if found and found["name"] in _titles() else link
