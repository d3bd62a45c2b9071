"""OpenAPI document of the runtime, with the routes of the studio's port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route

from runtime.shared.port.openapi_page import page
from studio.relay.relay import Relay
from studio.routes.responses import handle_errors
from studio.routes.voices import passed_on

FRESH = {"cache-control": "no-cache"}
_PLACE = re.compile(r"\{\w+\}")


def openapi_routes(relay: Relay, routes: Sequence[BaseRoute]) -> list[Route]:
    """Return the routes. `routes` are the studio's routes to add to the runtime's document."""

    async def described(request: Request) -> tuple[httpx.Response, dict[str, Any]]:
        answer = await relay.ask(request, "GET", "/openapi.json")
        document: dict[str, Any] = answer.json() if answer.status_code == httpx.codes.OK else {"paths": {}}
        operations = document["paths"].items()
        paths = {
            path: {method: one for method, one in those.items() if served(path, method)} for path, those in operations
        }
        return answer, document | {"paths": {path: those for path, those in paths.items() if those}}

    def served(path: str, method: str) -> bool:
        scope = {
            "type": "http",
            "path": _PLACE.sub("x", path),
            "method": method.upper(),
            "root_path": "",
            "headers": [],
        }
        return any(route.matches(scope)[0] is Match.FULL for route in (*routes, *own))

    async def as_json(request: Request) -> Response:
        answer, document = await described(request)
        return JSONResponse(document, headers=FRESH) if document["paths"] else passed_on(answer)

    async def as_page(request: Request) -> Response:
        answer, document = await described(request)
        return HTMLResponse(page(document), headers=FRESH) if document["paths"] else passed_on(answer)

    methods = ["GET", "HEAD"]
    own = [
        Route("/openapi.json", handle_errors(as_json), methods=methods),
        Route("/openapi", handle_errors(as_page), methods=methods),
    ]
    return own
