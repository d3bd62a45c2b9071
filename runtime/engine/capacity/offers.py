"""Estimated memory and speed of published checkpoints, before they are downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from runtime.device import Device, open_device
from runtime.device.open_device import choose_dtype
from runtime.engine.capacity.memory import MemoryBudget, MemoryRequirement
from runtime.engine.capacity.probe import Weights, bytes_per_weight, weights_per_frame
from runtime.engine.capacity.timing import measure_runs
from runtime.engine.capacity.weights import (
    AUTO,
    WeightsSelector,
    can_auto_quantize,
    choose_real_time_weights,
)
from runtime.model.checkpoints.checkpoint import model_networks, speech_tokenizer_networks
from runtime.model.checkpoints.files import CheckpointSource, FileChoice
from runtime.model.checkpoints.inspection import Inspection
from runtime.model.config import (
    Code2WavConfig,
    DecoderConfig,
    ModelConfig,
    SpeakerEncoderConfig,
    SpeechEncoderConfig,
    SpeechTokenizerConfig,
    TalkerConfig,
)
from runtime.published import PUBLISHED, Published
from runtime.request import Mode
from runtime.settings import EngineSettings
from runtime.shared.text.speech_rate import FRAME_S

READ_BYTES = 192 * 2**20  # Number of bytes of weights that a measurement reads, which exceeds the cache of every GPU.
MATRIX = 3072, 1024
LAUNCH_S = 1.0e-5  # Minimum time in seconds per layer on a GPU. A small layer takes as long as its kernel launches.
SOUND_ROWS, SOUND_WIDTH = 640, 768  # Dimensions of Code2Wav's largest matrix product.
CODE2WAV_FRAME_OPERATIONS = 5.2e9


@dataclass(frozen=True, slots=True)
class PrecisionEstimate:
    """Estimates for a published checkpoint with one dtype or quantization."""

    weights: str  # Value of the quantization setting: off, int8 or int4.
    memory: int  # Memory in bytes of a process that serves only this checkpoint with one slot.
    rtf: float  # Estimated compute time divided by the duration of the speech.


@dataclass(frozen=True, slots=True)
class CheckpointEstimate:
    """Estimates for a published checkpoint with each supported dtype and quantization."""

    id: str
    shared: int  # Bytes of the speech tokenizer, which all checkpoints share.
    bits: tuple[PrecisionEstimate, ...]  # Quantizations that the device supports, from the most to the least exact.
    chosen: str  # Quantization in the settings, or the most exact one that is fast enough on this machine.


@dataclass(frozen=True, slots=True)
class MachineEstimates:
    """Device memory of this machine, and estimates for all published checkpoints."""

    quantize: str  # Value of the quantization setting.
    total: int  # Total number of bytes that may be used.
    offers: tuple[CheckpointEstimate, ...]


def estimate_published_checkpoints(settings: EngineSettings) -> MachineEstimates:
    """Measure this machine, and estimate memory and speed of all published checkpoints.

    The measurement takes a few seconds in addition to the imports.

    Raises:
        SetUpError: The device does not exist or does not support the settings.
    """
    device = open_device(settings.device, eager=True)
    bits, budget = WeightsSelector(settings, device), MemoryBudget.of(device, settings)
    gpu = None if can_auto_quantize(device) else GpuSpeed.of(device, choose_dtype(settings.dtype, device))
    offers: list[CheckpointEstimate] = []
    for checkpoint in PUBLISHED:
        found = inspect_published(checkpoint)
        assert found.config is not None
        known = bits.with_quantization(found.config, bits.known)
        ladder = [(known, gpu.rtf(found.config, known))] if gpu else list(bits.real_time_factors(found.config))
        offered, shared = [], []
        for weights, rtf in ladder:
            need = MemoryRequirement.of(budget, (found, weights))
            pair = MemoryRequirement.of(budget, *[(found, weights)] * 2)
            offered.append(PrecisionEstimate(_setting_of(weights), need.with_slots(1), rtf))
            shared.append(2 * need.once - pair.once)
        chosen = _setting_of(choose_real_time_weights(ladder)) if settings.quantize == AUTO else settings.quantize
        offers.append(CheckpointEstimate(checkpoint.id, min(shared), tuple(offered), chosen))
    return MachineEstimates(settings.quantize, budget.may_have, tuple(offers))


@cache
def inspect_published(checkpoint: Published) -> Inspection:
    """Describe a published checkpoint as an `Inspection`, without reading its files.

    The configuration is the one in docs/model.md 1.2 and 1.3.
    """
    wide = 1 if checkpoint.size == "0.6B" else 2
    config = ModelConfig(
        talker=TalkerConfig(
            num_key_value_heads=8,
            head_dim=128,
            num_code_groups=16,
            hidden_size=1024 * wide,
            intermediate_size=3072 * wide,
            num_hidden_layers=28,
            text_vocab_size=151_936,
            codec_eos_token_id=2150,
        ),
        predictor=DecoderConfig(num_code_groups=16),
        speaker_encoder=SpeakerEncoderConfig(enc_dim=1024 * wide) if checkpoint.mode is Mode.BASE else None,
        modes=(checkpoint.mode,),
        takes_instruct=wide > 1,
    )
    code2wav = Code2WavConfig(codebook_dim=512, hidden_size=512, head_dim=64, intermediate_size=1024)
    speech = SpeechTokenizerConfig(code2wav=code2wav, encoder=SpeechEncoderConfig(head_dim=64))
    networks = model_networks(config) | speech_tokenizer_networks(speech)
    return Inspection(FileChoice(), {}, CheckpointSource(Path()), config, speech, networks=networks)


def _setting_of(weights: Weights) -> str:
    bits = weights[1]
    return "off" if bits in (None, "float16") else str(bits)


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """Speed of a GPU: memory reads in bytes per second, and Code2Wav operations per second."""

    reads: float
    computes: float

    @classmethod
    @torch.inference_mode()
    def of(cls, device: Device, dtype: torch.dtype) -> GpuSpeed:
        """Measure a GPU's speed as the best of several runs, because other processes may use it."""
        where, (rows, width) = device.torch_device, MATRIX
        weights = torch.zeros(READ_BYTES // (rows * width * dtype.itemsize), rows, width, dtype=dtype, device=where)
        row = torch.zeros(1, width, dtype=dtype, device=where)

        def read() -> Tensor:
            return sum((torch.nn.functional.linear(row, matrix).sum() for matrix in weights), start=row.sum())

        left = torch.zeros(SOUND_ROWS, SOUND_WIDTH, device=where)
        right = torch.zeros(SOUND_WIDTH, SOUND_WIDTH, device=where)
        reading, computing = (
            min(run.clock for run in measure_runs(work)) for work in (read, lambda: (left @ right).sum())
        )
        return cls(weights.nbytes / reading, 2 * SOUND_ROWS * SOUND_WIDTH * SOUND_WIDTH / computing)

    def rtf(self, config: ModelConfig, weights: Weights) -> float:
        """Return the estimated real-time factor: seconds of compute per second of speech.

        Decode steps (limited by memory bandwidth) and Code2Wav (limited by compute) overlap.
        """
        frame = weights_per_frame(config) * bytes_per_weight(*weights) / self.reads
        layers = config.talker.num_hidden_layers
        layers += (config.talker.num_code_groups - 1) * config.predictor.num_hidden_layers
        return round(max(frame + layers * LAUNCH_S, CODE2WAV_FRAME_OPERATIONS / self.computes) / FRAME_S, 3)
