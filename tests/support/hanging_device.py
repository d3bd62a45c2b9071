"""CPU device that a test can block, so that frames do not finish."""

from __future__ import annotations

import threading
from typing import Literal

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Event

# Point at which the device hangs. With "at once", the call that launches a frame blocks. With "behind", the call
# returns, but the frame never completes, as on a GPU.
Hangs = Literal["at once", "behind"]


class HangingDevice(CpuDevice):
    """CPU device whose frames do not finish between the calls of ``hang`` and ``go_on``."""

    def __init__(self, hangs: Hangs) -> None:
        super().__init__()
        self.max_in_flight = 0 if hangs == "at once" else 1
        self._hangs = hangs
        self.flows = threading.Event()
        self.go_on()

    def hang(self) -> None:
        self.flows.clear()

    def go_on(self) -> None:
        self.flows.set()

    def record_event(self) -> Event:
        if self._hangs == "at once":
            self.flows.wait()
            return super().record_event()
        return Arrival(self.flows)


class Arrival:
    """Device event that is complete if the device is not blocked by the test."""

    def __init__(self, flows: threading.Event) -> None:
        self._flows = flows

    def query(self) -> bool:
        return self._flows.is_set()

    def synchronize(self) -> None:
        self._flows.wait()
