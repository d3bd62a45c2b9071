"""Command-line entry point that starts the studio's web server and the runtime process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile

from runtime.errors import SetUpError
from runtime.shared.python_warnings import log_warnings
from runtime.shared.repeated_lines import limit_repeated_lines
from studio.server import serve
from studio.settings import StudioSettings


def main() -> int:
    """Run the studio's server and return the exit status, which is 2 for invalid settings."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    log_warnings()
    limit_repeated_lines()
    try:
        settings = StudioSettings.from_command_line()
        with tempfile.TemporaryDirectory(prefix="voicewright-", ignore_cleanup_errors=True) as folder:
            # Gradio's default folder, /tmp/gradio, is readable by other users and may belong to one of them.
            os.environ.setdefault("GRADIO_TEMP_DIR", folder)
            return asyncio.run(serve(settings))
    except SetUpError as error:
        print(f"{error} [{error.code}]", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
