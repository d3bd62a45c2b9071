"""The embedded voice's neural teacher and judges: phoneme mapping, batched norms, word counting."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

RECIPE = Path(__file__).parents[3] / "tools" / "demo_voice"


@pytest.fixture(scope="module")
def recipe() -> Iterator[dict[str, ModuleType]]:
    before = set(sys.modules)
    sys.path.insert(0, str(RECIPE))
    yield {name: importlib.import_module(name) for name in ("kokoro_model", "phonemes", "text")}
    sys.path.remove(str(RECIPE))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(RECIPE)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("ipa", "wanted"),
    [
        ("həlˈo^ʊ", "həlˈO"),
        ("d^ʒˈʌmps ˌo^ʊvɚ", "ʤˈʌmps ˌOvəɹ"),
        ("wˈɛðɚz bˈɛɾɚɹ", "wˈɛðəɹz bˈɛTəɹ"),
        ("bˈʌʔn̩ lˈɪɾə^l", "bˈʌtᵊn lˈɪTᵊl"),
        ("ɡˈɜːl", "ɡˈɜɹl"),
    ],
)
def test_ipa_becomes_the_teachers_symbols(recipe: dict[str, ModuleType], ipa: str, wanted: str) -> None:
    phonemes = recipe["phonemes"]
    assert phonemes.symbols(ipa) == wanted
    assert all(c in phonemes.IDS for c in wanted)


def test_padding_does_not_change_an_instance_norm(recipe: dict[str, ModuleType]) -> None:
    torch.manual_seed(0)
    x, gamma, beta = torch.randn(1, 4, 9), torch.randn(1, 4, 1), torch.randn(1, 4, 1)
    padded = torch.cat((x, 7 * torch.ones(1, 4, 5)), -1)
    mask = torch.cat((torch.ones(1, 1, 9), torch.zeros(1, 1, 5)), -1)
    made = recipe["kokoro_model"].normalised(padded, gamma, beta, mask, mask.sum(-1, keepdim=True))
    torch.testing.assert_close(made[..., :9], (1 + gamma) * torch.nn.functional.instance_norm(x) + beta)
    assert not made[..., 9:].any()


def test_an_lstm_of_the_export_has_pytorchs_gate_order(recipe: dict[str, ModuleType]) -> None:
    """ONNX stores input, output, forget, cell; a saturated forget gate with a closed input keeps the cell at 0."""
    shapes = {"l.ih": (2, 1024, 3), "l.hh": (2, 1024, 256), "l.bias": (2, 2048)}
    weights = {k: torch.zeros(s) for k, s in shapes.items()}
    gates = torch.tensor([30.0, 30.0, -30.0, 30.0]).repeat_interleave(256)  # input, output open, forget shut, cell 1
    weights["l.bias"][:, :1024] = gates
    out, _ = recipe["kokoro_model"].lstm(weights, "l")(torch.zeros(1, 4, 3))
    torch.testing.assert_close(out, torch.full((1, 4, 512), torch.tanh(torch.tensor(1.0)).item()))


def test_everyday_lines_have_no_open_slot(recipe: dict[str, ModuleType]) -> None:
    import random

    text = recipe["text"]
    lines = [text.fill(template, ["harbour"], random.Random(i)) for i, template in enumerate(text.EVERYDAY)]
    assert not [line for line in lines if "{" in line or "}" in line]
    assert len(set(lines)) > 50
