"""Entry point of the voice studio: one command, one port, the page and the runtime."""

from __future__ import annotations

import asyncio
import logging
import sys

from runtime.errors import SetUpError
from runtime.shared.python_warnings import log_warnings
from runtime.shared.repeated_lines import limit_repeated_lines
from studio.server import serve
from studio.settings import StudioSettings


def main() -> int:
    """Compose settings and server; a set-up that cannot work is one sentence and exit status 2."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    log_warnings()
    limit_repeated_lines()
    try:
        return asyncio.run(serve(StudioSettings.from_command_line()))
    except SetUpError as error:
        print(f"{error} [{error.code}]", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
