"""What a port does with HTTP connections, by real sockets and an application of the test's own."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from tests.support.bare_port import PIECES, Port, ask
from tests.support.patience import PATIENCE_S


def test_an_old_client_gets_no_chunks_and_a_new_one_does() -> None:
    async def scenario() -> None:
        async with Port().open() as port:
            head, _, body = (await ask(port, "/stream", "1.0")).partition(b"\r\n\r\n")
            assert body == b"".join(PIECES)
            assert b"chunked" not in head.lower()
            assert b"connection: close" in head.lower()
            head, _, body = (await ask(port, "/whole", "1.0")).partition(b"\r\n\r\n")
            assert (b"content-length: 5" in head.lower(), body) == (True, b"whole")
            head, _, body = (await ask(port, "/stream")).partition(b"\r\n\r\n")
            assert b"chunked" in head.lower()
            assert body.endswith(b"0\r\n\r\n")

    asyncio.run(scenario())


@pytest.mark.logs_errors
def test_an_old_client_does_not_take_a_part_for_the_whole() -> None:
    async def scenario() -> None:
        async with Port().open() as port:
            with pytest.raises(ConnectionResetError):
                await ask(port, "/broken", "1.0")

    asyncio.run(scenario())


def test_who_waited_longest_makes_room_and_who_is_served_does_not() -> None:
    async def scenario() -> None:
        at = Port(most=2)
        async with at.open() as port:
            served = asyncio.create_task(ask(port, "/wait"))
            await at.begun.wait()
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            async with asyncio.timeout(PATIENCE_S):
                for reader, _ in silent[:2]:
                    with suppress(ConnectionResetError):
                        assert await reader.read() == b""
            assert b"whole" in await ask(port, "/whole")
            at.leave.set()
            assert b"done" in await served
            for _, writer in silent:
                writer.close()

    asyncio.run(scenario())


def test_where_all_are_served_the_next_is_told_so() -> None:
    async def scenario() -> None:
        at = Port(most=1)
        async with at.open() as port:
            served = asyncio.create_task(ask(port, "/wait"))
            await at.begun.wait()
            head, _, body = (await ask(port, "/whole")).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in head
            assert json.loads(body)["error"]["code"] == "too_many_connections"
            at.leave.set()
            assert b"done" in await served

    asyncio.run(scenario())
