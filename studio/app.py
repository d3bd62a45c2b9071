"""ASGI application of the studio: static files, stored data, API proxy and runtime status.

The web page itself is mounted last (studio/page/app.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.settings import Settings
from runtime.shared.port.errors import refuse_unknown_websocket, unmatched_route_error
from runtime.shared.port.origins import Cors, Hosts, Origins, RequestGuard
from runtime.shipped import shipped
from studio.downloads import CheckpointDownload
from studio.fetching import Plan
from studio.page.bundle import Bundles
from studio.page.security_headers import SecurityHeaders
from studio.page.startup import StartupPage
from studio.relay.relay import HTTP_METHODS, Relay
from studio.routes.docs import docs_routes
from studio.routes.documents import document_routes
from studio.routes.host import HostRoutes, is_host
from studio.routes.openapi import openapi_routes
from studio.routes.real_voices import RealVoiceRoutes, cards_of
from studio.routes.transcribe import transcribe_routes
from studio.runtimes.supervisor import ChildRuntime, Runtime
from studio.settings import StudioSettings
from studio.static_files import FreshFiles
from studio.store_service import StoreService
from studio.transcribing.service import TranscriptionService
from studio.visitors.limits import Accounts, VisitLimits, allowances
from studio.visitors.revisions import RevisionCounter, Revisions
from studio.visitors.sign_in import SignIn
from studio.visitors.visitors import VisitorCookies
from studio.visitors.voice_owners import voice_owner_lookup

ASSETS = shipped("studio", "assets")
# Path prefixes of the runtime's API. Pages of other origins may only use these paths.
RUNTIME_PATHS = ("/v1/", "/v2/", "/tts/", "/voices", "/pronunciation-dicts")


def build(
    runtime: Runtime,
    startup: StartupPage,
    stores: StoreService,
    transcription: TranscriptionService,
    settings: StudioSettings,
    sign_in: SignIn | None = None,
    runtime_settings: Settings | None = None,
) -> FastAPI:
    """Create the ASGI application of the studio.

    The page is mounted last, because its mount at / handles all remaining paths. Some of `runtime_settings` also apply
    to the studio.
    """
    runtime_settings = runtime_settings or Settings.from_env()
    key = runtime_settings.server.keys[0] if runtime_settings.server.keys else ""
    accounts = Accounts(stores.visitors, settings.visits.visitors_per_address)
    allowed = allowances(accounts, settings.visits)
    revisions = Revisions(stores.visitors)
    relay = Relay(runtime, key, voice_owner_lookup(stores.visitors), allowed, runtime_settings)
    downloads, plan = None, Plan()
    if isinstance(runtime, ChildRuntime):
        downloads = CheckpointDownload(runtime, settings.store.folder, partial(cards_of, runtime, relay.key))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with stores.running(relay), downloads.running() if downloads else nullcontext():
            yield
        await plan.aclose()
        await relay.aclose()
        await transcription.aclose()

    async def status(_: Request) -> Response:
        state = asdict(runtime.status) | {"page": startup.opened.is_set()}
        return JSONResponse(state, headers={"cache-control": "no-store"})

    async def revision(request: Request) -> Response:
        return JSONResponse(revisions.read(request), headers={"cache-control": "no-store"})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def not_routed(request: Request) -> Response:
        return unmatched_route_error(app.router.routes[:last], request.scope)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    # The page's first request for the state also returns the downloads.
    app.state.downloads = downloads
    app.state.drain = relay.drain
    app.add_middleware(RevisionCounter, revisions=revisions)
    app.add_middleware(VisitorCookies, visitors=stores.visitors)
    must = settings.visits.sign_in == "required"
    admit = partial(stores.admit_to_runtime, max_owners=settings.visits.visitors_per_address)
    app.add_middleware(VisitLimits, accounts=accounts, settings=settings.visits, must_sign_in=must, admit=admit)
    if sign_in is not None:
        sign_in.add_to(app)  # The sign-in session must be available to all routes that need the visitor.
    app.add_middleware(SecurityHeaders, ancestors=settings.visits.frame_ancestors)
    origins = Origins(runtime_settings.server.origins, RUNTIME_PATHS)
    app.add_middleware(
        RequestGuard,
        settings=runtime_settings.server,
        hosts=Hosts(runtime_settings.server.hosts, settings.host),
        origins=origins,
    )
    if origins:
        app.add_middleware(Cors, origins=origins)
    app.router.routes.extend([*stores.routes(), *stores.voice_routes(relay)])
    forget = downloads.forget if downloads else None
    app.router.routes.extend(HostRoutes(runtime, settings, relay.key, forget).routes())
    app.router.routes.extend(RealVoiceRoutes(runtime, settings, downloads, plan).routes())
    for path, endpoint in [("/health", health), ("/studio/status", status), ("/studio/revision", revision)]:
        app.add_route(path, endpoint, methods=["GET", "HEAD"])
    app.router.routes.extend(relay.routes())
    # OpenAPI document and documentation page of all routes above.
    app.router.routes += openapi_routes(relay, list(app.router.routes))
    app.router.routes += [
        *transcribe_routes(transcription, runtime_settings.limits, partial(is_host, settings=settings)),
        *document_routes(lambda connection: allowed(connection).account),
        *docs_routes(),
    ]
    app.router.routes += Bundles().routes()
    # The path /clients/js has the same position relative to the page's modules as the folder on disk.
    app.mount("/clients/js", FreshFiles(directory=shipped("studio", "clients/js")))
    app.mount("/studio/js", FreshFiles(directory=ASSETS / "js"))
    app.mount("/studio/css", FreshFiles(directory=ASSETS / "css"))
    app.mount("/studio/fonts", FreshFiles(directory=ASSETS / "fonts"))
    last = len(app.router.routes)
    for path in ("/health", "/ready", "/studio/{path:path}", "/shared/{path:path}"):
        app.add_route(path, not_routed, methods=HTTP_METHODS)
    app.router.routes.append(Mount("/", _NoSockets(startup)))
    return app


class _NoSockets:
    """ASGI wrapper around the page that refuses WebSocket connections."""

    def __init__(self, page: ASGIApp) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (refuse_unknown_websocket if scope["type"] == "websocket" else self._page)(scope, receive, send)
