"""What a card holds follows from its memory: no slots where it does not fit, more where there is more room."""

from __future__ import annotations

import pytest

from benchmarks.cards import GB, slots
from runtime.device.quantized import Quantization
from runtime.settings import EngineSettings


def test_a_larger_card_a_smaller_checkpoint_and_shorter_slots_each_hold_more() -> None:
    settings = EngineSettings()
    few = slots("1.7B", 1, 12 * GB, settings)
    assert 0 < few < slots("0.6B", 1, 12 * GB, settings) < slots("0.6B", 1, 16 * GB, settings)
    assert slots("1.7B", 1, 12 * GB, EngineSettings(max_model_len=2048)) > few
    assert slots("1.7B", 1, 12 * GB, settings, Quantization.INT8) > few


@pytest.mark.parametrize(
    ("size", "modes", "card", "kind", "measured"),
    [
        ("1.7B", 1, 24, None, 29),
        ("1.7B", 1, 16, Quantization.INT8, 17),
        ("0.6B", 2, 12, None, 3),
        ("0.6B", 1, 8, Quantization.INT8, 5),
        ("1.7B", 1, 8, None, 0),
    ],
)
def test_what_is_reckoned_is_a_slot_at_most_from_what_was_measured(
    size: str, modes: int, card: int, kind: Quantization | None, measured: int
) -> None:
    """On a share of an H200: docs/performance.md."""
    assert abs(slots(size, modes, card * GB, EngineSettings(), kind) - measured) <= 1
