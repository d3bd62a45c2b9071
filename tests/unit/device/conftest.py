"""torch_npu's stand-in, where a test asks for it, and checkpoints of few codes."""

from __future__ import annotations

import pytest

from runtime.device.npu import NpuDevice
from tests.support.brief import cloner, designer, few_shapes_of_sound, speaker
from tests.support.torch_npu_stand_in import StandIn, install

__all__ = ["ascend", "cloner", "designer", "few_shapes_of_sound", "npu", "speaker"]


@pytest.fixture
def ascend(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return install(monkeypatch)


@pytest.fixture
def npu(ascend: StandIn) -> NpuDevice:
    return NpuDevice()
