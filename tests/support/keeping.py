"""Studio server on a real socket that stores recordings and voices, without the page."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from studio.relay.relay import Relay
from studio.runtimes.given_runtime import GivenRuntime
from studio.settings import StoreSettings
from studio.store_service import StoreService
from studio.visitors.visitors import VisitorCookies
from tests.support.signals import voice


@contextmanager
def serving(folder: Path, runtime: str = "", **settings: Any) -> Iterator[str]:
    """Run a studio that stores its data in `folder`, and yield its URL."""
    keeping = StoreService(StoreSettings(data=str(folder), **settings))
    voices = keeping.voice_routes(Relay(GivenRuntime(runtime))) if runtime else []

    async def page(_: object) -> PlainTextResponse:
        return PlainTextResponse("the page")

    app = Starlette(
        routes=[Route("/", page), *keeping.routes(), *voices],
        middleware=[Middleware(VisitorCookies, visitors=keeping.visitors)],
        lifespan=lambda _: keeping.running(),
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[listener]),), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def visitor_client(address: str) -> Iterator[httpx.Client]:
    """Yield an HTTP client that acts as a new visitor of the studio.

    The client has its own cookies and has loaded the page.
    """
    with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:
        client.get("/").raise_for_status()
        yield client


def pcm_of(seconds: float = 1.0, seed: int = 1) -> bytes:
    """Return 16-bit PCM of a synthetic voice (mono, 24 kHz)."""
    return (voice(seconds, seed) * 32767).astype("<i2").tobytes()


def create_take(**fields: Any) -> dict[str, Any]:
    """Return the metadata of a take (a recording of generated speech), as the page sends it."""
    return {
        "room": "speakers",
        "mode": "custom_voice",
        "text": "Good morning.",
        "label": None,
        "config": {"voice": "clara", "instruct": "Calmly"},
        "seed": 7,
        "model": {"id": "demo-voice", "fingerprint": "f00d"},
        "voice": "clara",
        "language": "english",
        "metrics": {"ttfa_ms": 80.5},
        "stop_reason": "eos",
        "parent": None,
        **fields,
    }


def post(
    client: httpx.Client, pcm: bytes | None = None, reference: bytes | None = None, **fields: Any
) -> httpx.Response:
    """Upload a take (a recording of generated speech) like the page, and return the response."""
    files: dict[str, Any] = {"pcm": ("take.pcm", pcm_of() if pcm is None else pcm, "application/octet-stream")}
    if reference is not None:
        files["reference"] = ("reference.wav", reference, "audio/wav")
    return client.post("/studio/takes", data={"take": json.dumps(create_take(**fields))}, files=files)


def save(client: httpx.Client, pcm: bytes | None = None, reference: bytes | None = None, **fields: Any) -> Any:
    """Upload a take (a recording of generated speech), and return its stored JSON record."""
    answer = post(client, pcm, reference, **fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def samples(data: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(data, "<i2")
