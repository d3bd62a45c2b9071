"""What a port does with WebSockets, by real sockets and an application of the test's own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from runtime.shared.port.connections import websocket
from tests.support.bare_port import Port
from tests.support.patience import PATIENCE_S, becomes

REASONS = {1008: "slow_reader", 1011: "keepalive ping timeout"}


@pytest.mark.parametrize("send_s", [1.0, PATIENCE_S])
def test_a_client_that_reads_again_hears_why_it_was_dropped(send_s: float) -> None:
    """A ping went unanswered by then; the reason stands behind what was not read, whichever limit was the first."""
    ping_s = 0.8

    async def scenario() -> None:
        at = Port(ws_ping_interval=ping_s, ws_ping_timeout=ping_s)
        at.send_s = send_s
        async with (
            at.open() as port,
            connect(f"ws://127.0.0.1:{port}/speak", compression=None, max_size=None, ping_interval=None) as deaf,
        ):
            deaf.transport.pause_reading()
            async with asyncio.timeout(PATIENCE_S):
                code = await at.told
                await asyncio.sleep(1.5 * ping_s)
                deaf.transport.resume_reading()
                with suppress(ConnectionClosed):
                    while await deaf.recv():
                        pass
            assert (deaf.close_code, deaf.close_reason) == (code, REASONS[code])

    asyncio.run(scenario())


def test_nothing_is_left_to_do_with_a_client_that_read_its_goodbye_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that would be cut is gone by then, and cutting it would be an error in the log."""
    ping_s, closing_s = 0.4, 2.0
    monkeypatch.setattr(websocket, "_CLOSING_S", closing_s)

    async def scenario() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        at = Port(ws_ping_interval=ping_s, ws_ping_timeout=ping_s)
        async with at.open() as port:
            deaf = await connect(f"ws://127.0.0.1:{port}/speak", compression=None, max_size=None, ping_interval=None)
            deaf.transport.pause_reading()
            async with asyncio.timeout(PATIENCE_S):
                await at.told
                told_at = asyncio.get_running_loop().time()
                deaf.transport.resume_reading()
                with suppress(ConnectionClosed):
                    while await deaf.recv():
                        pass
                await deaf.wait_closed()
                await becomes(lambda: not at.server.server_state.connections)
            assert asyncio.get_running_loop().time() < told_at + closing_s  # or it was cut, and this shows nothing
            await asyncio.sleep(told_at + closing_s + 0.2 - asyncio.get_running_loop().time())
        assert faults == []

    asyncio.run(scenario())
