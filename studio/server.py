"""Composes the studio's one port: the page, its files, the relay, and the state of the runtime behind it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.settings import Settings
from runtime.shared.port import serving
from runtime.shared.port.door import Door
from runtime.shared.port.hosts import Hosts
from runtime.shared.port.listening import listen
from runtime.shared.port.serving import Server
from runtime.shared.port.signals import ignore_signals, stop_on_signals
from runtime.shared.port.unrouted import no_socket, unrouted
from runtime.shipped import shipped
from runtime.variables import warn_of_unknown
from studio.downloads import Downloads
from studio.draining import Drain
from studio.fetching import Plan
from studio.given_runtime import GivenRuntime
from studio.keeping import Keeping
from studio.limits import VisitLimits, allowances
from studio.page_door import Function, PageDoor
from studio.presets import Presets
from studio.relay import HTTP_METHODS, Relay
from studio.routes.docs import docs_routes
from studio.routes.documents import document_routes
from studio.routes.host import HostRoutes, is_host
from studio.routes.openapi import openapi_routes
from studio.routes.real_voices import RealVoiceRoutes, cards_of, feature
from studio.routes.transcribe import transcribe_routes
from studio.routes.voices import voice_routes
from studio.settings import StudioSettings
from studio.sign_in import SignIn
from studio.startup_page import Opening
from studio.store.voice_bin import VoiceBin
from studio.supervisor import ChildRuntime, Runtime, until_answers
from studio.transcribing.desk import Desk
from studio.visitors import VisitorCookies
from studio.voice_owners import whose_voices
from studio.words import languages, words

ASSETS = shipped("studio", "assets")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 2  # for open requests when the process ends
GOODBYE_S = 2.0  # before that, for what could not be finished to be told
HURRIED_GOODBYE_S = 0.3  # the same, once the operator has signalled again


class FreshFiles(StaticFiles):
    """Static files that are asked for again each time, so that an upgraded page never meets an old module."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def build(
    runtime: Runtime,
    opening: Opening,
    keeping: Keeping,
    desk: Desk,
    settings: StudioSettings,
    sign_in: SignIn | None = None,
    told: Settings | None = None,
) -> FastAPI:
    """Compose the application. Routes come first: the mount at / takes whatever is left.

    ``told`` are the runtime's settings, whose variables tell the studio too.
    """
    told = told or Settings.from_env()
    key = told.server.keys[0] if told.server.keys else ""
    allowed = allowances(keeping.visitors, settings.visits)
    relay = Relay(runtime, key, whose_voices(keeping.visitors), allowed, told)
    voice_bin = VoiceBin(settings.store.folder / "deleted-voices", settings.store.bin_s)
    downloads, plan = None, Plan()
    if isinstance(runtime, ChildRuntime):
        downloads = Downloads(runtime, settings.store.folder, partial(cards_of, runtime, relay.key))
    presets = Presets.load().as_json() | {"languages": languages()}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with keeping.running(), downloads.running() if downloads else nullcontext():
            yield
        await plan.aclose()
        await relay.aclose()
        desk.close()

    async def status(_: Request) -> Response:
        state = asdict(runtime.status) | {"page": opening.opened.is_set()}
        return JSONResponse(state, headers={"cache-control": "no-store"})

    async def starting_values(_: Request) -> Response:
        return JSONResponse(presets)

    async def words_of(request: Request) -> Response:
        try:
            return JSONResponse(words(request.path_params["language"]), headers={"cache-control": "no-cache"})
        except KeyError:
            return Response(status_code=404)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def not_routed(request: Request) -> Response:
        return unrouted(app.router.routes[:last], request.scope)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.downloads = downloads  # what the page is told first says where one is
    app.state.drain = relay.drain
    app.add_middleware(VisitorCookies, visitors=keeping.visitors)
    must = settings.visits.sign_in == "required"
    app.add_middleware(VisitLimits, visitors=keeping.visitors, settings=settings.visits, must_sign_in=must)
    if sign_in is not None:
        sign_in.add_to(app)  # its session around all that asks who it is
    app.add_middleware(Door, settings=told.server, hosts=Hosts(told.server.hosts, settings.host))
    app.router.routes.extend([*keeping.routes(), *keeping.voice_routes(relay)])
    forget = downloads.forget if downloads else None
    app.router.routes.extend(HostRoutes(runtime, settings, relay.key, forget).routes())
    app.router.routes.extend(RealVoiceRoutes(runtime, settings, downloads, plan).routes())
    for path, endpoint in [("/health", health), ("/studio/status", status), ("/ready", relay.http)]:
        app.add_route(path, endpoint, methods=["GET", "HEAD"])
    app.add_route("/studio/presets", starting_values, methods=["GET", "HEAD"])
    app.add_route("/studio/i18n/{language}", words_of, methods=["GET", "HEAD"])
    for prefix in ("/v1", "/tts"):  # the runtime's own routes, and Cartesia's
        app.add_route(f"{prefix}/{{path:path}}", relay.http, methods=HTTP_METHODS)
        app.add_api_websocket_route(f"{prefix}/{{path:path}}", relay.websocket)
    for path in ("/voices", "/pronunciation-dicts"):  # Cartesia's too
        app.add_route(path, relay.http, methods=HTTP_METHODS)
        app.add_route(f"{path}/{{path:path}}", relay.http, methods=HTTP_METHODS)
    app.add_route("/v2/voices", relay.http, methods=HTTP_METHODS)  # and ElevenLabs'
    app.router.routes += openapi_routes(relay, list(app.router.routes))  # what all these are, and as a page
    app.router.routes += [
        *voice_routes(relay, voice_bin),
        *transcribe_routes(desk, told.limits),
        *document_routes(),
        *docs_routes(),
    ]
    # Where the page's modules find it: at the path that it has beside them on disk.
    app.mount("/clients/js", FreshFiles(directory=shipped("studio", "clients/js")))
    app.mount("/studio/js", FreshFiles(directory=ASSETS / "js"))
    app.mount("/studio/css", FreshFiles(directory=ASSETS / "css"))
    app.mount("/studio/fonts", FreshFiles(directory=ASSETS / "fonts"))
    last = len(app.router.routes)
    for path in ("/health", "/ready", "/studio/{path:path}", "/shared/{path:path}"):
        app.add_route(path, not_routed, methods=HTTP_METHODS)
    app.router.routes.append(Mount("/", _NoSockets(opening)))
    return app


class _NoSockets:
    """The page, which has no WebSockets."""

    def __init__(self, page: ASGIApp) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (no_socket if scope["type"] == "websocket" else self._page)(scope, receive, send)


def page(studio: ASGIApp) -> FastAPI:
    """Compose the page, and the doors for programs beside it: Gradio's API and MCP, over the studio's own routes.

    Takes the seconds that Gradio's import needs; the runtime loads its weights meanwhile.
    """
    import gradio

    from studio import link_preview
    from studio.actions import mcp_tools
    from studio.page import blocks, head, theme

    link_preview.offer()

    tools = mcp_tools.tools(studio)
    routes = tools.streamable_http_app().routes

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with tools.session_manager.run():
            yield

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.router.routes.extend(routes)
    composed = blocks(studio)
    named = composed.get_api_info()["named_endpoints"]
    functions = {
        number: Function(str(function.api_name), len(function.inputs), _defaults(named, function.api_name))
        for number, function in composed.fns.items()
    }
    limit = Settings.from_env().limits.max_config_bytes
    files = gradio.utils.get_upload_folder()
    app.add_middleware(PageDoor, functions=functions, files=files, max_bytes=limit)
    mounted: FastAPI = gradio.mount_gradio_app(
        app,
        composed,
        path="/",
        head=head(),
        favicon_path=ASSETS / "images" / "favicon.svg",
        theme=theme(),
        footer_links=[],
        show_error=False,
        ssr_mode=False,
        run_history=False,
    )
    return mounted


def _defaults(named: dict[str, Any], name: object) -> tuple[Any, ...]:
    """The values of a function's last parameters that may be left out, by Gradio's own description."""
    parameters = named[f"/{name}"]["parameters"] if f"/{name}" in named else []
    given = itertools.takewhile(lambda parameter: parameter["parameter_has_default"], reversed(parameters))
    return tuple(parameter["parameter_default"] for parameter in given)[::-1]


async def serve(settings: StudioSettings) -> int:
    """Run the studio until it is told to end. Returns the process's exit status.

    Raises:
        PortInUse: another process has the port.
        InvalidSetting: the studio's data was written by a newer one.
    """
    told = Settings.from_env()
    if settings.runtime_url:
        warn_of_unknown(os.environ)  # a runtime of our own does
    listener = listen(told.server, settings.host, settings.port, option="--port or PORT")
    runtime: Runtime = (
        GivenRuntime(settings.runtime_url)
        if settings.runtime_url
        else ChildRuntime(settings.runtime_args, drain_s=told.server.drain_s)
    )
    desk = Desk(settings.transcriber, told.limits)
    sign_in = _sign_in(settings)
    keeping = await asyncio.to_thread(
        partial(
            Keeping,
            settings.store,
            member_of=sign_in.member_of if sign_in else None,
            features=partial(_features, desk, sign_in, settings, runtime),
        )
    )
    opening = Opening()
    app = build(runtime, opening, keeping, desk, settings, sign_in, told)
    server = Server(config(app, told))
    # From here on nothing may fail: asyncio cannot cancel a child that is just being started.
    supervision = asyncio.create_task(runtime.run())
    stop, hurry = asyncio.Event(), asyncio.Event()
    stop_on_signals(SIGNALS, stop, hurry)
    told_to_end = asyncio.create_task(stop.wait())
    answering = asyncio.create_task(server.serve(sockets=[listener]))
    handing_over = asyncio.create_task(opening.hand_over(partial(page, app)))
    announcing = asyncio.create_task(_announce(opening, listener))
    await asyncio.wait({supervision, answering, handing_over, told_to_end}, return_when=asyncio.FIRST_COMPLETED)
    for task in (answering, handing_over):
        if task.done():
            task.result()
    code = supervision.result() if supervision.done() else 0
    if told_to_end.done():
        await _drain(app.state.drain, runtime, told.server.drain_s, hurry)
    server.should_exit = True
    helpers = (supervision, handing_over, announcing, told_to_end)
    for helper in helpers:
        helper.cancel()
    # uvicorn may stumble over a socket that is closing already; the process ends all the same.
    await asyncio.gather(answering, *helpers, return_exceptions=True)
    ignore_signals(SIGNALS)
    return code


def _features(
    desk: Desk, sign_in: SignIn | None, settings: StudioSettings, runtime: Runtime, request: Request
) -> dict[str, Any]:
    """What the studio can do beside keeping things. How it could do more is for its host alone."""
    transcribe = desk.feature() if is_host(request, settings) else {**desk.feature(), "how": ""}
    return {
        "transcribe": transcribe,
        "oauth": None if sign_in is None else sign_in.feature(),
        "real_voices": feature(request, runtime, settings, request.app.state.downloads),
    }


def _sign_in(settings: StudioSettings) -> SignIn | None:
    """Signing in, where visitors are kept apart and a provider is set.

    Raises:
        InvalidSetting: it is required or set, and cannot work.
    """
    wanted = settings.visits.sign_in
    if wanted == "off" or not settings.store.each():
        return None
    is_set = bool(os.environ.get("OPENID_PROVIDER_URL"))
    return SignIn(os.environ, required=wanted == "required") if is_set or wanted == "required" else None


async def _drain(drain: Drain, runtime: Runtime, drain_s: float, hurry: asyncio.Event) -> None:
    """Take no new speech, and let what runs come to its end, for so long; a second signal waits for nobody."""
    resting = asyncio.gather(runtime.drain(), drain.rest(drain_s, ends_idle=isinstance(runtime, GivenRuntime)))
    hurrying = asyncio.create_task(hurry.wait())
    either: set[asyncio.Future[Any]] = {resting, hurrying}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    for task in either:
        task.cancel()
    await asyncio.gather(*either, return_exceptions=True)
    await drain.turn_out(HURRIED_GOODBYE_S if hurry.is_set() else GOODBYE_S)


def config(app: FastAPI, told: Settings) -> uvicorn.Config:
    """How the studio's port is served: as the runtime's."""
    return serving.config(
        app,
        told,
        linger_s=GRACE_S,
        # A Space is reached through its proxy only, which tells by what name and from where.
        forwarded_allow_ips="*" if os.environ.get("SPACE_ID") else None,
    )


async def _announce(opening: Opening, listener: socket.socket) -> None:
    """Print the page's address once page and runtime answer."""
    await opening.opened.wait()
    host, port = listener.getsockname()[:2]
    url = f"http://{'localhost' if host in {'0.0.0.0', '::'} else host}:{port}"  # noqa: S104
    async with httpx.AsyncClient(trust_env=False) as client:
        await until_answers(client, f"{url}/ready")
        await until_answers(client, f"{url}/")
    print(f"Voicewright is ready at {url}", flush=True)
