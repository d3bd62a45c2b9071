"""Serves `studio/documents`: an EPUB or DOCX in, its chapters as paragraphs out. Nothing of it is kept."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio.documents.desk import Documents
from studio.routes.answers import answering, body_of, said

MOST_BYTES = 32 * 2**20  # of one document


def document_routes() -> list[Route]:
    """The route."""
    documents = Documents()

    async def read(request: Request) -> Response:
        """The body is the file."""
        return said(await documents.read(await body_of(request, MOST_BYTES)))

    return [Route("/studio/documents", answering(read), methods=["POST"])]
