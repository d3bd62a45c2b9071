"""Tests for the sampling kernel, on a GPU or in Triton's interpreter.

The PyTorch sampler is in runtime/engine/execution/sampling.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from runtime.device.fused import EmbeddingLookup, SampleOutput, SamplingRules
from runtime.device.kernels.sample import sample
from tests.support.kernel_references import DEVICE, Slots, draw_reference, interpreted

pytestmark = pytest.mark.slow

GROUPS, WIDTH = 16, 20
SEEDS = 40  # Number of samples, with which a code of probability 0.2 is missed once in 7,000 runs.


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator).to(DEVICE)


def all_rows(count: int) -> Tensor:
    return torch.arange(count, device=DEVICE)


def drawn(
    logits: Tensor,
    rows: Tensor,
    slots: Slots,
    codebook: int,
    rules: SamplingRules | None = None,
    *,
    inputs_ready: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the sampled codes of the kernel, and for each row, True if its scores are finite.

    All other outputs of the kernel are checked in this function.
    """
    codes = torch.full((len(rows), GROUPS), -7, device=DEVICE)
    finite = torch.zeros(len(rows), GROUPS, dtype=torch.bool, device=DEVICE)
    table = torch.arange(logits.shape[1], dtype=torch.float32, device=DEVICE)[:, None].repeat(1, WIDTH)
    embedded = torch.full((len(rows), 2, WIDTH), -7.0, device=DEVICE)
    lookup = EmbeddingLookup(table, embedded[:, 1])
    sample(logits, rows, slots.state, codebook, SampleOutput(codes, finite), rules, lookup, inputs_ready=inputs_ready)
    result = codes[:, codebook]
    assert torch.equal(embedded[:, 1], table[result])
    assert (embedded[:, 0] == -7).all()
    assert (torch.cat((codes[:, :codebook], codes[:, codebook + 1 :]), dim=1) == -7).all()
    assert not torch.cat((finite[:, :codebook], finite[:, codebook + 1 :]), dim=1).any()
    return result, finite[:, codebook]


def settings(slots: int, width: int, **kwargs: float) -> Slots:
    """Return sampling parameters that are equal in every slot, except for the seeds."""
    plain = {"temperature": 1.0, "top_k": width, "top_p": 1.0, "greedy": False, "frame": 3, "penalty": 1.0} | kwargs
    known = Slots.random(torch.Generator().manual_seed(0), slots, width)
    return replace(known, **{name: torch.full_like(getattr(known, name), word) for name, word in plain.items()})


@interpreted
@pytest.mark.parametrize("ties", [False, True], ids=["no-ties", "ties"])
@pytest.mark.parametrize("seed", range(12))
def test_codes_equal_the_pytorch_reference_for_all_settings(seed: int, ties: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    width = [5, 64, 300, 1000][seed % 4]
    slots = Slots.random(generator, 12, width)
    rows = torch.randperm(12, generator=generator)[:10].to(DEVICE)
    logits = normal(generator, 10, width) * [0.01, 1.0, 8.0][seed % 3]
    logits = (2 * logits).round() / 2 if ties else logits
    codes, finite = drawn(logits, rows, slots, seed % GROUPS)
    assert codes.tolist() == draw_reference(logits, rows, slots, seed % GROUPS, None).tolist()
    assert finite.all()


@interpreted
@pytest.mark.parametrize("seed", range(8))
def test_talker_rules_equal_the_pytorch_reference(seed: int) -> None:
    generator = torch.Generator().manual_seed(100 + seed)
    width, eos = 300, 150
    slots = Slots.random(generator, 12, width)
    rules = slots.rules(min_frames=2, eos=eos, codes=128)
    rows = torch.randperm(12, generator=generator)[:10].to(DEVICE)
    logits = 2 * normal(generator, 10, width)
    logits[:, 128:] += 9.0  # Codes that the rules exclude are the most probable codes.
    logits[5:, eos] = 12.0  # EOS is also very probable, and the rules suppress it in some rows only.
    codes, _ = drawn(logits, rows, slots, 0, rules)
    assert codes.tolist() == draw_reference(logits, rows, slots, 0, rules).tolist()
    assert ((codes < 128) | (codes == eos)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("width", "with_rules"), [(2048, False), (3072, True)])
@pytest.mark.parametrize("seed", range(10 if DEVICE == "cuda" else 1))
def test_codes_of_published_vocabulary_sizes_equal_the_pytorch_reference(
    seed: int, width: int, with_rules: bool, dtype: torch.dtype
) -> None:
    generator, count = torch.Generator().manual_seed(seed), 64 if DEVICE == "cuda" else 8
    slots = Slots.random(generator, count, width)
    rules = slots.rules(min_frames=2, eos=2150, codes=2048) if with_rules else None
    logits = (normal(generator, count, width) * [4.0, 0.01, 1.0][seed % 3]).to(dtype)
    rows, codebook = all_rows(count).flip(0), 0 if with_rules else 1 + seed
    for inputs_ready in (False, True):
        codes, finite = drawn(logits, rows, slots, codebook, rules, inputs_ready=inputs_ready)
        assert codes.tolist() == draw_reference(logits, rows, slots, codebook, rules).tolist()
        assert finite.all()


def test_sampling_is_batch_invariant() -> None:
    generator, count = torch.Generator().manual_seed(3), 64 if DEVICE == "cuda" else 8
    slots = Slots.random(generator, count, 2048)
    logits = (3 * normal(generator, count, 2048)).to(torch.bfloat16)
    rows = torch.randperm(count, generator=generator).to(DEVICE)
    together, _ = drawn(logits, rows, slots, 5)
    for some in (size for size in (1, 2, 3, 7, 16, 33, 64) if size <= count):
        assert torch.equal(drawn(logits[-some:], rows[-some:].clone(), slots, 5)[0], together[-some:]), some


@interpreted
def test_exactly_the_codes_within_top_k_can_be_drawn() -> None:
    """Codes that tie with the k-th logit can be sampled, but codes with lower logits cannot."""
    logits = torch.tensor([1.0, 0.5, 0.75, 0.75, 0.75, 0.25], device=DEVICE).expand(SEEDS, -1).contiguous()
    slots = replace(settings(SEEDS, 6, top_k=2), seed=all_rows(SEEDS))
    codes, _ = drawn(logits, all_rows(SEEDS), slots, 1)
    assert set(codes.tolist()) == {0, 2, 3, 4}


@interpreted
def test_tied_probabilities_are_kept_or_dropped_together_by_top_p() -> None:
    """Three codes with probability 0.2 each are kept at top_p 0.5 and dropped at 0.3."""
    logits = torch.tensor([0.4, 0.2, 0.2, 0.2], device=DEVICE).log().expand(SEEDS, -1).contiguous()
    for p, kept in ((0.5, {0, 1, 2, 3}), (0.3, {0})):
        slots = replace(settings(SEEDS, 4, top_p=p), seed=all_rows(SEEDS))
        assert set(drawn(logits, all_rows(SEEDS), slots, 2)[0].tolist()) == kept
        assert set(draw_reference(logits, all_rows(SEEDS), slots, 2, None).tolist()) == kept


@interpreted
def test_greedy_sampling_takes_the_first_maximum() -> None:
    logits = torch.zeros(2, 100, device=DEVICE)
    logits[0, [40, 70]] = 3.0
    logits[1] = -0.0
    logits[1, 50:] = 0.0
    assert drawn(logits, all_rows(2), settings(2, 100, greedy=True), 3)[0].tolist() == [40, 0]


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("with_rules", [False, True])
def test_non_finite_logits_are_reported_and_do_not_affect_other_rows(greedy: bool, with_rules: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    slots = settings(6, 200, greedy=greedy, top_k=20, top_p=0.7)
    rules = slots.rules(min_frames=2, eos=150, codes=128) if with_rules else None
    logits = normal(generator, 6, 200)
    healthy, _ = drawn(logits, all_rows(6), slots, 0, rules)
    logits[1] = torch.nan
    logits[2, 7] = torch.nan
    logits[3, 8] = torch.inf
    logits[4, 9] = -torch.inf
    codes, finite = drawn(logits, all_rows(6), slots, 0, rules)
    assert finite.tolist() == [True, False, False, False, False, True]
    assert ((codes >= 0) & (codes < 200)).all()
    assert codes[[0, 5]].tolist() == healthy[[0, 5]].tolist()


@interpreted
@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered")
def test_invalid_settings_of_padding_rows_still_give_a_valid_code() -> None:
    """The slot of a padding row may contain any values."""
    slots = settings(6, 50)
    slots.temperature[:] = torch.tensor([0.0, torch.nan, -1.0, torch.inf, 1.0, 1.0])
    slots.top_k[:] = torch.tensor([0, -5, 2**40, 3, 3, 3])
    slots.top_p[:] = torch.tensor([1.0, 0.5, torch.nan, 0.0, -1.0, 0.5])
    logits = normal(torch.Generator().manual_seed(1), 6, 50)
    codes, _ = drawn(logits, all_rows(6), slots, 0)
    assert ((codes >= 0) & (codes < 50)).all()
