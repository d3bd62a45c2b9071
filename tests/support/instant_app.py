"""Launcher of the studio, like app.py, but with a runtime that generates audio instantly.

If the environment variable INSTANT_WEB_PORT is set, all web addresses resolve to this machine. Web pages are then
requested from this port, with the certificate of the tests.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import studio.routes.documents
import studio.server
from runtime.shared.fetch import Fetcher
from studio.__main__ import main
from studio.runtimes.supervisor import ChildRuntime

CERTIFICATE = Path(__file__).parents[1] / "unit" / "shared" / "data" / "certificate.pem"
COMMAND = ("tests.support.instant_runtime", "runtime")


class InstantRuntime(ChildRuntime):
    """Child process that runs the instant runtime instead of the real runtime."""

    def __init__(self, args: Sequence[str], command: Sequence[str] = COMMAND, drain_s: float = 0.0) -> None:
        super().__init__(args, command, drain_s)


if __name__ == "__main__":
    if port := os.environ.get("INSTANT_WEB_PORT"):
        vars(studio.routes.documents)["Fetcher"] = partial(
            Fetcher,
            resolve=lambda _: ["127.0.0.1"],
            is_public=lambda _: True,
            port=int(port),
            context=ssl.create_default_context(cafile=str(CERTIFICATE)),
        )
    vars(studio.server)["ChildRuntime"] = InstantRuntime
    sys.exit(main())
