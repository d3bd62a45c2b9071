"""Tests for the limits of JSON bodies of the speech routes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request

from runtime.errors import InvalidMessage
from runtime.server.http.speech import read_fields
from runtime.settings import Settings


async def test_body_with_too_many_values_is_refused_before_it_is_parsed() -> None:
    body = b'{"ref_audio": "", "speaker_embedding": [' + b"1," * 2**17 + b"1]}"

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    with ThreadPoolExecutor(1) as decoders:
        host: Any = SimpleNamespace(settings=Settings(), decoders=decoders)
        with pytest.raises(InvalidMessage, match="more than 131072 values"):
            await read_fields(Request({"type": "http", "headers": []}, receive), host)
