"""Tests for child processes that read untrusted input."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from runtime.shared.child import run_child
from tests.support.timeouts import until


async def test_child_returns_its_output_and_status_while_its_input_is_written() -> None:
    echo = "import sys; sys.stdout.buffer.writelines(sys.stdin.buffer); sys.exit(3)"
    pieces = [b"a\n" * 10**6, b"b"]
    output, status = await run_child((sys.executable, "-c", echo), pieces, timeout_s=60, max_output_bytes=10**7)
    assert (b"".join(output), status) == (b"".join(pieces), 3)


async def test_status_is_not_zero_if_the_child_ends_after_too_much_output(monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec

    async def start_child(*args: Any, **kwargs: Any) -> asyncio.subprocess.Process:
        child = await start(*args, **kwargs)
        await asyncio.to_thread(until, lambda: child.returncode is not None)
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_child)
    command = (sys.executable, "-c", "print('x' * 1000)")
    _, status = await run_child(command, [], timeout_s=60, max_output_bytes=1000)
    assert status != 0


async def test_cancelled_call_kills_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    children: asyncio.Queue[asyncio.subprocess.Process] = asyncio.Queue()
    start = asyncio.create_subprocess_exec

    async def start_child(*args: Any, **kwargs: Any) -> asyncio.subprocess.Process:
        child = await start(*args, **kwargs)
        children.put_nowait(child)
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_child)
    command = (sys.executable, "-c", "while True: print('x' * 10**6)")
    call = asyncio.create_task(run_child(command, [bytes(10**7)], timeout_s=60, max_output_bytes=10**12))
    child = await children.get()
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert child.returncode not in (None, 0)
