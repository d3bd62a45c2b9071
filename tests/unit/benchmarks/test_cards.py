"""What a card holds follows from its memory: no slots where it does not fit, more where there is more room."""

from __future__ import annotations

from benchmarks.cards import GB, slots
from runtime.device.quantized import Quantization
from runtime.settings import EngineSettings


def test_a_larger_card_a_smaller_checkpoint_and_shorter_slots_each_hold_more() -> None:
    settings = EngineSettings()
    few = slots("1.7B", 1, 8 * GB, settings)
    assert slots("1.7B", 1, 6 * GB, settings) == 0
    assert 0 < few < slots("0.6B", 1, 8 * GB, settings) < slots("0.6B", 1, 12 * GB, settings)
    assert slots("1.7B", 1, 8 * GB, EngineSettings(max_model_len=2048)) > few
    assert slots("1.7B", 1, 8 * GB, settings, Quantization.INT8) > few
