"""The suites of loads: closed loop, open loop, live text, abuse. Each returns the rows of its table.

Every point is measured in every lane before the next one; where arms are compared twice, in the order A B B A, so that
a machine that grows warm or busy does so for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks import plan as plans
from benchmarks.figures import nearest_rank, rounded, summary
from benchmarks.lanes import Lane
from benchmarks.plan import Manner, NewVoices, Plan, Rounds
from benchmarks.wordings import Wording
from runtime.request import Mode
from runtime.settings import Limits

Row = dict[str, Any]

LIVE = (Manner.WORDS, Manner.TOKENS)
WITH_SILENCE = (Manner.HALTING, Manner.SILENCE)  # which only a server waits out
OVERLOAD = 2.0
SEED_OF_ABUSE = 0


async def closed_loop(
    lanes: Sequence[Lane],
    modes: Sequence[Mode],
    clients: Sequence[int],
    calls: int,
    rounds: Rounds,
    wordings: Sequence[Wording] = (),
) -> list[Row]:
    """So many clients that call again as soon as a reply has ended; at least ``calls`` that count at every point.

    ``wordings``: languages and lengths of text, a point each; without any, the table's texts.
    """
    rows = []
    for mode in modes:
        for wording in wordings or (None,):
            for count in clients:
                plan = plans.closed_loop(mode, count, rounds=rounds.with_calls(calls, count), wording=wording)
                about: Row = {"mode": str(mode), **({"text": str(wording)} if wording else {}), "clients": count}
                rows += await _measured(lanes, [plan], about)
    return rows


async def new_voices(
    lanes: Sequence[Lane], kinds: Sequence[NewVoices], clients: Sequence[int], calls: int, rounds: Rounds
) -> list[Row]:
    """A closed loop of clones in which no recording comes twice. The first of all is a row of its own.

    Where arms are compared, each of the two passes has recordings of its own, the same for every lane: a runtime still
    keeps the voices that it has just read.
    ``to_one`` is the first PCM's median over that of the fewest clients.
    """
    rows, number = [], 0

    async def point(kind: NewVoices, count: int, rounds: Rounds, about: int | str) -> list[Row]:
        nonlocal number
        passes = []
        for _ in range(2 if _are_compared(lanes) else 1):
            passes.append(plans.closed_loop(Mode.BASE, count, rounds=rounds, voices=kind, start=number))
            number += len(passes[-1].calls)
        return await _measured(lanes, passes[:1], {"voices": str(kind), "clients": about}, again=passes[1:])

    for kind in kinds:
        alone: dict[str, float | None] = {}
        rows += await point(kind, 1, Rounds(0, 1), "first")
        for count in clients:
            for row in await point(kind, count, rounds.with_calls(calls, count), count):
                median = row["first_pcm_p50_ms"]
                median_alone = alone.setdefault(row["lane"], median)
                row["to_one"] = rounded(median / median_alone, 1) if median and median_alone else None
                rows.append(row)
    return rows


async def open_loop(
    lanes: Sequence[Lane],
    modes: Sequence[Mode],
    rates: Sequence[float],
    seconds: float,
    warm_up_s: float,
    seeds: Sequence[int],
) -> list[Row]:
    """Poisson arrivals. A rate is ``kept`` only without an underrun, a failure or a refusal."""
    rows = []
    for mode in modes:
        for rate in rates:
            runs = [plans.open_loop(mode, rate, seconds, seed, warm_up_s) for seed in seeds]
            found = await _measured(lanes, runs, {"mode": str(mode), "rate": rate})
            for row in found:
                row["kept"] = not (row["underruns"] or row["failed"] or row["refused"])
            rows += found
    return rows


async def live_text(
    lanes: Sequence[Lane], modes: Sequence[Mode], clients: Sequence[int], calls: int, rounds: Rounds
) -> list[Row]:
    """Text that is written while it is spoken. First PCM counts from the first word; the end from the last one.

    A sentence behind which nothing comes is spoken after ``max_buffer_delay_ms`` where its layout waits for its end.
    """
    rows = []
    servers = [lane for lane in lanes if lane.transport != "in_process"]
    for mode in modes:
        for manner in (*LIVE, *WITH_SILENCE):
            for count in clients:
                plan = plans.closed_loop(mode, count, manner, rounds.with_calls(calls, count))
                about: Row = {"mode": str(mode), "text": str(manner), "clients": count}
                if manner is Manner.SILENCE:
                    about["max_buffer_delay_ms"] = Limits().max_buffer_delay_ms
                rows += await _measured(servers if manner in WITH_SILENCE else lanes, [plan], about, is_live=True)
    return rows


async def abuse(
    lanes: Sequence[Lane], modes: Sequence[Mode], slots: int, seconds: float, rate: float, rounds: Rounds
) -> list[Row]:
    """Half cancel, a tenth reads slowly, and twice as many come as can be served.

    Before it the same well-behaved requests one at a time, for comparison. Without a ``rate``, what as many clients as
    slots get through in a closed loop is measured first, and twice that taken.
    """
    rows = []
    for mode in modes:
        for lane in lanes:
            alone = await lane.drive(plans.closed_loop(mode, 1, rounds=rounds))
            if not rate:
                full = await lane.drive(plans.closed_loop(mode, slots, rounds=replace(rounds, counted=2)))
                load = OVERLOAD * summary(full.traces)["req_per_s"]
            else:
                load = rate
            heard = await lane.drive(plans.abuse(mode, load, seconds, SEED_OF_ABUSE))
            quiet = summary(alone.traces)
            row = {
                "lane": _name(lane, lanes),
                "mode": str(mode),
                "rate": round(load, 1),
                "alone_first_pcm_p50_ms": quiet["first_pcm_p50_ms"],
                "alone_first_pcm_p95_ms": quiet["first_pcm_p95_ms"],
                **summary(heard.traces),
                "leaked_slots": await lane.leaked(),
            }
            row |= {f"{manner}_calls": sum(t.manner == manner for t in heard.traces) for manner in ("cancel", "slow")}
            if heard.client_cpu is not None:
                row["client_cpu"] = heard.client_cpu
            rows.append(row)
    return rows


async def _measured(
    lanes: Sequence[Lane], runs: Sequence[Plan], about: Row, *, again: Sequence[Plan] = (), is_live: bool = False
) -> list[Row]:
    """Carry plans out in every lane and make a row a lane of it.

    ``again``: the plans of the second pass, where arms are compared and these must be others.
    """
    order = [(lane, runs) for lane in lanes]
    if _are_compared(lanes):
        order += [(lane, again or runs) for lane in reversed(lanes)]
    heard: dict[int, list[Any]] = {number: [] for number in range(len(lanes))}
    for lane, wanted in order:
        for plan in wanted:
            heard[lanes.index(lane)].append(await lane.drive(plan))
    rows = []
    for number, lane in enumerate(lanes):
        traces = [hearing.traces for hearing in heard[number]]
        row = {"lane": _name(lane, lanes), **about, **summary(*traces)}
        if is_live:
            tails = [(t.end_ns - t.text_ns) / 1e6 for run in traces for t in run if t.is_counted and t.is_good]
            row["last_word_to_end_p50_ms"] = rounded(nearest_rank(tails, 0.5), 1)
        row["leaked_slots"] = await lane.leaked()
        shares = [hearing.client_cpu for hearing in heard[number] if hearing.client_cpu is not None]
        if shares:
            row["client_cpu"] = max(shares)
        rows.append(row)
    return rows


def _name(lane: Lane, lanes: Sequence[Lane]) -> str:
    """The transport, and the arm where there are several."""
    return f"{lane.arm} {lane.transport}" if _are_compared(lanes) else lane.transport


def _are_compared(lanes: Sequence[Lane]) -> bool:
    """Whether there are several arms; each point is then measured twice."""
    return len({lane.arm for lane in lanes}) > 1
