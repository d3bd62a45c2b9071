"""Devices that engines of these tests may run on."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from itertools import count
from weakref import WeakKeyDictionary

import pytest
import torch
from torch.nn import Module

from runtime.engine.execution import frame
from runtime.model.products import Linear
from tests.support import engines
from tests.support.brief import cloner, designer, few_shapes_of_sound, speaker
from tests.support.late_device import LateDevice

__all__ = ["cloner", "designer", "each_device", "few_shapes_of_sound", "quick_starts", "speaker"]


Scripted = MutableMapping[Module, tuple[Sequence[int], object]]  # with the weights it was made of
Script = Callable[[Module, torch.dtype], object]


@pytest.fixture(scope="session")
def scripted_once() -> tuple[Scripted, Scripted]:
    """What was scripted of each network, frames and steps, for as long as the network is there."""
    return WeakKeyDictionary(), WeakKeyDictionary()


def weights_of(network: Module) -> list[int]:
    """Which weights a network has: others after a test has put others in their place."""
    products = [id(module.product) for module in network.modules() if isinstance(module, Linear)]
    return [*products, *(parameter.data_ptr() for parameter in network.parameters())]


@pytest.fixture(autouse=True)
def quick_starts(
    few_shapes_of_sound: None, scripted_once: tuple[Scripted, Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices that hold graphs start soon, and engines of one checkpoint share what they script of it.

    Scripting takes longer than the rest of such an engine's start.
    """

    def shared(script: Script, scripted: Scripted) -> Script:
        def look_up(network: Module, dtype: torch.dtype) -> object:
            weights = weights_of(network)
            if network not in scripted or scripted[network][0] != weights:
                scripted[network] = weights, script(network, dtype)
            return scripted[network][1]

        return look_up

    for name, scripted in zip(("scripted_frame", "scripted_step"), scripted_once, strict=True):
        monkeypatch.setattr(frame, name, shared(getattr(frame, name), scripted))


@pytest.fixture(params=["at once", pytest.param("late", marks=pytest.mark.slow)])
def each_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on a plain CPU, and on one that does everything later; fixtures of the module stay on the first."""
    if request.param == "late":
        seeds = count()
        monkeypatch.setattr(engines, "new_device", lambda: LateDevice(next(seeds)))
