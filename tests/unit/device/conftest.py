"""Fixtures with a simulated NPU, and with small checkpoints on this NPU and on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch

from runtime.device.npu import NpuDevice
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from tests.conftest import FolderOf
from tests.support.brief import cloner, designer, limit_code2wav_graphs, speaker
from tests.support.npu_backend import NPU, register
from tests.support.torch_npu_stand_in import StandIn, install

__all__ = ["ascend", "cloner", "designer", "limit_code2wav_graphs", "npu", "npu_speaker", "speaker"]

LoadedOnNpu = Callable[..., Checkpoint]


@pytest.fixture
def ascend(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    yield install(monkeypatch)
    register(None)


@pytest.fixture
def npu(ascend: StandIn) -> NpuDevice:
    return NpuDevice()


@pytest.fixture(scope="session")
def on_npu(folder_of: FolderOf) -> LoadedOnNpu:
    """Return a function (spec, mode, dtype) that loads a checkpoint into the simulated NPU.

    Tests that use this fixture must request the fixture ``ascend`` first.
    """

    def load(spec: str, mode: str, dtype: torch.dtype = torch.float32) -> Checkpoint:
        return load_checkpoint(str(folder_of(spec, mode)), NPU, dtype)

    return cache(load)


@pytest.fixture
def npu_speaker(ascend: StandIn, on_npu: LoadedOnNpu) -> Checkpoint:
    return on_npu("brief", "custom_voice")
