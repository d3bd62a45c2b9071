"""Routes `studio/scripts`, which store the scripts of each visitor.

A script consists of lines of text, each with a voice.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from runtime.errors import InvalidConfig
from studio.routes.responses import (
    RouteTable,
    StoreRoutes,
    json_list,
    json_response,
    query_flag,
    read_pieces,
    stored_json,
)
from studio.store.records import is_script_id
from studio.store.scripts import MAX_BYTES


class ScriptRoutes(StoreRoutes):
    """HTTP routes of stored scripts (lines of text, each with a voice).

    Thread: event loop. Worker threads access the disk.
    """

    def table(self) -> RouteTable:
        script = "/studio/scripts/{id}"
        return [
            ("GET", "/studio/scripts", self.all),
            ("GET", script, self.find),
            ("PUT", script, self.put),
            ("DELETE", script, self.delete),
            ("POST", f"{script}/restore", self.restore),
        ]

    async def all(self, request: Request) -> Response:
        """Return the visitor's scripts that contain the text in the query parameter `search`.

        Each script has the number of its lines instead of the lines. With `deleted=1`, the scripts in the recycle bin
        are returned.
        """
        owner = self._visitors.identify(request).owner
        search, is_deleted = request.query_params.get("search", ""), query_flag(request, "deleted")
        return stored_json(await self._workers(self._all, owner, search, is_deleted))

    def _all(self, owner: str | None, search: str, is_deleted: bool) -> bytes:
        scripts = [] if owner is None else self._store.scripts.all(owner, search, is_deleted=is_deleted)
        return json_list("scripts", scripts)

    async def find(self, request: Request) -> Response:
        return stored_json(await self._workers(self._store.scripts.find, *self._named(request)))

    async def put(self, request: Request) -> Response:
        """Store a script (lines of text, each with a voice), and return it.

        The page chooses the id of the script, which is part of the URL.
        """
        owner_and_address, script_id = self._visitors.identify(request).owner_and_address, request.path_params["id"]
        if not is_script_id(script_id):
            raise InvalidConfig(where="id", why="it must have 1 to 64 letters, digits, - or _", param="id")
        # The request body may be twice as large as the stored script, because escaped characters are longer.
        pieces = await read_pieces(request, 2 * MAX_BYTES)
        return stored_json(await self._workers(self._put, *owner_and_address, script_id, pieces))

    def _put(self, owner: str, address: str | None, script_id: str, pieces: list[bytes]) -> bytes:
        return self._store.scripts.put(owner, script_id, b"".join(pieces), address=address)

    async def delete(self, request: Request) -> Response:
        owner, script_id = self._named(request)
        await self._workers(self._store.scripts.delete, owner, script_id)
        return json_response({"id": script_id, "deleted": True})

    async def restore(self, request: Request) -> Response:
        return stored_json(await self._workers(self._store.scripts.restore, *self._named(request)))
