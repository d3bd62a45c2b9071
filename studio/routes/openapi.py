"""OpenAPI document of the runtime's routes that are available on the studio's port."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Match, Route

from runtime.shared.openapi_page import page
from studio.relay.relay import Relay
from studio.routes.responses import handle_errors
from studio.routes.voices import forward_response

FRESH = {"cache-control": "no-cache"}
_PLACE = re.compile(r"\{\w+\}")


def openapi_routes(relay: Relay, routes: Sequence[BaseRoute]) -> list[Route]:
    """Return the HTTP routes of the OpenAPI document, as JSON and as an HTML page.

    Args:
        relay: Proxy to the runtime.
        routes: Routes of the studio, which determine the documented operations.
    """

    @lru_cache(maxsize=1)
    def rendered(content: bytes) -> tuple[bytes, str]:
        """Return the JSON document and its HTML page, given the runtime's document.

        Thread: worker thread, because rendering is slow.
        """
        document: dict[str, Any] = json.loads(content)
        operations = document["paths"].items()
        paths = {
            path: {method: one for method, one in those.items() if served(path, method)} for path, those in operations
        }
        document["paths"] = {path: those for path, those in paths.items() if those}
        return json.dumps(document, ensure_ascii=False).encode(), page(document)

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
        response = await relay.send(request, "GET", "/openapi.json")
        if response.status_code != httpx.codes.OK:
            return forward_response(response)
        document, _ = await asyncio.to_thread(rendered, response.content)
        return Response(document, headers=FRESH, media_type="application/json")

    async def as_page(request: Request) -> Response:
        response = await relay.send(request, "GET", "/openapi.json")
        if response.status_code != httpx.codes.OK:
            return forward_response(response)
        _, html = await asyncio.to_thread(rendered, response.content)
        return HTMLResponse(html, headers=FRESH)

    methods = ["GET", "HEAD"]
    own = [
        Route("/openapi.json", handle_errors(as_json), methods=methods),
        Route("/openapi", handle_errors(as_page), methods=methods),
    ]
    return own
