"""Test of the start of the studio's process."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace

import pytest

from runtime.errors import PortInUse
from runtime.shared.interpreter import SWITCH_INTERVAL_S
from studio.server import serve
from studio.settings import StudioSettings


async def test_cpu_bound_threads_do_not_starve_the_event_loop() -> None:
    usual_s = sys.getswitchinterval()
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = replace(
                StudioSettings(), host="127.0.0.1", port=taken.getsockname()[1], runtime_url="http://127.0.0.1:9"
            )
            with pytest.raises(PortInUse):
                await serve(settings)
        assert sys.getswitchinterval() == SWITCH_INTERVAL_S
    finally:
        sys.setswitchinterval(usual_s)
