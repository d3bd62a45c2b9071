"""ASGI application of the page and Gradio's APIs, mounted at the path /."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from runtime.settings import Settings
from runtime.shipped import shipped
from studio.page.route_filter import Function, RouteFilter

# Poll interval of Gradio's queue in seconds. Its default of 1 ms uses 5 % of a core. Speech does not use this queue.
QUEUE_S = 0.02
ICON = shipped("studio", "assets") / "images" / "favicon.svg"


def page(studio: ASGIApp) -> FastAPI:
    """Build the ASGI application of the web page, Gradio's API and MCP.

    The import of Gradio takes seconds, so call this function in a thread.
    """
    with without_stub_files():
        import gradio

    from studio.actions import gradio_api, mcp_tools
    from studio.page import template

    template.replace()

    tools = mcp_tools.tools(studio)
    routes = tools.streamable_http_app().routes

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with tools.session_manager.run():
            yield

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.router.routes.extend(routes)
    with gradio.Blocks(
        title="Voicewright", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400)
    ) as composed:
        gradio.HTML(js_on_load="dispatchEvent(new Event('vw-gradio'))")
        gradio_api.offer(studio)
    named = composed.get_api_info()["named_endpoints"]
    functions = {
        number: Function(str(function.api_name), len(function.inputs), _defaults(named, function.api_name))
        for number, function in composed.fns.items()
    }
    limit = Settings.from_env().limits.max_config_bytes
    files = gradio.utils.get_upload_folder()
    app.add_middleware(template.CompressedTemplate)
    app.add_middleware(RouteFilter, functions=functions, files=files, max_bytes=limit)
    mounted: FastAPI = gradio.mount_gradio_app(
        app,
        composed,
        path="/",
        favicon_path=ICON,
        # With system fonts, no fonts are downloaded.
        theme=gradio.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        footer_links=[],
        show_error=False,
        ssr_mode=False,
        run_history=False,
    )
    composed._queue.sleep_when_free = QUEUE_S  # Gradio has no public setting for this interval.
    return mounted


@contextmanager
def without_stub_files() -> Iterator[None]:
    """Prevent Gradio from writing a .pyi file for each component while the context is open.

    The source files of the components are hidden from `inspect.getfile`. The import of Gradio then takes 1.6 s instead
    of 2.8 s.
    """
    getfile = inspect.getfile

    def getfile_of_others(subject: Any) -> str:
        if str(getattr(subject, "__module__", "")).startswith("gradio."):
            raise OSError("not needed")
        return getfile(subject)

    inspect.getfile = getfile_of_others  # type: ignore[assignment]  # Gradio passes only classes.
    try:
        yield
    finally:
        inspect.getfile = getfile


def _defaults(named: dict[str, Any], name: object) -> tuple[Any, ...]:
    """Return the default values of a function's last parameters, from Gradio's API info."""
    parameters = named[f"/{name}"]["parameters"] if f"/{name}" in named else []
    optional = itertools.takewhile(lambda parameter: parameter["parameter_has_default"], reversed(parameters))
    return tuple(parameter["parameter_default"] for parameter in optional)[::-1]
