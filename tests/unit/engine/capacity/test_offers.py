"""Tests for the estimates for published checkpoints before their download."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from runtime.device.quantized import Quantization
from runtime.engine.capacity import offers
from runtime.engine.capacity.memory import PROCESS_BYTES
from runtime.engine.capacity.offers import GpuSpeed, estimate_published_checkpoints, inspect_published
from runtime.engine.capacity.probe import Probe
from runtime.model.checkpoints.inspection import inspect_folder
from runtime.model.config import ModelConfig
from runtime.published import PUBLISHED, SPEECH_TOKENIZER_BYTES, Published
from runtime.settings import EngineSettings
from tests.unit.model.published import DATA, write_configs


@pytest.mark.parametrize("checkpoint", PUBLISHED, ids=lambda checkpoint: checkpoint.id)
def test_built_in_configuration_equals_the_published_configuration(checkpoint: Published, tmp_path: Path) -> None:
    write_configs(tmp_path, f"{checkpoint.size}-{checkpoint.kind}")
    (tmp_path / "speech_tokenizer").mkdir()
    shutil.copy(DATA / "config_speech_tokenizer.json", tmp_path / "speech_tokenizer" / "config.json")
    own, published = inspect_published(checkpoint), inspect_folder(tmp_path)
    assert own.networks.keys() == published.networks.keys()
    for prefix, network in own.networks.items():
        theirs = published.networks[prefix].state_dict()
        assert {name: part.shape for name, part in network.state_dict().items()} == {
            name: part.shape for name, part in theirs.items()
        }
    sizes = {prefix: sum(part.numel() for part in network.parameters()) for prefix, network in own.networks.items()}
    assert sum(sizes[prefix] for prefix in sizes if prefix in ("talker.", "speaker_encoder.")) == checkpoint.parameters


def test_estimate_has_memory_and_speed_for_each_quantization(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = {None: 3.0, Quantization.FLOAT16: 3.0, Quantization.INT8: 1.5, Quantization.INT4: 0.5}
    monkeypatch.setattr(Probe, "rtf", lambda probe, config, weights: speeds[weights[1]])
    machine = estimate_published_checkpoints(EngineSettings(device="cpu"))
    assert json.loads(json.dumps(asdict(machine)))["quantize"] == "auto"
    assert [offer.id for offer in machine.offers] == [checkpoint.id for checkpoint in PUBLISHED]
    for offer, checkpoint in zip(machine.offers, PUBLISHED, strict=True):
        assert [(bits.weights, bits.rtf) for bits in offer.bits] == [("off", 3.0), ("int8", 1.5), ("int4", 0.5)]
        assert offer.chosen == "int4"
        off, eight, four = (bits.memory for bits in offer.bits)
        assert checkpoint.parameters < off < 5 * checkpoint.parameters + 4 * PROCESS_BYTES
        assert four < eight < off
        assert PROCESS_BYTES + SPEECH_TOKENIZER_BYTES / 2 < offer.shared <= PROCESS_BYTES + SPEECH_TOKENIZER_BYTES
    assert {
        offer.chosen for offer in estimate_published_checkpoints(EngineSettings(device="cpu", quantize="int8")).offers
    } == {"int8"}


def test_int8_on_gpu_halves_the_read_time() -> None:
    config, speed = inspect_published(PUBLISHED[0]).config, GpuSpeed(reads=1e9, computes=1e30)
    assert isinstance(config, ModelConfig)
    half, whole = (speed.rtf(config, (torch.bfloat16, kind)) for kind in (Quantization.INT8, None))
    assert half == pytest.approx(whole / 2, rel=0.05)


def test_device_without_quantization_has_one_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "can_auto_quantize", lambda device: False)
    monkeypatch.setattr(offers, "READ_BYTES", 3072 * 1024 * 4)
    machine = estimate_published_checkpoints(EngineSettings(device="cpu", dtype="float32"))
    assert [[bits.weights for bits in offer.bits] for offer in machine.offers] == [["off"]] * len(PUBLISHED)
    assert all(offer.chosen == "off" and offer.bits[0].rtf > 0 for offer in machine.offers)
