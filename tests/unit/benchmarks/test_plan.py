"""Plans: Poisson arrivals, texts that never come twice, lengths that follow from them."""

from __future__ import annotations

import json
import math
from itertools import islice, pairwise

import pytest

from benchmarks.plan import ROUNDS, SILENCE_S, Manner, Plan, Rounds, abuse, arrivals, closed_loop, open_loop, writing
from benchmarks.prompts import FRAMES_PER_S, frames_of, sentences
from benchmarks.wordings import Wording
from runtime.request import Mode

MODE = Mode.CUSTOM_VOICE


def test_arrivals_are_those_of_a_poisson_process() -> None:
    """Gaps of 4,000 arrivals at 5 a second: mean, spread, and the share of short ones."""
    gaps = [after - before for before, after in pairwise(islice(arrivals(5.0, seed=0), 4001))]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(0.2, rel=0.05)
    assert spread == pytest.approx(0.2, rel=0.08)  # even arrivals would have none
    assert sum(gap < 0.2 * math.log(2) for gap in gaps) / len(gaps) == pytest.approx(0.5, abs=0.03)


def test_a_seed_has_its_own_arrivals_everywhere() -> None:
    assert list(islice(arrivals(1.0, seed=0), 3)) == pytest.approx([1.82206, 2.237039, 4.895915], abs=1e-6)
    assert list(islice(arrivals(1.0, seed=0), 5)) == list(islice(arrivals(1.0, seed=0), 5))
    assert list(islice(arrivals(1.0, seed=0), 5)) != list(islice(arrivals(1.0, seed=1), 5))


def test_rates_stretch_the_same_arrivals() -> None:
    slow, fast = (list(islice(arrivals(rate, seed=2), 50)) for rate in (1.0, 10.0))
    assert slow == pytest.approx([10 * at for at in fast])


def test_a_thousand_texts_and_none_twice() -> None:
    texts = sentences()
    assert len(set(texts)) == len(texts) == 1000
    assert all(text[0].isupper() and text.endswith(".") and text.isascii() for text in texts)
    assert sum(map(frames_of, texts)) / len(texts) / FRAMES_PER_S == pytest.approx(4.3, abs=0.1)


def test_a_closed_loop_warms_up_first() -> None:
    plan = closed_loop(MODE, 8)
    assert [call.is_counted for call in plan.calls].index(True) == 8 * ROUNDS.warm_up
    assert sum(call.is_counted for call in plan.calls) == 8 * ROUNDS.counted


def test_no_text_comes_twice_in_a_long_run() -> None:
    texts = [call.text for call in closed_loop(MODE, 400).calls]
    assert len(set(texts)) == len(texts) == 2400


@pytest.mark.parametrize("wording", Wording)
def test_a_wording_has_a_language_a_length_and_no_text_twice(wording: Wording) -> None:
    calls = closed_loop(MODE, 8, rounds=Rounds(2, 100), wording=wording).calls
    assert len({call.text for call in calls}) == len(calls) == 816
    assert {(call.language, call.frames) for call in calls} == {(wording.language, wording.frames)}
    lengths = [len(call.text) for call in calls]
    short, is_english = wording.frames == 20, wording.language == "english"
    assert all((length < 90 if is_english else length < 30) == short for length in lengths), (
        min(lengths),
        max(lengths),
    )
    assert all(call.text.isascii() == is_english for call in calls)


def test_an_open_loop_counts_after_its_warm_up() -> None:
    plan = open_loop(MODE, 20.0, seconds=30, seed=1, warm_up_s=10)
    assert plan.clients == 0
    assert 650 < len(plan.calls) < 950
    assert all(call.is_counted == (call.at_s >= 10) for call in plan.calls)
    assert max(call.at_s for call in plan.calls) < 40


def test_half_of_the_abusers_cancel_and_a_tenth_reads_slowly() -> None:
    calls = abuse(MODE, 50.0, seconds=60, seed=0).calls
    shares = {manner: sum(call.manner is manner for call in calls) / len(calls) for manner in Manner}
    assert shares[Manner.CANCEL] == pytest.approx(0.5, abs=0.03)
    assert shares[Manner.SLOW] == pytest.approx(0.1, abs=0.02)
    assert all(call.is_counted == (call.manner is Manner.WHOLE) for call in calls)


def test_a_plan_survives_its_trip_to_the_clients() -> None:
    plan = abuse(Mode.BASE, 5.0, seconds=10, seed=3)
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


def test_a_halting_writer_is_silent_behind_each_sentence_and_another_behind_the_last() -> None:
    (call, *_) = closed_loop(MODE, 1, Manner.HALTING).calls
    waits = [(wait_s, piece) for wait_s, piece in writing(call) if wait_s == SILENCE_S]
    assert len(waits) == call.text.count(".") - 1 == 2
    assert "".join(piece for _, piece in writing(call)).split() == call.text.split()
    (call, *_) = closed_loop(MODE, 1, Manner.SILENCE).calls
    assert list(writing(call)) == [(0.0, call.text), (SILENCE_S, "")]
