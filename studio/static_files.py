"""ASGI application for the page's static files, with the studio's error responses."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from runtime.errors import MethodNotAllowed, UnknownRoute
from runtime.shared.port.errors import error_response

_METHODS = ("GET", "HEAD")


class FreshFiles(StaticFiles):
    """Static files that browsers must revalidate at each load.

    Without revalidation, a browser could combine outdated modules with new modules.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        if scope["method"] not in _METHODS:
            allowed = ", ".join(_METHODS)
            return error_response(MethodNotAllowed(allowed=allowed), {"Allow": allowed})
        try:
            response = await super().get_response(path, scope)
        except HTTPException:
            return error_response(UnknownRoute(hint=""))
        response.headers["cache-control"] = "no-cache"
        return response
