"""HTTP routes of the OpenAPI document and its HTML page."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from runtime.server.engine_host import EngineHost
from runtime.server.openapi.document import build_document
from runtime.server.openapi.operations import describe_operation
from runtime.shared.openapi_page import page

GET = ["GET", "HEAD"]


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register the routes of the OpenAPI document and its HTML page.

    The document also describes routes that are registered later.
    """

    @cache
    def described() -> tuple[dict[str, Any], str]:
        """Return the document and its HTML page.

        Thread: a worker, because this takes about a second.
        """
        document = build_document(app.routes, has_keys=host.settings.server.needs_key)
        return document, page(document)

    @app.api_route("/openapi.json", methods=GET)
    @describe_operation(response=dict[str, Any])
    async def openapi() -> dict[str, Any]:
        """Return the OpenAPI 3.1 document of the HTTP routes."""
        return (await host.run_in_worker(described))[0]

    @app.api_route("/docs", methods=GET)
    @app.api_route("/openapi", methods=GET)
    @describe_operation(binary_types=("text/html",))
    async def openapi_page() -> HTMLResponse:
        """Return the OpenAPI document as an HTML page."""
        _, html = await host.run_in_worker(described)
        return HTMLResponse(html, headers={"Cache-Control": "no-cache"})
