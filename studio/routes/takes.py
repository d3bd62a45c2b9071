"""Routes `studio/takes`: the visitor's history of takes (recordings of generated speech)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from runtime.errors import InvalidConfig, UnsupportedFormat
from runtime.shared.audio.encoding import BIT_RATE_RANGE
from runtime.shared.audio.encoding import FORMATS as ENCODED
from runtime.shared.file_names import file_name
from studio.routes.responses import (
    PRIVATE,
    RouteTable,
    StoreRoutes,
    WorkerPool,
    file_response,
    json_list,
    json_response,
    query_flag,
    query_int,
    read_body,
    read_form,
    stored_json,
)
from studio.store.audio_files import FORMATS, encoded, kind_of, outline, tags_of, title_of, version_of
from studio.store.records import TakeChanges, TakeCount, TakeFields, TakeIds, decode, read
from studio.store.store import Store
from studio.store.takes import MAX_PAGE_SIZE, TakeQuery
from studio.visitors.visitors import Visitors

# Cache header of a take. For a day, browsers use the cached take without a request to the studio.
TAKE_CACHE_CONTROL = "private, max-age=86400, immutable"


class TakeRoutes(StoreRoutes):
    """HTTP routes of the visitor's takes (stored recordings of generated speech).

    Thread: event loop. Worker threads access the disk and encode.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool, max_reference_bytes: int) -> None:
        super().__init__(store, visitors, workers)
        # The upload limit is one sample (two bytes) above the limit of the store, so that the store can report how much
        # is too much.
        self._largest = {"pcm": store.settings.max_take_bytes + 2, "reference": max_reference_bytes}

    def table(self) -> RouteTable:
        take = "/studio/takes/{id}"
        return [
            ("GET", "/studio/takes", self.page),
            ("POST", "/studio/takes", self.add),
            ("GET", "/studio/takes/space", self.space),
            ("POST", "/studio/takes/free", self.free),
            ("POST", "/studio/takes/delete", self.delete_several),
            ("POST", "/studio/takes/restore", self.restore_several),
            ("POST", "/studio/takes/bin/restore", self.restore_bin),
            ("DELETE", "/studio/takes/bin", self.empty_bin),
            ("GET", take, self.record),
            ("PATCH", take, self.change),
            ("DELETE", take, self.delete),
            ("POST", f"{take}/restore", self.restore),
            ("GET", f"{take}/audio", self.audio),
            ("GET", f"{take}/outline", self.outline),
            ("GET", f"{take}/reference", self.reference),
        ]

    async def page(self, request: Request) -> Response:
        """Return a page of the visitor's stored recordings, newest first.

        The query parameter `search` selects recordings that contain each of its words.
        """
        query = request.query_params
        wanted = TakeQuery(
            search=query.get("search", "")[:256],
            room=query.get("room", "")[:32],
            favourite=query_flag(request, "favourite"),
            before=query.get("cursor", "")[:80],
            limit=query_int(request, "limit", 30, 1, MAX_PAGE_SIZE),
            loose=query_flag(request, "loose"),
            script=query.get("script", "")[:64],
        )
        owner = self._visitors.identify(request).owner
        if owner is None:
            return json_response({"takes": [], "next": None})
        return stored_json(await self._workers(self._page, owner, wanted))

    def _page(self, owner: str, wanted: TakeQuery) -> bytes:
        records, following = self._store.takes.page(owner, wanted)
        return json_list("takes", records, next=following)

    async def add(self, request: Request) -> Response:
        """Store a take (a recording of generated speech), and return its metadata record.

        The request body is a form with ``take`` (the metadata as JSON) and ``pcm`` (s16le, 24 kHz, mono). It may also
        have ``reference``, the reference recording of a cloned voice.
        """
        owner, address = self._visitors.identify(request).owner_and_address
        form = await read_form(request, self._largest)
        take, pcm, reference = form.get("take"), form.get("pcm"), form.get("reference")
        if take is None:
            raise InvalidConfig(where="take", why="the form must contain it as JSON", param="take")
        if not isinstance(pcm, bytes):
            raise InvalidConfig(where="pcm", why="the form must contain it as a file", param="pcm")
        if isinstance(reference, str):
            raise InvalidConfig(where="reference", why="it must be a file", param="reference")

        def add() -> dict[str, Any]:
            fields = read(TakeFields, decode(take))
            return self._store.takes.store_take(owner, fields, pcm, reference or None, address=address)

        return json_response(await self._workers(add), 201)

    async def space(self, request: Request) -> Response:
        """Return the number of the visitor's recordings and their total size in bytes.

        The response also has the storage limits, and the number and size of the recordings that the route `free` can
        delete.
        """
        return json_response(
            await self._workers(self._store.takes.space, self._visitors.identify(request).required_owner)
        )

    async def free(self, request: Request) -> Response:
        """Move the visitor's oldest recordings into the recycle bin.

        The request body is {"takes": NUMBER}. Favourites, and recordings that scripts use, are not moved.
        """
        owner, body = self._visitors.identify(request).required_owner, read(TakeCount, decode(await read_body(request)))
        moved = await self._workers(self._store.takes.free, owner, body.takes)
        return json_response({"takes": moved, "restorable_s": self._store.settings.bin_s})

    async def delete_several(self, request: Request) -> Response:
        """Move several recordings into the recycle bin.

        The request body is {"takes": [ids]}.
        """
        return await self._move_several(request, into_bin=True)

    async def restore_several(self, request: Request) -> Response:
        """Restore several recordings from the recycle bin.

        The request body is {"takes": [ids]}.
        """
        return await self._move_several(request, into_bin=False)

    async def _move_several(self, request: Request, *, into_bin: bool) -> Response:
        owner, body = self._visitors.identify(request).required_owner, read(TakeIds, decode(await read_body(request)))
        moved = await self._workers(self._store.takes.move, owner, body.takes, into_bin=into_bin)
        return json_response({"takes": moved, "restorable_s": self._store.settings.bin_s})

    async def restore_bin(self, request: Request) -> Response:
        """Restore all recordings in the visitor's recycle bin."""
        owner = self._visitors.identify(request).required_owner
        return json_response({"takes": await self._workers(self._store.takes.restore_bin, owner)})

    async def empty_bin(self, request: Request) -> Response:
        """Delete all recordings in the visitor's recycle bin permanently."""
        owner = self._visitors.identify(request).required_owner
        return json_response({"takes": await self._workers(self._store.takes.empty_bin, owner)})

    async def record(self, request: Request) -> Response:
        return json_response(await self._workers(self._store.takes.find, *self._named(request)))

    async def change(self, request: Request) -> Response:
        changes = read(TakeChanges, decode(await read_body(request)))
        return json_response(await self._workers(self._store.takes.change, *self._named(request), changes))

    async def delete(self, request: Request) -> Response:
        await self._workers(self._store.takes.delete, *self._named(request))
        return json_response({"id": self._named(request)[1], "deleted": True})

    async def restore(self, request: Request) -> Response:
        return json_response(await self._workers(self._store.takes.restore, *self._named(request)))

    async def audio(self, request: Request) -> Response:
        """Return the audio of a stored recording in the format of the query parameter `format`.

        The formats pcm, wav and flac are lossless. The parameter `bit_rate` is in bit/s and only applies to mp3 and
        opus.
        """
        wanted = request.query_params.get("format", "wav")
        if wanted not in FORMATS:
            raise UnsupportedFormat(where="format", known=", ".join(FORMATS), param="format")
        rate = query_int(request, "bit_rate", 0, *BIT_RATE_RANGE) or None
        if rate is not None and ENCODED[wanted].bit_rate is None:
            raise InvalidConfig(where="bit_rate", why="only mp3 and opus have one", param="bit_rate")
        owner, take_id = self._named(request)
        record = await self._workers(self._store.takes.find, owner, take_id)
        etag = f'"{version_of(f"{wanted} {rate}", tags_of(record))}"'
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={**PRIVATE, "etag": etag})
        data = await self._workers(self._encoded_audio, owner, take_id, wanted, rate)
        name = file_name(title_of(record), wanted)
        return file_response(data, FORMATS[wanted], name, inline=query_flag(request, "inline"), etag=etag)

    def _encoded_audio(self, owner: str, take_id: str, wanted: str, bit_rate: int | None) -> bytes:
        record, pcm = self._store.takes.pcm(owner, take_id)
        return encoded(wanted, pcm, tags_of(record), bit_rate)

    async def outline(self, request: Request) -> Response:
        """Return the outline of a recording's waveform as a list of peak levels.

        The audio of a stored recording never changes, so browsers cache the response for a day.
        """
        parts = await self._workers(self._outline, *self._named(request))
        return JSONResponse(
            {"outline": parts}, headers={**PRIVATE, "cache-control": TAKE_CACHE_CONTROL, "vary": "cookie"}
        )

    def _outline(self, owner: str, take_id: str) -> list[int]:
        return outline(self._store.takes.pcm(owner, take_id)[1])

    async def reference(self, request: Request) -> Response:
        data = await self._workers(self._store.takes.reference, *self._named(request))
        media_type, suffix = kind_of(data)
        return file_response(data, media_type, f"reference.{suffix}")
