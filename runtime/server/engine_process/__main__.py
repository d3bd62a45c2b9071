"""Runs the engine's process: `python -m runtime.server.engine_process`, which `EngineClient` starts.

Standard input and output are the channel. The process ends when the server's does, whatever ended that.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys

from runtime.engine.engine import Engine
from runtime.errors import SpeechError
from runtime.server import logs
from runtime.server.engine_process.channel import Channel
from runtime.server.engine_process.messages import NotOpened, Open, Step
from runtime.server.engine_process.service import EngineService
from runtime.server.interpreter import settle, switch_often

log = logging.getLogger(__name__)

_LAST_WORDS_S = 5.0  # for what is still to be sent


def main() -> int:
    """Load, serve until told to end, and return the exit status."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints would spoil the channel
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C goes to both processes; the server's ends this one in order
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)  # even where one of them holds the interpreter
    switch_often()
    channel = Channel(sys.stdin.buffer, sink)
    first = channel.receive()
    assert isinstance(first, Open)
    settings = first.settings
    logging.basicConfig(level=first.log_level)
    logs.set_up(settings.server)
    try:
        engine = Engine.open(settings, lambda loaded, of, step: channel.send(Step(loaded, of, step)))
    except Exception as failure:
        error = failure if isinstance(failure, SpeechError) else None
        if error is None:
            log.exception("the engine could not be opened")
        channel.send(NotOpened(error))
        channel.close(_LAST_WORDS_S)
        return 1
    service = EngineService(engine, channel)
    service.tell_status()
    settle()
    service.run()
    channel.close(_LAST_WORDS_S)
    return 0


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    os._exit(status)  # a thread that hangs in the device must not keep the process
