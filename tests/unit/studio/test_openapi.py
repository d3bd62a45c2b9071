"""Tests for the studio's OpenAPI document, which extends the runtime's document."""

from __future__ import annotations

import time

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from studio.relay.relay import Relay
from studio.routes.openapi import openapi_routes
from studio.runtimes.given_runtime import GivenRuntime
from tests.unit.studio.serving import served

PATHS = [f"/v1/part{number}/{{name}}" for number in range(300)]


async def test_openapi_document_is_built_off_the_event_loop() -> None:
    async def empty(_: Request) -> Response:
        return Response()

    operation = {"operationId": "x", "summary": "x", "description": "x" * 500, "tags": ["x"], "parameters": []}
    paths = {path: {"get": operation | {"responses": {}}} for path in [*PATHS, "/metrics"]}
    document = {"info": dict.fromkeys(("title", "version", "description"), "x"), "components": {"schemas": {}}}
    answer = JSONResponse(document | {"paths": paths})

    async def described(_: Request) -> Response:
        return answer

    async with served([Route("/openapi.json", described)]) as runtime:
        relay = Relay(GivenRuntime(f"http://{runtime}"))
        async with (
            served(openapi_routes(relay, [Route(path, empty) for path in PATHS])) as studio,
            httpx.AsyncClient(base_url=f"http://{studio}") as client,
        ):
            await client.get("/nothing")
            began = time.thread_time()
            for _ in range(5):
                assert "/v1/part7/{name}" in (await client.get("/openapi")).text
            used_s = (time.thread_time() - began) / 5
            assert list((await client.get("/openapi.json")).json()["paths"]) == PATHS
        await relay.aclose()
    assert used_s < 0.05
