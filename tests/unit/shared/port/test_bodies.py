"""Tests for compressed, too large, stalled and slow request bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers

from runtime.errors import BodyTooSlow, MessageTooLarge, SessionIdle, SpeechError, UnsupportedEncoding
from runtime.shared.port import limits
from runtime.shared.port.limits import bounded


async def sent(pieces: list[bytes], pause_s: float = 0.0) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(pause_s)
        yield piece


def read(
    pieces: list[bytes], headers: dict[str, str] | None = None, *, pause_s: float = 0.0, idle_s: float = 5.0
) -> bytes:
    async def run() -> bytes:
        found = bounded(sent(pieces, pause_s), Headers(headers or {}), max_bytes=10, idle_s=idle_s)
        return b"".join([piece async for piece in found])

    return asyncio.run(run())


@pytest.mark.parametrize("encoding", ["identity", "Identity ", ""])
def test_complete_body_is_received(encoding: str) -> None:
    assert read([b"12345", b"", b"67890"], {"content-length": "10", "content-encoding": encoding}) == b"1234567890"


@pytest.mark.parametrize(
    ("pieces", "headers", "error"),
    [
        *(([b"x"], {"content-encoding": name}, UnsupportedEncoding) for name in ("gzip", "br", "deflate, gzip")),
        ([], {"content-length": "11"}, MessageTooLarge),
        ([], {"content-length": "9" * 5000}, MessageTooLarge),
        ([b"123456", b"12345"], {}, MessageTooLarge),
        ([b"123456", b"12345"], {"content-length": "-5"}, MessageTooLarge),
    ],
)
def test_unacceptable_body_is_refused(pieces: list[bytes], headers: dict[str, str], error: type[SpeechError]) -> None:
    with pytest.raises(error):
        read(pieces, headers)


def test_stalled_body_times_out() -> None:
    with pytest.raises(SessionIdle):
        read([b"1", b"2"], pause_s=0.5, idle_s=0.05)


def test_slow_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 0.2)
    with pytest.raises(BodyTooSlow):
        read([b"1"] * 10, pause_s=0.05)
    monkeypatch.setattr(limits, "GRACE_S", 60.0)
    assert read([b"1"] * 10, pause_s=0.05) == b"1" * 10
