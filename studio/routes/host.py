"""Routes `studio/host` for the host, who operates the studio.

They return the state of the machine and metrics, and load other checkpoints.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.errors import InvalidConfig, OutOfOrder
from runtime.settings import EngineSettings, Limits, ServerSettings, Settings
from runtime.shared.certificates import certificates
from studio.checkpoint_arguments import models_of, with_models
from studio.errors import HostOnly
from studio.routes.responses import handle_errors, json_response, read_body
from studio.runtimes.metrics import CONTENT_TYPE, figures, starts_page
from studio.runtimes.process_memory import own_memory
from studio.runtimes.supervisor import ChildRuntime, Runtime
from studio.settings import StoreSettings, StudioSettings, VisitSettings
from studio.store.records import decode
from studio.visitors.peer_user import is_own_user

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
SECRET = frozenset({"VOICEWRIGHT_ACCOUNT_KEY", "VOICEWRIGHT_API_KEYS", "VOICEWRIGHT_HOST_KEY"})
KEY_HEADER = "x-host-key"
# Prefixes of the headers that proxies add to requests.
FORWARDED = (
    "forwarded",
    "via",
    "x-forwarded-",
    "x-real-ip",
    "x-client-ip",
    "x-original-",
    "true-client-ip",
    "cf-",
    "cdn-",
)
# Maximum number of checkpoints per request. It exceeds the number of modes because adapters count separately.
MAX_MODELS = 32
MAX_NAME_CHARS = 500
ASK_S = 5.0


def is_host(request: Request, settings: StudioSettings) -> bool:
    """Return True if the request comes from the host (the person who operates the studio).

    This is the case if the request has the host's secret key. It is also the case for a request from this machine if
    the studio is not reachable from other machines. Such a request must have a Host header that names this machine, and
    no proxy may have forwarded it. Some proxies leave no trace in the headers, so the user id of the client's process
    is checked.
    """
    key = settings.visits.host_key
    if key and hmac.compare_digest(request.headers.get(KEY_HEADER, "").encode(), key.encode()):
        return True
    alone = settings.host in LOOPBACK and not settings.store.has_separate_histories()
    is_direct = alone and not key and not _is_forwarded(request) and request.url.hostname in LOOPBACK
    return is_direct and is_own_user(request)


def _is_forwarded(request: Request) -> bool:
    """True if a proxy has forwarded the request.

    Unconfigured nginx is detected by its connection: unlike browsers, it uses HTTP/1.0 or closes the connection after
    each response.
    """
    closes = request.headers.get("connection", "").lower() == "close"
    return (
        closes or request.scope["http_version"] == "1.0" or any(name.startswith(FORWARDED) for name in request.headers)
    )


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """State of a runtime for the Host tab of the page.

    It has the model cards, the metrics, the voice files that cannot be used, and the ports of protocols other than
    HTTP.
    """

    models: list[Any] = field(default_factory=list)
    figures: dict[str, Any] | None = None
    voice_problems: list[Any] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)


class HostRoutes:
    """HTTP routes of the page's Host tab, which only the operator of the studio may use.

    Thread: event loop.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: StudioSettings,
        key: Mapping[str, str],
        on_load: Callable[[], None] | None = None,
    ) -> None:
        """Create the routes of the page's Host tab.

        `key` has the header with the runtime's API key, or is empty. `on_load` is called after the checkpoints have
        changed.
        """
        self._runtime = runtime
        self._settings = settings
        self._key = dict(key)
        self._on_load = on_load

    def routes(self) -> list[Route]:
        return [
            Route("/studio/host", handle_errors(self.show), methods=["GET"]),
            Route("/studio/host/metrics", handle_errors(self.metrics), methods=["GET"]),
            Route("/studio/host/models", handle_errors(self.load), methods=["POST"]),
            Route("/studio/host/models", handle_errors(self.cancel_change), methods=["DELETE"]),
        ]

    async def show(self, request: Request) -> Response:
        """Return the state of the runtime and the machine for the page's Host tab as JSON.

        The page requests it repeatedly.
        """
        self._check(request)
        runtime = self._runtime
        state = await self._ask_runtime()
        is_own = isinstance(runtime, ChildRuntime)
        memory = await asyncio.to_thread(own_memory) if is_own else None
        # There is no await between reading the status and `changing`, so they are consistent when a change fails.
        return json_response(
            {
                "runtime": asdict(runtime.status),
                "restarts": dict(runtime.restarts) if isinstance(runtime, ChildRuntime) else {},
                "own": is_own,
                "memory": memory,
                "changing": isinstance(runtime, ChildRuntime) and runtime.changing,
                "checkpoints": models_of(runtime.args) if isinstance(runtime, ChildRuntime) else [],
                "models": state.models,
                "figures": state.figures,
                "voice_problems": state.voice_problems,
                "ports": state.ports,
                "settings": list(describe_settings(self._settings)),
            }
        )

    async def metrics(self, request: Request) -> Response:
        """Return Prometheus metrics of the studio and, if the runtime responds, of the runtime.

        The studio's metrics count the starts and restarts of the runtime.
        """
        self._check(request)
        runtime = self._runtime
        page = starts_page(runtime.starts, runtime.restarts) if isinstance(runtime, ChildRuntime) else ""
        if runtime.url is not None:
            with suppress(httpx.HTTPError):
                async with runtime_client(runtime.url, self._key) as client:
                    page += (await client.get("/metrics")).raise_for_status().text
        return Response(page, media_type=CONTENT_TYPE)

    async def load(self, request: Request) -> Response:
        """Load the checkpoints in the request, which replace the current checkpoints.

        The request body is {"models": ["[mode=]PATH_OR_ID", …]}.
        """
        self._check(request)
        runtime = self._runtime
        if not isinstance(runtime, ChildRuntime):
            raise OutOfOrder(what="Loading", why="the runtime was not started by this studio", param="models")
        models = _checkpoints(decode(await read_body(request)))
        if runtime.changing:
            raise OutOfOrder(what="Loading", why="other checkpoints are being loaded already", param="models")
        runtime.change(with_models(runtime.args, models))
        if self._on_load is not None:
            self._on_load()
        return json_response(asdict(runtime.status), 202)

    async def cancel_change(self, request: Request) -> Response:
        """Cancel a change of checkpoints.

        The runtime continues to serve the previous checkpoints.
        """
        self._check(request)
        if not isinstance(self._runtime, ChildRuntime) or not self._runtime.changing:
            raise OutOfOrder(what="Cancelling", why="no other checkpoints are being loaded")
        self._runtime.cancel_change()
        return json_response(asdict(self._runtime.status), 202)

    def _check(self, request: Request) -> None:
        if not is_host(request, self._settings):
            raise HostOnly

    async def _ask_runtime(self) -> RuntimeReport:
        """Query the runtime's state, or return an empty report if the runtime does not respond."""
        if self._runtime.url is None:
            return RuntimeReport()
        try:
            async with runtime_client(self._runtime.url, self._key) as client:
                cards, page = await client.get("/v1/models"), await client.get("/metrics")
                voices, ready = await client.get("/v1/audio/voices"), await client.get("/ready")
                return RuntimeReport(
                    models=cards.raise_for_status().json()["data"],
                    figures=figures(page.raise_for_status().text),
                    voice_problems=voices.raise_for_status().json().get("problems", []),
                    ports=ready.json().get("ports", {}),
                )
        except (httpx.HTTPError, ValueError, KeyError):
            return RuntimeReport()


def runtime_client(url: str, key: Mapping[str, str]) -> httpx.AsyncClient:
    """Return an HTTP client for short requests to the runtime, with the header of its API key."""
    return httpx.AsyncClient(base_url=url, headers=dict(key), verify=certificates(), trust_env=False, timeout=ASK_S)


def _checkpoints(body: dict[str, Any]) -> list[str]:
    """Return the checkpoints in a request body.

    Raises:
        InvalidConfig: `models` is not a list of at most MAX_MODELS checkpoints.
    """
    models = body.get("models")
    if not isinstance(models, list) or not 1 <= len(models) <= MAX_MODELS:
        raise InvalidConfig(where="models", why=f"give 1 to {MAX_MODELS} checkpoints", param="models")
    for model in models:
        # A process cannot be started with a NUL or a lone surrogate in its arguments.
        if (
            not isinstance(model, str)
            or not model.strip().isprintable()
            or not model.strip()
            or model.startswith("-")
            or len(model) > MAX_NAME_CHARS
        ):
            why = "each must be a folder or a Hub id, optionally with mode= before it"
            raise InvalidConfig(where="models", why=why, param="models")
    return [model.strip() for model in models]


def describe_settings(settings: StudioSettings) -> Iterator[dict[str, Any]]:
    """Yield each setting of the studio as a dictionary with its value and default.

    The dictionary also has the environment variable and a description. The value of a secret is replaced by "set".
    """
    env = Settings.from_env()
    groups: list[EngineSettings | Limits | ServerSettings | StoreSettings | VisitSettings]
    groups = [env.engine, env.limits, env.server, settings.store, settings.visits]
    for group in groups:
        for spec in fields(group):
            value, name = getattr(group, spec.name), spec.metadata["env"]
            hidden = name in SECRET and value
            yield {
                "group": type(group).__name__.removesuffix("Settings").lower(),
                "env": name,
                "about": spec.metadata["about"],
                "value": "set" if hidden else value,
                "default": spec.default,
                "changed": value != spec.default,
            }
