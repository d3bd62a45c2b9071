"""Runtime with faults that a test triggers by signals.

SIGUSR1 blocks the device, and SIGUSR2 changes the weights.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from runtime.cli import main
from runtime.device import Device
from runtime.engine import engine
from tests.support.hanging_device import HangingDevice

DEVICE = HangingDevice("at once")
OPENED: list[engine.Engine] = []


class TrackedEngine(engine.Engine):
    """Engine that adds itself to the list `OPENED`, which the signal handlers use."""

    def __init__(self, *arguments: object, **kwargs: object) -> None:
        super().__init__(*arguments, **kwargs)  # type: ignore[arg-type]
        OPENED.append(self)


def turn_head(opened: engine.Engine) -> None:
    """Negate the weights of the talker's codec head in place, to simulate memory corruption."""
    for core in opened.registry.cores:
        core.checkpoint.talker.codec_head.weight.data.neg_()


def turn_heads() -> None:
    for opened in OPENED:
        turn_head(opened)


def on(number: signal.Signals, do: Callable[[], None]) -> None:
    signal.signal(number, lambda *_: do())


def open_device(name: str, *, eager: bool = False) -> Device:
    return DEVICE


if __name__ == "__main__":
    # The engine must run in this process, in which its class is patched.
    os.environ.setdefault("VOICEWRIGHT_ENGINE_PROCESS", "shared")
    vars(engine).update(Engine=TrackedEngine, open_device=open_device)
    on(signal.SIGUSR1, DEVICE.hang)
    on(signal.SIGUSR2, turn_heads)
    sys.exit(main())
