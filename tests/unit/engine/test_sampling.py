"""Tests for sampling: distribution of codes, and independent noise for each request.

The sampling rules are in docs/model.md 4.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from runtime.engine.execution.sampling import BatchSamplingParams, apply_talker_rules, gumbel_noise, sample_codes
from runtime.engine.execution.slots import UNLIMITED_FRAMES, NetworkSamplingParams, merge_sampling_defaults
from runtime.model.config import GenerationDefaults
from runtime.request import Sampling
from tests.golden.stored import DATA, arrays

# All seeds are fixed, so each test always passes or always fails. The false-alarm rate is the probability that a
# correct sampler fails with random seeds.
FALSE_ALARM_Z = 3.719  # Quantile of the standard normal distribution for a false-alarm rate of 1e-4.
DRAWS = 20_000
FEWEST = 10  # Minimum expected number of samples of a code that forms its own class in the G-test.

SETTINGS: list[dict[str, Any]] = json.loads((DATA / "sampling.json").read_text(encoding="utf-8"))
TRUTH = arrays("sampling")
VOCAB, CODES, EOS = 1088, 64, 166
# Value of `eos_banned_until` for rows in which EOS is allowed from the first frame.
AT_ONCE = torch.zeros(1, dtype=torch.int64)

per_setting = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting["name"])


def level(rows: int, **kwargs: Any) -> BatchSamplingParams:
    """Return sampling settings of the talker or the code predictor, equal for every row."""
    given = {"temperature": 1.0, "top_k": VOCAB, "top_p": 1.0, "greedy": False, **kwargs}
    return BatchSamplingParams(
        temperature=torch.full((rows,), given["temperature"]),
        top_k=torch.full((rows,), given["top_k"]),
        top_p=torch.full((rows,), given["top_p"]),
        greedy=torch.full((rows,), given["greedy"]),
        widest_k=given["top_k"],
        any_top_p=given["top_p"] < 1,
    )


def rules(setting: dict[str, Any], rows: int) -> Tensor:
    """Return the scores of a stored test case after the talker's rules, repeated for each row."""
    logits = torch.from_numpy(TRUTH[f"{setting['name']}_logits"]).expand(rows, -1)
    history = torch.from_numpy(TRUTH[f"{setting['name']}_history"])
    seen = torch.zeros(VOCAB, dtype=torch.bool)
    seen[history] = True
    allowed = torch.arange(VOCAB) < VOCAB - 1024
    allowed[EOS] = True
    penalty = torch.full((rows,), setting["repetition_penalty"])
    made = torch.full((rows,), len(history))
    return apply_talker_rules(logits, seen.expand(rows, -1), penalty, made, AT_ONCE, allowed, EOS)


def noise_of(seeds: Tensor, frame: int = 0, codebook: int = 0, width: int = VOCAB) -> Tensor:
    """Return the noise of one codebook for many seeds.

    Shapes: seeds [n]; result [n, width].
    """
    frames = torch.full_like(seeds, frame)
    return torch.cat(
        [
            gumbel_noise(some, frame_of, codebook + 1, width)[:, codebook]
            for some, frame_of in zip(seeds.split(2000), frames.split(2000), strict=True)
        ]
    )


def chi_square_bound(freedom: int) -> float:
    """Return the chi-square quantile for the tests' false-alarm rate.

    The approximation of Wilson and Hilferty has an error of at most 1 % from 5 degrees of freedom.
    """
    share = 2 / (9 * freedom)
    return freedom * (1 - share + FALSE_ALARM_Z * share**0.5) ** 3


def assert_follows(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Check counts of sampled codes against exact probabilities, with a G-test.

    Codes with probability 0 must not occur.
    """
    assert counts[probabilities == 0].sum() == 0
    expected = probabilities * counts.sum()
    alone = expected >= FEWEST
    observed, wanted = counts[alone].astype(float), expected[alone]
    if (~alone).any() and expected[~alone].sum() > 0:
        observed, wanted = np.append(observed, counts[~alone].sum()), np.append(wanted, expected[~alone].sum())
    terms = np.where(observed > 0, observed * np.log(np.where(observed > 0, observed, 1) / wanted), 0.0)
    statistic, freedom = 2 * terms.sum(), len(wanted) - 1
    if freedom:
        assert statistic < chi_square_bound(freedom), (statistic, freedom)


@pytest.fixture(scope="module")
def seeded_noise() -> Tensor:
    """Return the sampling noise of `DRAWS` different seeds.

    Shapes: [DRAWS, VOCAB].
    """
    return noise_of(torch.arange(DRAWS) + 1_000_000)


@pytest.mark.quick("default", "strong_penalty")
@pytest.mark.slow
@per_setting
def test_sampled_codes_equal_the_reference_implementation(setting: dict[str, Any], seeded_noise: Tensor) -> None:
    """The expected probabilities are those of the reference's logits processors."""
    scores = rules(setting, DRAWS)
    top_k = setting["top_k"] or VOCAB
    words = level(DRAWS, temperature=setting["temperature"], top_k=top_k, top_p=setting["top_p"])
    drawn = sample_codes(scores, words, seeded_noise)
    assert_follows(np.bincount(drawn.numpy(), minlength=VOCAB), TRUTH[f"{setting['name']}_probabilities"])


@per_setting
def test_candidate_codes_equal_the_reference_implementation(setting: dict[str, Any]) -> None:
    """With noise that favours one code, each allowed code is sampled, and no other code."""
    probabilities = TRUTH[f"{setting['name']}_probabilities"]
    top_k = setting["top_k"] or VOCAB
    words = level(VOCAB, temperature=setting["temperature"], top_k=top_k, top_p=setting["top_p"])
    drawn = sample_codes(rules(setting, VOCAB), words, 1e6 * torch.eye(VOCAB))
    chosen = (drawn == torch.arange(VOCAB)).numpy()
    assert np.array_equal(chosen, probabilities > 0)


def test_comparison_with_the_reference_implementation_detects_a_wrong_temperature(seeded_noise: Tensor) -> None:
    (setting,) = (setting for setting in SETTINGS if setting["name"] == "default")
    words = level(DRAWS, temperature=setting["temperature"] * 1.1, top_k=setting["top_k"])
    drawn = sample_codes(rules(setting, DRAWS), words, seeded_noise)
    with pytest.raises(AssertionError):
        assert_follows(np.bincount(drawn.numpy(), minlength=VOCAB), TRUTH["default_probabilities"])


def uniform(noise: Tensor) -> np.ndarray:
    """Convert Gumbel noise back to uniformly distributed numbers."""
    return torch.exp(-torch.exp(-noise.double())).numpy()


def test_noise_is_uniform() -> None:
    values = uniform(noise_of(torch.arange(500), width=200)).ravel()
    assert 0 < values.min() < values.max() < 1
    counts = np.histogram(values, bins=100, range=(0, 1))[0]
    assert_follows(counts, np.full(100, 0.01))


@pytest.mark.parametrize("seeds", [(0, 1), (0, 2**32), (1, 2**32 + 1), (2**53, 2**53 + 1), (2**63 - 2, 2**63 - 1)])
def test_noise_of_different_seeds_is_independent(seeds: tuple[int, int]) -> None:
    left, right = (uniform(gumbel_noise(torch.tensor([seed]), torch.tensor([3]), 16, 3072))[0] for seed in seeds)
    assert_unrelated(left, right)


def test_noise_of_different_frames_and_codebooks_is_independent() -> None:
    seed = torch.tensor([12345])
    frames = [uniform(gumbel_noise(seed, torch.tensor([frame]), 16, 3072))[0] for frame in (0, 1, 2, 1000)]
    for left, other in ((0, 1), (1, 2), (0, 3)):
        assert_unrelated(frames[left], frames[other])
    for left, other in ((0, 1), (1, 2), (0, 15)):
        assert_unrelated(frames[0][left], frames[0][other])
    assert_unrelated(frames[1][:-1], frames[0][1:])
    assert_unrelated(frames[0][:, :-1], frames[0][:, 1:])


def test_seed_and_frame_are_not_interchangeable() -> None:
    """Seed s at frame f + 1 and seed s + 1 at frame f must have different noise."""

    def at(seed: int, frame: int) -> np.ndarray:
        return uniform(gumbel_noise(torch.tensor([seed]), torch.tensor([frame]), 16, 3072))[0]

    assert_unrelated(at(5, 8), at(6, 7))
    assert_unrelated(at(5, 8), at(8, 5))
    assert_unrelated(at(2**32, 0), at(0, 1))


def assert_unrelated(left: np.ndarray, right: np.ndarray) -> None:
    """Assert a correlation within 4.5 standard deviations of 0, and few equal values."""
    correlation = np.corrcoef(left.ravel(), right.ravel())[0, 1]
    assert abs(correlation) < 4.5 / left.size**0.5
    assert (left == right).mean() < 0.001


def test_noise_is_batch_invariant() -> None:
    seeds, frames = torch.tensor([3, 2**40, 2**63 - 1]), torch.tensor([0, 5, 9])
    together = gumbel_noise(seeds, frames, 16, 300)
    for row in range(3):
        assert torch.equal(together[row], gumbel_noise(seeds[row, None], frames[row, None], 16, 300)[0])
        assert torch.equal(together[row, :4, :100], gumbel_noise(seeds[row, None], frames[row, None], 4, 100)[0])


def test_noise_values_are_stable_between_versions() -> None:
    """Seeds that users have stored must yield the same audio in later versions."""
    noise = gumbel_noise(torch.tensor([42]), torch.tensor([7]), 2, 3)
    expected = [[-0.290763, 0.092529, 1.771222], [-0.566093, 1.754049, 2.375356]]
    torch.testing.assert_close(noise[0], torch.tensor(expected), rtol=0, atol=1e-6)


def test_end_token_is_blocked_for_the_first_two_codes() -> None:
    logits = torch.zeros(4, VOCAB)
    logits[:, EOS] = 50.0
    allowed = torch.ones(VOCAB, dtype=torch.bool)
    seen = torch.zeros(4, VOCAB, dtype=torch.bool)
    scores = apply_talker_rules(logits, seen, torch.ones(4), torch.tensor([0, 1, 2, 3]), AT_ONCE, allowed, EOS)
    assert (scores[:, EOS] == -torch.inf).tolist() == [True, True, False, False]


def test_end_token_block_can_be_extended_and_never_shortened() -> None:
    logits = torch.zeros(5, VOCAB)
    seen = torch.zeros(5, VOCAB, dtype=torch.bool)
    allowed = torch.ones(VOCAB, dtype=torch.bool)
    made, eos_banned_until = torch.tensor([4, 5, 6, 1, 2**40]), torch.tensor([5, 5, 5, 1, UNLIMITED_FRAMES])
    scores = apply_talker_rules(logits, seen, torch.ones(5), made, eos_banned_until, allowed, EOS)
    assert (scores[:, EOS] == -torch.inf).tolist() == [True, False, False, True, True]


def test_ids_outside_the_codebook_are_never_drawn() -> None:
    logits = torch.full((1, VOCAB), -100.0)
    logits[0, CODES:] = 100.0
    allowed = torch.arange(VOCAB) < CODES
    scores = apply_talker_rules(
        logits, torch.zeros(1, VOCAB, dtype=torch.bool), torch.ones(1), torch.tensor([9]), AT_ONCE, allowed, EOS
    )
    drawn = {int(sample_codes(scores, level(1), noise_of(torch.tensor([seed])))) for seed in range(50)}
    assert drawn <= set(range(CODES))


def test_repetition_penalty_lowers_only_scores_of_seen_codes() -> None:
    logits = torch.tensor([[2.0, -2.0, 0.0, 2.0, -2.0]])
    seen = torch.tensor([[True, True, True, False, False]])
    allowed = torch.ones(5, dtype=torch.bool)
    scores = apply_talker_rules(logits, seen, torch.tensor([2.0]), torch.tensor([5]), AT_ONCE, allowed, 4)
    assert scores.tolist() == [[1.0, -4.0, 0.0, 2.0, -2.0]]


def test_codes_whose_score_equals_the_kth_score_are_kept() -> None:
    scores = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0]]).expand(6, -1)
    drawn = sample_codes(scores, level(6, top_k=2), 1e6 * torch.eye(6))
    assert drawn.tolist() == [0, 0, 2, 3, 4, 0]


@pytest.mark.parametrize("top_k", [6, 7, 100])
def test_top_k_of_at_least_the_vocabulary_size_keeps_every_code(top_k: int) -> None:
    scores = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0]]).expand(6, -1)
    assert sample_codes(scores, level(6, top_k=top_k), 1e6 * torch.eye(6)).tolist() == list(range(6))


def test_rows_keep_their_own_top_k_in_a_batch() -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0]]).expand(4, -1)
    mixed = BatchSamplingParams(
        temperature=torch.ones(4),
        top_k=torch.tensor([1, 2, 3, 5]),
        top_p=torch.tensor([1.0, 1.0, 1.0, 0.01]),
        greedy=torch.tensor([False, False, True, False]),
        widest_k=5,
        any_top_p=True,
    )
    last = torch.zeros(4, 5)
    last[:, 4] = 1e6
    assert sample_codes(scores, mixed, last).tolist() == [0, 0, 0, 0]
    second = torch.zeros(4, 5)
    second[:, 1] = 1e6
    assert sample_codes(scores, mixed, second).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("noise", [None, 1e6])
def test_greedy_sampling_takes_the_maximum_regardless_of_noise(noise: float | None) -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0]])
    kwargs = None if noise is None else noise * torch.tensor([[1.0, 0.0, 0.0]])
    assert sample_codes(scores, level(1, greedy=True), kwargs).tolist() == [1]


DEFAULTS = GenerationDefaults(
    do_sample=True,
    temperature=0.7,
    top_k=30,
    top_p=0.9,
    repetition_penalty=1.2,
    subtalker_dosample=True,
    subtalker_temperature=0.6,
    subtalker_top_k=20,
    subtalker_top_p=0.8,
)


def test_unset_sampling_fields_use_checkpoint_defaults() -> None:
    row = merge_sampling_defaults(Sampling(), DEFAULTS)
    assert row.talker == NetworkSamplingParams(temperature=0.7, top_k=30, top_p=0.9, greedy=False)
    assert row.predictor == NetworkSamplingParams(temperature=0.6, top_k=20, top_p=0.8, greedy=False)
    assert row.repetition_penalty == 1.2


def test_request_values_override_defaults_even_if_zero() -> None:
    row = merge_sampling_defaults(Sampling(temperature=1.5, top_k=0, predictor_top_k=0, predictor_top_p=1.0), DEFAULTS)
    assert (row.talker.temperature, row.talker.top_k) == (1.5, 0)
    assert (row.predictor.top_k, row.predictor.top_p) == (0, 1.0)


@pytest.mark.parametrize(
    ("sampling", "greedy"),
    [
        (Sampling(greedy=True), (True, True)),
        (Sampling(temperature=0.0), (True, False)),
        (Sampling(predictor_temperature=0.0), (False, True)),
    ],
)
def test_temperature_zero_makes_only_its_own_network_greedy(sampling: Sampling, greedy: tuple[bool, bool]) -> None:
    row = merge_sampling_defaults(sampling, DEFAULTS)
    assert (row.talker.greedy, row.predictor.greedy) == greedy
    assert row.repetition_penalty == 1.2
