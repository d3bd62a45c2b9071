"""Route `studio/documents`: reads an EPUB, a DOCX, an HTML file, subtitles or a text, and keeps nothing of it."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from studio.documents.desk import Documents
from studio.routes.answers import answering, is_yes, pieces_of, said_in_pieces

MAX_BYTES = 32 * 2**20


def document_routes(client_of: Callable[[HTTPConnection], str] = lambda _: "") -> list[Route]:
    """Return the route. ``client_of`` names the client of a request, for the order of the queue."""
    documents = Documents()

    async def read(request: Request) -> Response:
        """Read the file in the body. The query, for texts: `encoding`, `sounds`, `as_is`, `markdown`."""
        options = {
            "encoding": request.query_params.get("encoding") or None,
            "keep_sounds": is_yes(request, "sounds"),
            "as_is": is_yes(request, "as_is"),
            "markdown": is_yes(request, "markdown"),
        }

        async def receive() -> list[bytes]:
            return await pieces_of(request, MAX_BYTES)

        pieces = await documents.read(receive, client_of(request), **options)
        return said_in_pieces(pieces, sum(map(len, pieces)))

    return [Route("/studio/documents", answering(read), methods=["POST"])]
