"""The embedded voice's neural teacher and judges: phoneme mapping, batched norms, word counting."""

from __future__ import annotations

import importlib
import random
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
    yield {name: importlib.import_module(name) for name in ("kokoro_model", "phonemes", "speak", "text")}
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
    text = recipe["text"]
    lines = [text.fill(template, ["harbour"], random.Random(i)) for i, template in enumerate(text.EVERYDAY)]
    assert not [line for line in lines if "{" in line or "}" in line]
    assert len(set(lines)) > 50


def test_an_utterance_is_cut_and_its_labels_follow(recipe: dict[str, ModuleType]) -> None:
    """One second of silence, one of a tone under two tokens, one of silence: labels start where the tone does."""
    speak, kokoro = recipe["speak"], recipe["kokoro_model"]
    audio = torch.zeros(1, 3 * 24000)
    audio[0, 24000:48000] = 0.3 * torch.sin(torch.arange(24000) * 2 * torch.pi * 120 / 24000)
    ids, durations = torch.tensor([[0, 46, 83, 0]]), torch.tensor([[40, 20, 20, 40]])
    f0 = torch.zeros(1, 240)
    f0[0, 80:160] = 120
    out = kokoro.Spoken(audio, durations, f0, torch.tensor([120]))
    made, phones, pitch = speak.finish(out, ids, 0)
    assert len(made) % 1920 == 0
    assert len(made) == 480 * len(phones) == 480 * len(pitch)
    assert phones.tolist().count(46) == phones.tolist().count(83) == 25
    assert [int(i) for i in (phones > 0).nonzero()[0][[0, -1]]] == [int(i) for i in (pitch > 0).nonzero()[0][[0, -1]]]
    assert 4 <= (phones > 0).argmax() <= 6  # 0.1 s of lead at 50 labels per second.


def test_male_voices_keep_most_of_the_male_style(recipe: dict[str, ModuleType]) -> None:
    voices = [recipe["speak"].draw_voice(random.Random(i)) for i in range(200)]
    assert all(abs(sum(v.weights.values()) - 1) < 1e-9 for v in voices)
    assert all(v.weights["jm_kumo"] >= 0.7 for v in voices if v.gender == "male")
    assert {v.gender for v in voices} == {"female", "male"}
