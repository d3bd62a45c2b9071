"""Comparison of the probabilities that quantized and float32 weights give to codes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.common.report import Row, log_step
from benchmarks.common.texts import sentences
from benchmarks.engine.model_parts import ModelParts
from runtime.device import quantized
from runtime.device.fused import FP8
from runtime.device.quantized import DequantizedInt8
from runtime.engine import core
from runtime.engine.execution import frame
from runtime.engine.execution.sampling import BatchSamplingParams, sample_codes
from runtime.settings import Settings

BATCH_ROWS = 8
POSITIONS = 1024
INT8_GPU = "int8-gpu"
FP8_CACHE = "fp8-cache"

Pick = Callable[[Tensor, BatchSamplingParams, Tensor | None], Tensor]


def cpu_settings(model: str, weights: str, slots: int = 1) -> Settings:
    """Return engine settings that run a checkpoint on the CPU.

    The other settings come from the environment variables.

    Args:
        model: Checkpoint.
        weights: Name of a dtype, or int8 or int4.
        slots: Number of slots.
    """
    settings = Settings.from_env()
    is_dtype = weights in ("float32", "bfloat16")
    engine = replace(
        settings.engine,
        device="cpu",
        dtype=weights if is_dtype else "auto",
        quantize="off" if is_dtype else weights,
        max_slots=slots,
        max_model_len=POSITIONS,
        guard=False,
    )
    return replace(settings, models=(model,), engine=engine)


@dataclass(slots=True)
class SampledCodes:
    """Recorded sampling steps, in order.

    Each step has the log probabilities [B, V] of a codebook and the sampled codes [B].
    """

    probabilities: list[Tensor] = field(default_factory=list)
    codes: list[Tensor] = field(default_factory=list)

    def recording(self, led_by: SampledCodes | None = None) -> Pick:
        """Return a function that replaces `sample_codes` and records the sampling steps.

        Thread: only sampling steps of the calling thread are recorded or replaced.

        Args:
            led_by: Recorded sampling steps, or None. Their codes are returned instead of newly sampled codes.
        """
        own_thread = threading.get_ident()

        def draw(scores: Tensor, level: BatchSamplingParams, noise: Tensor | None) -> Tensor:
            if threading.get_ident() != own_thread:
                return sample_codes(scores, level, noise)
            codes = sample_codes(scores, level, noise) if led_by is None else led_by.codes[len(self.codes)]
            self.probabilities.append(scores.double().log_softmax(dim=-1))
            self.codes.append(codes)
            return codes

        return draw


def record_sampled_codes(model: str, weights: str, positions: int, led_by: SampledCodes | None = None) -> SampledCodes:
    """Generate speech with one weight format, and return the recorded sampling steps.

    Args:
        model: Checkpoint.
        weights: Name of a dtype, int8, int4, `INT8_GPU` or `FP8_CACHE`.
        positions: Minimum number of frames.
        led_by: Recorded sampling steps whose codes are used instead of newly sampled codes, or None.
    """
    # Disable the native code predictor, because it does not call `sample_codes`, which is recorded here.
    with patch.object(frame, "native_predictor", lambda predictor: None):
        if weights == INT8_GPU:
            parts = _gpu_parts(model)
        elif weights == FP8_CACHE:
            with patch.object(core, "choose_cache_dtype", lambda *_: FP8):
                parts = ModelParts(cpu_settings(model, "float32", BATCH_ROWS))
        else:
            parts = ModelParts(cpu_settings(model, weights, BATCH_ROWS))
    draws = SampledCodes()
    groups = parts.core.checkpoint.config.talker.num_code_groups
    prompts = [parts.prompt(text) for text in sentences()[:BATCH_ROWS]]
    with patch.object(frame, "sample_codes", draws.recording(led_by)):
        parts.speak(prompts, -(-positions // (BATCH_ROWS * groups)))
    return draws


def _gpu_parts(model: str) -> ModelParts:
    """Load parts with bfloat16 activations and int8 weights that are multiplied as on a GPU."""
    settings = cpu_settings(model, "int8", BATCH_ROWS)
    engine = replace(settings.engine, dtype="bfloat16", sound_dtype="float32")
    with patch.object(quantized, "product_function", DequantizedInt8):
        return ModelParts(replace(settings, engine=engine))


def compare_sampled_codes(truth: SampledCodes, other: SampledCodes) -> Row:
    """Compare the probabilities of two recordings, and return their distances as a table row.

    All rows of all sampling steps are compared. Banned codes have probability 0 in both recordings and do not
    contribute.
    """
    diverged: list[Tensor] = []
    agreed: list[Tensor] = []
    for mine, theirs in zip(truth.probabilities, other.probabilities, strict=True):
        known = mine.isfinite()
        diverged.append(torch.where(known, mine.exp() * (mine - theirs), 0.0).nan_to_num(nan=0.0).sum(dim=-1))
        agreed.append((mine.argmax(dim=-1) == theirs.argmax(dim=-1)).double())
    divergence, agreement = torch.cat(diverged), torch.cat(agreed)
    return {
        "draws": len(divergence),
        "kl": round(divergence.mean().item(), 5),
        "kl_p95": round(divergence.quantile(0.95).item(), 5),
        "same_first": round(agreement.mean().item(), 4),
        "error": round((agreement.var() / len(divergence)).sqrt().item(), 4),
    }


def measure_scores(model: str, kinds: Sequence[str], positions: int) -> list[Row]:
    """Compare each weight format with float32, and return one table row per format.

    Only one checkpoint is in memory at a time.
    """
    log_step("float32")
    truth, rows = record_sampled_codes(model, "float32", positions), []
    for kind in kinds:
        log_step(kind)
        rows.append(
            {"weights": kind, **compare_sampled_codes(truth, record_sampled_codes(model, kind, positions, truth))}
        )
    return rows
