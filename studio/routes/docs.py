"""HTTP routes that show the Markdown files in docs/ as HTML pages."""

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
from studio.static_files import FreshFiles

DOCS = shipped("studio", "docs")
TEMPLATE = shipped("studio", "assets/html/docs.html")
FIRST = "quickstart"
_LINK = re.compile(r"(?P<name>[\w-]+)\.md(?P<anchor>#.*)?")
_NO_SLUG = re.compile(r"[^\w\- ]")


def docs_routes() -> list[BaseRoute]:
    """Return the HTTP routes of the documentation: pages and pictures.

    A page is rendered at its first request and then cached.
    """
    return [
        Route("/docs", _first, methods=["GET", "HEAD"]),
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
    return HTMLResponse(
        _rendered(name).replace("@nonce", nonce_of(request.scope)), headers={"cache-control": "no-cache"}
    )


@cache
def _titles() -> dict[str, str]:
    """Return the title of each documentation page by name, starting with the quickstart."""
    paths = sorted(DOCS.glob("*.md"), key=lambda path: (path.stem != FIRST, path.stem))
    return {path.stem: _title(path) for path in paths}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next(
            (line.removeprefix("# ").replace("`", "").strip() for line in file if line.startswith("# ")), path.stem
        )


@cache
def _rendered(name: str) -> str:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse((DOCS / f"{name}.md").read_text("utf-8"))
    _name_headings(tokens)
    for token in tokens:
        for inner in token.children or ():
            if inner.type == "link_open":
                inner.attrSet("href", _address(str(inner.attrGet("href"))))
    sections = "".join(f'<li><a href="#{anchor}">{html.escape(text)}</a></li>' for anchor, text in _sections(tokens))
    links = "\n".join(
        f'<li><a href="{other}"{" aria-current=page" if other == name else ""}>{html.escape(title)}</a>'
        f"{f'<ul>{sections}</ul>' if other == name and sections else ''}</li>"
        for other, title in _titles().items()
    )
    body = reader.renderer.render(tokens, reader.options, {})
    # An empty header cell becomes an ordinary cell, for screen readers.
    body = body.replace("<th></th>", "<td></td>")
    # Wide tables scroll inside their own element, which can be scrolled with the keyboard.
    body = body.replace("<table>", '<div class="vw-docs-table" tabindex="0"><table>')
    body = body.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    places = {"title": html.escape(_titles()[name]), "pages": links, "body": body}
    return re.sub(r"@(\w+)", lambda found: places.get(found[1], found[0]), TEMPLATE.read_text("utf-8"))


def _name_headings(tokens: list[Token]) -> None:
    """Set the ids of headings to the anchors of Markdown links: lower-case words with hyphens."""
    for opening, words in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", _NO_SLUG.sub("", words.content.lower()).replace(" ", "-"))


def _sections(tokens: list[Token]) -> list[tuple[str, str]]:
    """Return the id and the text of each second-level heading."""
    headings = (
        (opening, text) for opening, text in pairwise(tokens) if (opening.type, opening.tag) == ("heading_open", "h2")
    )
    return [(str(opening.attrGet("id")), text.content) for opening, text in headings]


def _address(link: str) -> str:
    """Convert a link to a Markdown file into a link to the documentation page."""
    found = _LINK.fullmatch(link)
    return f"{found['name']}{found['anchor'] or ''}" if found and found["name"] in _titles() else link
