"""In-process HTTP client with which actions call the studio's own routes.

Each request has the identity of the action's caller, so the same limits and permissions apply as on the page.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import httpx
from starlette.datastructures import Headers
from starlette.types import ASGIApp

from runtime.shared.port.origins import may_use

# Headers that identify the caller. The Origin header is checked here and not forwarded.
PASSED_ON = ("authorization", "cookie", "x-api-key", "x-forwarded-proto")
BASE = "http://localhost"


class ActionRefused(Exception):
    """Error of an action (a page feature that a program calls).

    It has a one-sentence message and a stable error code.
    """

    def __init__(self, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param


class StudioClient:
    """In-process HTTP client of the studio's routes for one caller.

    Thread: event loop.
    """

    def __init__(self, app: ASGIApp, headers: Mapping[str, str], address: str = "127.0.0.1") -> None:
        """Create a client that sends requests on behalf of an action's caller.

        Raises:
            ActionRefused: The request comes from a page of another origin.
        """
        if not may_use(Headers(headers)):
            raise ActionRefused("This origin may not use the studio.", "origin_refused")
        self._app = app
        self._address = address
        self._headers = {name: headers[name] for name in PASSED_ON if name in headers}

    async def __call__(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Send one HTTP request to a route of the studio and return the response.

        Args:
            method: HTTP method.
            path: Path of the route.
            content: Keyword arguments of `httpx.AsyncClient.request`.

        Raises:
            ActionRefused: The studio or the runtime refuses the request.
        """
        transport = httpx.ASGITransport(self._app, client=(self._address, 0))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=self._headers, timeout=None) as client:  # noqa: S113
            answer = await client.request(method, path, **content)
        if answer.is_success:
            return answer
        raise _refused(answer)

    async def speech(self, body: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """Generate speech with the runtime's route /v1/audio/speech.

        Returns:
            PCM bytes (s16le, 24 kHz, mono) and the ``speech.audio.done`` event.

        Raises:
            ActionRefused: The request was refused, or the generation failed.
        """
        body_with_format = {"response_format": "pcm", "stream_format": "sse", **body}
        answer = await self("POST", "/v1/audio/speech", json=body_with_format)
        pcm, done = bytearray(), None
        for line in answer.text.splitlines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            match event["type"]:
                case "speech.audio.delta":
                    pcm += base64.b64decode(event["audio"])
                case "speech.audio.done":
                    done = event
                case _:
                    error = event.get("error", {})
                    raise ActionRefused(error.get("message", "Speech failed."), error.get("code", "generation_failed"))
        if done is None:
            raise ActionRefused("The runtime stopped during the speech; try again.", "runtime_unavailable")
        return bytes(pcm), done


def _refused(answer: httpx.Response) -> ActionRefused:
    try:
        error = answer.json()["error"]
        return ActionRefused(error["message"], error["code"], error.get("param"))
    except (ValueError, KeyError, TypeError):
        return ActionRefused(f"The studio answered with {answer.status_code}.", f"http_{answer.status_code}")
