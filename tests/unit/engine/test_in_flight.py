"""Test for the results of launches whose request has ended."""

from __future__ import annotations

import numpy as np
import torch

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Stream
from runtime.engine.execution.model_runner import FrameResult
from runtime.engine.execution.prompt import Prompt
from runtime.engine.scheduling.in_flight import InFlight
from tests.support.engines import VirtualClock
from tests.support.frames import launched


def test_first_frame_of_a_cancelled_request_is_not_measured_as_a_decode_step() -> None:
    in_flight, slots = InFlight(2, 1, lambda *_: None, VirtualClock()), np.array([0])
    result = FrameResult(np.zeros((1, 4), np.int64), np.array([False]), np.array([True]))
    frame = launched(slots, result, CpuDevice())
    in_flight.add_launch(Stream.PROMPTS, slots, frame.event, frame, [Prompt(torch.zeros(3, 8), [])])
    in_flight.discard_launches(0)
    (output,) = in_flight.outputs()
    assert output.is_prefill
    assert (len(output.slots), output.prompts) == (0, [])
    assert not in_flight.is_prefilling
