"""Tests for load plans: Poisson arrivals, unique texts and text lengths."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from benchmarks.common.texts import FRAMES_PER_S, SHORT_FRAMES, Dataset, frames_of, sentences
from benchmarks.serve.plan import (
    ClientBehaviour,
    Rounds,
    Workload,
    closed_loop,
    open_loop,
    poisson_arrivals,
    typed_words,
)
from runtime.request import Mode

LOAD = Workload(Mode.CUSTOM_VOICE)
DEFAULT_ROUNDS = Rounds()


def test_arrivals_follow_a_poisson_process() -> None:
    """The intervals between 4,000 arrivals must have an exponential distribution.

    The test compares the mean, the standard deviation and the fraction of short intervals.
    """
    gaps = [after - before for before, after in pairwise(islice(poisson_arrivals(5.0, seed=0), 4001))]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(0.2, rel=0.05)
    assert spread == pytest.approx(0.2, rel=0.08)  # Evenly spaced arrivals would have a standard deviation of 0.
    assert sum(gap < 0.2 * math.log(2) for gap in gaps) / len(gaps) == pytest.approx(0.5, abs=0.03)


def test_seed_gives_the_same_arrivals_on_every_machine() -> None:
    assert list(islice(poisson_arrivals(1.0, seed=0), 3)) == pytest.approx([1.82206, 2.237039, 4.895915], abs=1e-6)
    assert list(islice(poisson_arrivals(1.0, seed=0), 5)) == list(islice(poisson_arrivals(1.0, seed=0), 5))
    assert list(islice(poisson_arrivals(1.0, seed=0), 5)) != list(islice(poisson_arrivals(1.0, seed=1), 5))


def test_request_rate_only_scales_the_arrival_times() -> None:
    slow, fast = (list(islice(poisson_arrivals(rate, seed=2), 50)) for rate in (1.0, 10.0))
    assert slow == pytest.approx([10 * at for at in fast])


def test_thousand_texts_of_a_load_plan_are_unique() -> None:
    texts = sentences()
    assert len(set(texts)) == len(texts) == 1000
    assert all(text[0].isupper() and text.endswith(".") and text.isascii() for text in texts)
    assert sum(map(frames_of, texts)) / len(texts) / FRAMES_PER_S == pytest.approx(4.3, abs=0.1)


def test_first_rounds_of_a_closed_loop_are_a_warm_up() -> None:
    plan = closed_loop(LOAD, 8, DEFAULT_ROUNDS)
    assert [call.is_counted for call in plan.calls].index(True) == 8 * DEFAULT_ROUNDS.warm_up
    assert sum(call.is_counted for call in plan.calls) == 8 * DEFAULT_ROUNDS.counted


def test_long_run_repeats_no_text() -> None:
    texts = [call.text for call in closed_loop(LOAD, 400, DEFAULT_ROUNDS).calls]
    assert len(set(texts)) == len(texts) == 2400


@pytest.mark.parametrize("dataset", [dataset for dataset in Dataset if dataset is not Dataset.SENTENCES])
def test_dataset_has_language_length_and_unique_texts(dataset: Dataset) -> None:
    calls = closed_loop(Workload(Mode.CUSTOM_VOICE, dataset), 8, Rounds(2, 100)).calls
    assert len({call.text for call in calls}) == len(calls) == 816
    assert {call.language for call in calls} == {dataset.language}
    (frames,) = {call.frames for call in calls}
    is_english = dataset.language == "english"
    lengths = [len(call.text) for call in calls]
    assert all((length < 90 if is_english else length < 30) == (frames == SHORT_FRAMES) for length in lengths)
    assert all(call.text.isascii() == is_english for call in calls)


def test_open_loop_counts_only_after_its_warm_up() -> None:
    plan = open_loop(LOAD, 20.0, seconds=30, seed=1, warm_up_s=10)
    assert plan.clients == 0
    assert 650 < len(plan.calls) < 950
    assert all(call.is_counted == (call.at_s >= 10) for call in plan.calls)
    assert max(call.at_s for call in plan.calls) < 40


def test_cancelling_and_slow_calls_are_excluded_from_the_counts() -> None:
    load = Workload(Mode.CUSTOM_VOICE, cancels=0.5, slow=0.1)
    calls = open_loop(load, 50.0, seconds=60, seed=0).calls
    shares = {manner: sum(call.manner is manner for call in calls) / len(calls) for manner in ClientBehaviour}
    assert shares[ClientBehaviour.CANCEL] == pytest.approx(0.5, abs=0.03)
    assert shares[ClientBehaviour.SLOW] == pytest.approx(0.1, abs=0.02)
    assert all(call.is_counted == (call.manner is ClientBehaviour.WHOLE) for call in calls)


@pytest.mark.parametrize(("clients", "processes"), [(8, 3), (2, 4), (0, 3)])
def test_processes_divide_the_calls_and_clients(clients: int, processes: int) -> None:
    plan = closed_loop(LOAD, clients, DEFAULT_ROUNDS) if clients else open_loop(LOAD, 10, seconds=9, seed=0)
    shares = plan.split(processes)
    assert len(shares) == (min(clients, processes) or processes)
    assert sum(share.clients for share in shares) == clients
    assert sorted(call.number for share in shares for call in share.calls) == [call.number for call in plan.calls]


def test_streamed_text_is_sent_word_by_word_at_its_pace() -> None:
    (call, *_) = closed_loop(replace(LOAD, manner=ClientBehaviour.WORDS), 1, DEFAULT_ROUNDS).calls
    waits, pieces = zip(*typed_words(call), strict=True)
    assert "".join(pieces).split() == call.text.split()
    assert waits == (0.0, *[0.010] * (len(pieces) - 2), 0.0)
