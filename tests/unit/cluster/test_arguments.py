"""Tests for the accelerators of a replica pool: each replica requests one from Ray."""

from __future__ import annotations

import pytest

from runtime.cluster.arguments import Pool, check_accelerators, free_accelerators
from runtime.errors import InvalidSetting

CARDS = {"CPU": 8.0, "GPU": 2.0}
NPUS = {"CPU": 8.0, "NPU": 2.0}
NONE = {"CPU": 8.0}


def pool(**fields: object) -> Pool:
    return Pool.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "device", "counted", "gpus", "npus"),
    [
        ({}, "auto", CARDS, 1, 0),
        ({}, "cuda", CARDS, 1, 0),
        ({}, "cpu", CARDS, 0, 0),
        ({}, "npu", CARDS, 0, 0),
        ({"gpus": 0}, "auto", CARDS, 0, 0),
        ({"gpus": 0.5}, "cuda", CARDS, 0.5, 0),
        ({"gpus": 2}, "auto", NONE, 2, 0),
        ({}, "auto", NONE, 0, 0),
        ({}, "cuda", {"GPU": 0.0}, 0, 0),
        ({}, "auto", NPUS, 0, 1),
        ({}, "npu", CARDS | NPUS, 0, 1),
        ({}, "auto", CARDS | NPUS, 1, 0),
        ({}, "cuda", NPUS, 0, 0),
        ({"gpus": 0}, "auto", NPUS, 0, 0),
        ({"resources": {"NPU": 2.0}}, "auto", CARDS | NPUS, 0, 2),
        ({"resources": {"rack": 1.0}}, "auto", CARDS, 1, 0),
    ],
)
def test_replica_requests_one_accelerator_by_default_if_available(
    fields: dict[str, object], device: str, counted: dict[str, float], gpus: float, npus: float
) -> None:
    filled = pool(**fields).with_accelerators(device, counted)
    assert filled.accelerators() == {"GPU": gpus, "NPU": npus}
    assert filled.gpus == gpus
    assert filled.with_accelerators(device, counted) == filled
    assert filled.resources.items() >= pool(**fields).resources.items()


def test_free_accelerators_are_counted_over_all_replicas() -> None:
    pools = [pool(replicas=2, gpus=0.5), pool(replicas=1, gpus=0, resources={"NPU": 1.0}), pool(gpus=0)]
    assert free_accelerators(pools, CARDS | NPUS) == {"GPU": 1.0, "NPU": 1.0}
    assert free_accelerators([pool(replicas=3, gpus=1)], CARDS) == {"GPU": -1.0, "NPU": 0.0}


def test_more_replicas_than_gpus_are_refused_with_both_numbers() -> None:
    check_accelerators([pool(replicas=2, gpus=1)], CARDS)
    check_accelerators([pool(replicas=9, gpus=0)], NONE)
    with pytest.raises(InvalidSetting, match=r"Ray has 2 of GPU here, and all replicas together need 3; .*0\.5"):
        check_accelerators([pool(replicas=3, gpus=1)], CARDS)
    with pytest.raises(InvalidSetting, match="Ray has 0 of GPU"):
        check_accelerators([pool(replicas=1, gpus=1)], NONE)
