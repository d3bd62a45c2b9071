"""Route `studio/documents`: reads an EPUB, a DOCX, subtitles or a text, and keeps nothing of it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio.documents.desk import Documents
from studio.routes.answers import answering, body_of, is_yes, said

MOST_BYTES = 32 * 2**20  # of one document


def document_routes() -> list[Route]:
    """The route."""
    documents = Documents()

    async def read(request: Request) -> Response:
        """Read the file in the body. The query has `encoding`, `sounds` and `as_is`, which are for texts."""
        options = {
            "encoding": request.query_params.get("encoding") or None,
            "keep_sounds": is_yes(request, "sounds"),
            "as_is": is_yes(request, "as_is"),
        }
        return said(await documents.read(await body_of(request, MOST_BYTES), **options))

    return [Route("/studio/documents", answering(read), methods=["POST"])]
