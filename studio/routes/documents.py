"""Route `studio/documents`, which returns the text of a document without storing it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.shared.fetch import Fetcher
from studio.documents.service import DocumentService
from studio.documents.values import NO_EXTRACTOR, ContentChoice
from studio.errors import DocumentUnreadable
from studio.plugins import is_installed
from studio.routes.responses import handle_errors, query_flag, read_pieces, streamed_json

MAX_BYTES = 32 * 2**20
MAX_REDIRECTS = 5
WEB_PAGE_TIMEOUT_S = 15.0
KINDS = fields(ContentChoice)


def document_routes(
    client_of: Callable[[HTTPConnection], str] = lambda _: "", fetcher: Fetcher | None = None
) -> list[Route]:
    """Return the HTTP route that extracts the text of documents.

    Args:
        client_of: Function that returns the client's name for the fair queue.
        fetcher: Downloader of web pages. Tests pass another downloader.
    """
    documents = DocumentService()
    pages = fetcher or Fetcher(field="url", redirects=MAX_REDIRECTS, seconds=WEB_PAGE_TIMEOUT_S)

    async def read(request: Request) -> Response:
        """Read the document in the request body, or the web page at the query's `url`.

        Query flags (1 or 0) are `as_is`, `markdown`, `sounds` and fields of `ContentChoice`. `encoding` is for texts.
        """
        spoken = {kind.name: query_flag(request, kind.name) for kind in KINDS if kind.name in request.query_params}
        options: dict[str, Any] = {
            "spoken": spoken,
            "web": "url" in request.query_params,
            "encoding": request.query_params.get("encoding") or None,
            "keep_sounds": query_flag(request, "sounds"),
            "as_is": query_flag(request, "as_is"),
            "markdown": query_flag(request, "markdown"),
        }

        url = request.query_params.get("url")
        if url is not None and not is_installed("trafilatura"):
            raise DocumentUnreadable(why=NO_EXTRACTOR)

        async def receive() -> list[bytes]:
            if url is None:
                return await read_pieces(request, MAX_BYTES)
            return [await asyncio.to_thread(pages.fetch, url, max_bytes=MAX_BYTES)]

        pieces = await documents.read(receive, client_of(request), **options)
        return streamed_json(pieces, sum(map(len, pieces)))

    return [Route("/studio/documents", handle_errors(read), methods=["POST"])]
