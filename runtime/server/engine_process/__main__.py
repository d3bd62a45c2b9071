"""Entry point of the engine process, which `EngineClient` starts.

Messages arrive on standard input and are sent on standard output. This process ends when the server process ends, even
while checkpoints are being loaded or while the device does not respond.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import select
import signal
import sys
import threading
from typing import NoReturn

from runtime.errors import SpeechError
from runtime.exits import Exit
from runtime.server import logs
from runtime.server.engine_process.channel import Channel
from runtime.server.engine_process.messages import NotOpened, Open, Step
from runtime.server.engine_process.service import EngineService
from runtime.shared.interpreter import pause_collection, settle, switch_often
from runtime.shared.python_warnings import log_warnings

log = logging.getLogger(__name__)

_FLUSH_TIMEOUT_S = 5.0  # Timeout in seconds for sending the last messages.


def main() -> int:
    """Load the checkpoints, serve until a close command, and return the exit status."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # The output of libraries is redirected to stderr, because stdout carries the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # These signals are ignored, because a service manager may send them to both processes. The server process then ends
    # this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "SIGUSR1"):
        # The signal handler works even if a thread holds the GIL.
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    if hasattr(select, "poll"):
        threading.Thread(target=_end_with_the_server, name="engine-lifeline", daemon=True).start()
    pause_collection()
    switch_often()
    channel = Channel(sys.stdin.buffer, sink)
    first = channel.receive()
    assert isinstance(first, Open)
    settings = first.settings
    logging.basicConfig(level=first.log_level)
    log_warnings(is_verbose=first.log_level < logging.WARNING)
    logs.configure_logging(settings.server)
    try:
        from runtime.engine.engine import Engine  # This import takes seconds and may print.

        engine = Engine.open(settings, lambda loaded, of, step: channel.send(Step(loaded, of, step)))
    except Exception as failure:
        error = failure if isinstance(failure, SpeechError) else None
        if error is None:
            log.exception("the engine could not be started")
        channel.send(NotOpened(error))
        channel.close(_FLUSH_TIMEOUT_S)
        return 1
    service = EngineService(engine, channel)
    service.send_status()
    settle()
    service.run()
    channel.close(_FLUSH_TIMEOUT_S)
    return 0


def run() -> NoReturn:
    """Run `main` and exit with its status, even if threads hang."""
    status = main()
    logging.shutdown()
    os._exit(status)  # The process must end even if a thread waits for the device forever.


def _end_with_the_server() -> NoReturn:
    """Wait until the server process closes standard input, then exit (not on Windows)."""
    pipe = select.poll()
    pipe.register(sys.stdin.fileno(), 0)  # `poll` reports a hang-up even if no event is requested.
    pipe.poll()
    os._exit(Exit.ASKED)


if __name__ == "__main__":
    run()
