"""Routes `studio/exports`, which export takes (recordings of generated speech).

An export is one audio file, a zip archive with several files, or a subtitle file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from studio.routes.responses import RouteTable, StoreRoutes, WorkerPool, file_headers, read_body
from studio.store.exports import Export, ExportFields, export
from studio.store.records import decode, read
from studio.store.store import Store
from studio.visitors.visitors import Visitors

PIECE_BYTES = 2**18
MAX_BODY_BYTES = 3 * 2**20  # Maximum size of a request body, which lists all clips and may have a cover.


class ExportRoutes(StoreRoutes):
    """HTTP routes that export stored recordings as files.

    `export_workers` is a separate pool of threads, so that a long export does not delay other requests of the page.

    Thread: event loop. Worker threads create and read audio.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool, export_workers: WorkerPool) -> None:
        super().__init__(store, visitors, workers)
        self._export_workers = export_workers

    def table(self) -> RouteTable:
        return [("POST", "/studio/exports", self.make)]

    async def make(self, request: Request) -> Response:
        """Create the audio, zip or subtitle file that the request body describes, and return it."""
        owner = self._visitors.identify(request).required_owner
        exported = await self._export_workers(self._make, owner, await read_body(request, MAX_BODY_BYTES))
        headers = {**file_headers(exported.name), "content-length": str(exported.size)}
        if exported.notes:
            headers["x-notes"] = " ".join(exported.notes)
        return StreamingResponse(self._pieces(exported), media_type=exported.media_type, headers=headers)

    def _make(self, owner: str, body: bytes) -> Export:
        wanted = read(ExportFields, decode(body))
        return export(self._store.takes, owner, wanted, self._store.folder, self._store.settings.export_limit_s)

    async def _pieces(self, made: Export) -> AsyncIterator[bytes]:
        try:
            while piece := await self._workers(made.file.read, PIECE_BYTES):
                yield piece
        finally:
            made.file.close()
