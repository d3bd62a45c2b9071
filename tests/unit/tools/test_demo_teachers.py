"""Tests for training the embedded voice: phonemes, teacher and count of wrong words."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch


@pytest.mark.parametrize(
    ("ipa", "wanted"),
    [
        ("həlˈo^ʊ", "həlˈO"),
        ("d^ʒˈʌmps ˌo^ʊvɚ", "ʤˈʌmps ˌOvəɹ"),
        ("wˈɛðɚz bˈɛɾɚɹ", "wˈɛðəɹz bˈɛTəɹ"),
        ("bˈʌʔn̩ lˈɪɾə^l", "bˈʌtᵊn lˈɪTᵊl"),
        ("ɡˈɜːl", "ɡˈɜɹl"),
        ("a^ɪ sˈɛd a^ɪm lˈe^ɪt", "ˌI sˈɛd Im lˈAt"),
    ],
)
def test_ipa_maps_to_the_symbols_of_the_teacher(recipe: dict[str, ModuleType], ipa: str, wanted: str) -> None:
    phonemes = recipe["phonemes"]
    assert phonemes.symbols(ipa) == wanted
    assert all(c in phonemes.IDS for c in wanted)


def test_padding_does_not_change_an_instance_norm(recipe: dict[str, ModuleType]) -> None:
    torch.manual_seed(0)
    x, gamma, beta = torch.randn(1, 4, 9), torch.randn(1, 4, 1), torch.randn(1, 4, 1)
    padded = torch.cat((x, 7 * torch.ones(1, 4, 5)), -1)
    mask = torch.cat((torch.ones(1, 1, 9), torch.zeros(1, 1, 5)), -1)
    made = recipe["kokoro_model"].normalised(padded, gamma, beta, mask)
    torch.testing.assert_close(made[..., :9], (1 + gamma) * torch.nn.functional.instance_norm(x) + beta)
    assert not made[..., 9:].any()


def test_exported_lstm_has_the_gate_order_of_pytorch(recipe: dict[str, ModuleType]) -> None:
    """ONNX orders the gates as input, output, forget, cell.

    These gates keep the cell state at 0.
    """
    shapes = {"l.ih": (2, 1024, 3), "l.hh": (2, 1024, 256), "l.bias": (2, 2048)}
    weights = {k: torch.zeros(s) for k, s in shapes.items()}
    # With these values, the input and output gates are open, the forget gate is closed, and the cell input is 1.
    gates = torch.tensor([30.0, 30.0, -30.0, 30.0]).repeat_interleave(256)
    weights["l.bias"][:, :1024] = gates
    out, _ = recipe["kokoro_model"].lstm(weights, "l")(torch.zeros(1, 4, 3))
    torch.testing.assert_close(out, torch.full((1, 4, 512), torch.tanh(torch.tensor(1.0)).item()))


def test_everyday_sentences_have_no_unfilled_placeholders(recipe: dict[str, ModuleType]) -> None:
    text = recipe["phonemes"]
    lines = [text.fill(template, ["harbour"], random.Random(i)) for i, template in enumerate(text.EVERYDAY)]
    assert not [line for line in lines if "{" in line or "}" in line]
    assert len(set(lines)) > 50


def tone(speak: ModuleType) -> Any:
    """Return an utterance with 1 s of silence, 1 s of a 120 Hz tone, and 1 s of silence."""
    audio, f0 = np.zeros(3 * 24000, np.float32), np.zeros(240, np.float32)
    audio[24000:48000] = 0.3 * np.sin(np.arange(24000) * 2 * np.pi * 120 / 24000)
    f0[80:160] = 120
    return speak.Utterance(audio, np.array([0, 46, 83, 0]), np.array([40, 20, 20, 40]), f0)


def test_formant_shift_changes_duration_labels_and_pitch(recipe: dict[str, ModuleType]) -> None:
    made, phones, pitch = recipe["speak"].finish(tone(recipe["speak"]), 1.25)
    assert (phones > 0).sum() == pytest.approx(40, abs=1)
    assert pitch.max() == 150
    tracked = recipe["recognise"].track_f0(made.astype(np.float32) / 32768)
    assert np.median(tracked[tracked > 0]) == pytest.approx(150, rel=0.01)


def test_cutting_an_utterance_cuts_its_labels(recipe: dict[str, ModuleType]) -> None:
    """The labels start at the same time as the tone."""
    speak = recipe["speak"]
    made, phones, pitch = speak.finish(tone(speak))
    assert len(made) % 1920 == 0
    assert len(made) == 480 * len(phones) == 480 * len(pitch)
    assert phones.tolist().count(46) == phones.tolist().count(83) == 25
    assert [int(i) for i in (phones > 0).nonzero()[0][[0, -1]]] == [int(i) for i in (pitch > 0).nonzero()[0][[0, -1]]]
    assert 4 <= (phones > 0).argmax() <= 6  # The silence of 0.1 s before the tone has 5 labels at 50 per second.


def test_voices_mix_styles_of_their_gender(recipe: dict[str, ModuleType]) -> None:
    voices = [recipe["speak"].draw_voice(random.Random(i)) for i in range(300)]
    assert all(abs(sum(v.styles.values()) - 1) < 1e-9 for v in voices)
    styles = recipe["speak"].STYLES
    assert all(set(v.styles) <= set(styles[v.gender]) for v in voices)
    assert {(v.kind, v.gender) for v in voices} == {
        (k, g) for k in ("named", "styled", "mixed") for g in ("female", "male")
    }
    assert {v.speaker for v in voices if v.kind == "named"} == set(recipe["speak"].SPEAKERS)


def test_description_matches_the_voice_features(recipe: dict[str, ModuleType]) -> None:
    words = {"old": ("old", "elderly", "aged"), "bright": ("bright", "light"), "low": ("low", "deep")}
    for describe in (recipe["prompts"].design, recipe["prompts"].portrait):
        old = " ".join(describe("male", 85.0, 1.3, 0.93, random.Random(i)) for i in range(60)).lower()
        young = " ".join(describe("female", 300.0, 0.8, 1.08, random.Random(i)) for i in range(60)).lower()
        assert all(any(word in old for word in words[k]) for k in ("old", "low"))
        assert not any(f"{word} man" in young or f"{word} woman" in young for word in words["old"])
        assert any(word in young for word in words["bright"])
