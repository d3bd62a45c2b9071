"""Tests for the switch from the startup page to the studio's page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Mount
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from studio.page.startup import StartupPage
from tests.unit.studio.serving import served


async def test_socket_opened_on_the_startup_page_stays_open_in_the_studio() -> None:
    may_open, ended = threading.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            ended.set()

    def build() -> FastAPI:
        may_open.wait(60)
        page = FastAPI(lifespan=lifespan)
        page.add_api_route("/", lambda: "the studio")
        return page

    opening = StartupPage()
    serving_page = asyncio.create_task(opening.serve_page(build))
    async with (
        served([Mount("/", opening)]) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        first = await client.get("/")
        assert (first.status_code, "bundle/startup.js" in first.text) == (200, True)
        assert (await client.head("/")).status_code == 200
        other = await client.post("/gradio_api/call/speak")
        assert (other.status_code, other.json()["error"]["code"]) == (503, "studio_opening")
        assert other.headers["retry-after"] == "2"
        with pytest.raises(InvalidStatus, match="403"):
            await connect(f"ws://{address}/socket", proxy=None)
        may_open.set()
        await asyncio.wait_for(opening.opened.wait(), 60)
        assert (await client.get("/")).json() == "the studio"
        assert not ended.is_set()
        serving_page.cancel()
        await asyncio.gather(serving_page, return_exceptions=True)
        assert ended.is_set()


async def test_page_build_error_is_raised() -> None:
    def build() -> FastAPI:
        raise RuntimeError("no page")

    with pytest.raises(RuntimeError, match="no page"):
        await StartupPage().serve_page(build)
