"""HTTP routes for the whole cluster: health, readiness, models and metrics."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Protocol

import httpx
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from runtime.cluster.balance import Load, Replica
from runtime.errors import NoReplica
from runtime.settings import Settings
from runtime.shared.port.errors import error_response

CONTENT_TYPE = CONTENT_TYPE_LATEST
OURS = "voicewright_"
SUM_PREFIX = "voicewright_cluster_"  # Prefix of metrics that are summed over replicas.

# Health route of Ray Serve's own proxy. HAProxy replaces this proxy, but KubeRay still requests the route.
HEALTH_OF_SERVE = "/-/healthz"

_GET = ["GET", "HEAD"]


class ClusterState(Protocol):
    """Interface from which `ClusterView` reads the state of the cluster."""

    @property
    def replicas(self) -> Mapping[str, Replica]: ...

    @property
    def loads(self) -> Mapping[str, Load]: ...

    @property
    def ready(self) -> list[Replica]: ...

    @property
    def ports(self) -> Mapping[str, str]: ...


class ClusterView:
    """HTTP server of the routes that describe the whole cluster, such as /ready and /metrics.

    The server listens on a local port, and HAProxy forwards these routes to it.

    Thread: event loop.
    """

    def __init__(self, state: ClusterState, http: httpx.AsyncClient, settings: Settings) -> None:
        self._state = state
        self._http = http
        app = Starlette(
            routes=[
                Route("/health", self._health, methods=_GET),
                Route(HEALTH_OF_SERVE, self._serve_health, methods=_GET),
                Route("/ready", self._ready, methods=_GET),
                Route("/metrics", self._metrics, methods=_GET),
                Route("/v1/models", self._models, methods=_GET),
                Route("/v1/models/{name:path}", self._model, methods=_GET),
                Route("/v1/audio/models", self._models, methods=_GET),
                Route("/v1/open-webui/audio/models", self._models, methods=_GET),
                Route("/cluster", self._cluster, methods=_GET),
            ]
        )
        config = uvicorn.Config(app, log_config=None, log_level="warning", access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Start the server and return its port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._serving = asyncio.create_task(self._server._serve(sockets=[listener]), name="cluster-view")
        port: int = listener.getsockname()[1]
        return port

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _serve_health(self, _: Request) -> Response:
        return PlainTextResponse("success")

    async def _ready(self, _: Request) -> Response:
        """Return the sum of the /ready responses of all replicas, in the same format."""
        loads = [self._state.loads[replica.name] for replica in self._state.ready if replica.name in self._state.loads]
        if not loads:
            return error_response(NoReplica(retry_after_s=1.0), status="loading")
        sums = {name: sum(getattr(load, name) for load in loads) for name in ("slots", "active", "waiting")}
        sums |= {"waiting_for_text": 0, "short_of_text": 0}  # `short_of_text` is the former name of `waiting_for_text`.
        return JSONResponse(
            {"status": "ready", **sums, "ports": dict(self._state.ports), "replicas": len(loads)},
        )

    async def _cluster(self, request: Request) -> Response:
        """Return name, state, checkpoints and load of each replica if the caller has a valid key."""
        loads = {name: asdict(load) for name, load in self._state.loads.items()}
        replicas = [
            {
                "name": replica.name,
                "pool": replica.pool,
                "state": replica.state.value,
                "modes": list(replica.modes),
                "models": sorted({checkpoint.id for checkpoint in replica.checkpoints}),
                "load": loads.get(replica.name),
            }
            for replica in self._state.replicas.values()
        ]
        return await self._if_allowed(request, JSONResponse({"replicas": replicas}))

    async def _metrics(self, request: Request) -> Response:
        """Return the metrics of all replicas and their sums."""
        replicas = list(self._state.replicas.values())
        pages = await self._pages(request, replicas, "/metrics")
        if isinstance(pages, Response):
            return pages
        named = {replica.name: page.text for replica, page in zip(replicas, pages, strict=True) if page is not None}
        return Response(summed(named), media_type=CONTENT_TYPE)

    async def _models(self, request: Request) -> Response:
        """Return the checkpoints of all replicas without duplicates."""
        pages = await self._pages(request, self._state.ready, request.url.path)
        if isinstance(pages, Response):
            return pages
        bodies = [page.json() for page in pages if page is not None]
        if bodies and isinstance(bodies[0], list):  # ElevenLabs's API returns a plain list.
            return JSONResponse(list({model["model_id"]: model for page in bodies for model in page}.values()))
        names = [name for name in bodies[0] if name != "object"] if bodies else ["data"]
        models = {name: {model["id"]: model for page in bodies for model in page[name]} for name in names}
        return JSONResponse({"object": "list", **{name: list(found.values()) for name, found in models.items()}})

    async def _model(self, request: Request) -> Response:
        """Return the response about a checkpoint from a replica that serves the checkpoint.

        If no replica serves it, the error of one replica is returned.
        """
        answers = await self._answers(request, self._state.ready, request.url.path)
        if not answers:
            return error_response(NoReplica(retry_after_s=1.0))
        answers.sort(key=lambda answer: answer.status_code != httpx.codes.OK)
        return _to_response(answers[0])

    async def _pages(
        self, request: Request, replicas: list[Replica], path: str
    ) -> list[httpx.Response | None] | Response:
        """Forward the request to all replicas and return their responses.

        Returns:
            One response per replica (None if it has failed), or one refusal if a replica refuses the request.
        """
        pages = await asyncio.gather(*(self._query(request, replica, path) for replica in replicas))
        for page in pages:
            if page is not None and page.status_code in {401, 403, 429}:
                return _to_response(page)
        return [page if page is not None and page.status_code == httpx.codes.OK else None for page in pages]

    async def _answers(self, request: Request, replicas: list[Replica], path: str) -> list[httpx.Response]:
        """Forward the request to all replicas and return the responses that arrive."""
        pages = await asyncio.gather(*(self._query(request, replica, path) for replica in replicas))
        return [page for page in pages if page is not None]

    async def _query(self, request: Request, replica: Replica, path: str) -> httpx.Response | None:
        headers = {
            name: request.headers[name]
            for name in ("authorization", "x-api-key", "xi-api-key", "user-agent", "accept")
            if name in request.headers
        }
        try:
            return await self._http.send(httpx.Request("GET", f"{replica.url}{path}", headers=headers))
        except httpx.HTTPError:
            return None

    async def _if_allowed(self, request: Request, answer: Response) -> Response:
        """Return `answer` if a replica accepts the caller's key, and otherwise an error."""
        pages = await self._pages(request, self._state.ready, "/v1/models")
        if isinstance(pages, Response):
            return pages
        return answer if any(page is not None for page in pages) else error_response(NoReplica(retry_after_s=1.0))


def _to_response(answer: httpx.Response) -> Response:
    """Convert a replica's response to a response of this server."""
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


class _Page:
    """Collection of metrics that `generate_latest` accepts instead of a Prometheus registry."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def summed(pages: Mapping[str, str]) -> bytes:
    """Merge the Prometheus pages of all replicas into one page.

    Each sample gets the label ``replica``. Counters, gauges and histogram buckets of Voicewright are also summed as
    ``voicewright_cluster_…``. Creation times are omitted.
    """
    joined: dict[str, Metric] = {}
    totals: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = defaultdict(lambda: defaultdict(float))
    for replica, page in pages.items():
        for family in text_string_to_metric_families(page):
            metric = joined.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                metric.add_sample(sample.name, {**sample.labels, "replica": replica}, sample.value)
                if family.name.startswith(OURS):
                    totals[family.name][sample.name, tuple(sorted(sample.labels.items()))] += sample.value
    count = Metric(f"{SUM_PREFIX}replicas", "Replicas that respond", "gauge")
    count.add_sample(f"{SUM_PREFIX}replicas", {}, len(pages))
    sums = [count]
    for name, samples in totals.items():
        known = joined[name]
        metric = Metric(SUM_PREFIX + name.removeprefix(OURS), f"{known.documentation}, of all replicas", known.type)
        for (sample_name, labels), value in samples.items():
            metric.add_sample(SUM_PREFIX + sample_name.removeprefix(OURS), dict(labels), value)
        sums.append(metric)
    # `generate_latest` needs only the method `collect`, which `_Page` has.
    return generate_latest(_Page([*joined.values(), *sums]))
