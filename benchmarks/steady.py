"""A card at a share of what it can do, for as long as is asked for: does anything creep?

    python -m benchmarks.steady --model FOLDER --minutes 30 --share 0.8 --json FILE

A runtime and its clients in processes of their own. First the replies a second that a closed loop with as many clients
as there are slots gets through, as in ``benchmarks.suite``; then a fresh runtime and Poisson arrivals at that share of
it, minute by minute, each with arrivals of its own; between two minutes all replies come to their end, and what arrives
in the first two seconds of each does not count. A row a minute: replies, first PCM, underruns, failures, and behind it
the runtime's memory, threads and files, the memory of the card, and how long the machine itself stood still at most
(``benchmarks.stillness``). At the end the slope of both memories over the minutes (least squares, without the first
three, in which buffers and caches fill), and the p99 of the last third beside that of the first. What there is so far
is in the file after every minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks import plan as plans
from benchmarks.arguments import parser_of
from benchmarks.driver import ClientProcess, client_process
from benchmarks.figures import summary
from benchmarks.lanes import busy_at, settled
from benchmarks.parts import free_bytes, total_bytes
from benchmarks.plan import Plan, Rounds
from benchmarks.processes import of_processes
from benchmarks.report import card, tables_of, tell
from benchmarks.sockets import BenchRuntime, runtime_process
from benchmarks.stillness import Watch, watching
from benchmarks.suite import LINE, UNCAPPED_S
from runtime.request import Mode

FILLING = 3  # minutes that no slope is taken of
WARM_UP_S = 2.0
ROUNDS = Rounds(1, 8)  # of the closed loop
COLUMNS = (
    *("calls", "failed", "refused", "first_pcm_p50_ms", "first_pcm_p95_ms", "first_pcm_p99_ms", "underruns"),
    *("worst_deficit_ms", "req_per_s", "audio_s_per_s", "peak_in_flight"),
)
Row = dict[str, Any]


async def capacity(environment: dict[str, str], mode: Mode, slots: int) -> Row:
    """Of a closed loop with a client a slot."""
    plan = plans.closed_loop(mode, slots, rounds=ROUNDS)
    uncapped = {**environment, "VOICEWRIGHT_LEAD_CAP_S": str(UNCAPPED_S)}
    async with runtime_process([], uncapped) as runtime, client_process(runtime.url) as clients:
        return summary((await clients.drive(plan)).traces)


def of_process(pid: int) -> Row:
    """What the kernel knows of a process and its children, and what of the card is taken; nothing without /proc."""
    used: Row = {"card_mib": round((total_bytes() - free_bytes()) / 2**20, 1)} if total_bytes() else {}
    return {**of_processes(pid), **used}


async def minute(clients: ClientProcess, runtime: BenchRuntime, watch: Watch, plan: Plan, number: int) -> Row:
    """One row."""
    await watch.longest_ms()
    heard = await clients.drive(plan)
    still_ms = await watch.longest_ms()
    found = summary(heard.traces)
    left = await settled(partial(busy_at, runtime.url))
    row = {"minute": number, **{name: found[name] for name in COLUMNS}, **of_process(runtime.pid)}
    return row | {"left": left, "client_cpu": heard.client_cpu, "still_ms": still_ms}


def creep(rows: Sequence[Row]) -> Row:
    """Over all minutes: what went wrong, slopes of memory in MiB a minute, the last third's p99 beside the first's."""
    filled = [row for row in rows if row["minute"] >= FILLING] or list(rows)
    third = max(1, len(rows) // 3)
    found: Row = {"minutes": len(rows), **{name: sum(row[name] for row in rows) for name in ("calls", *WRONG)}}
    for name in ("rss_mib", "card_mib"):
        if len(filled) > 1 and all(name in row for row in filled):
            at = [float(row["minute"]) for row in filled]
            slope = statistics.linear_regression(at, [float(row[name]) for row in filled]).slope
            found[f"{name}_a_minute"] = round(slope, 3)
    return found | {"p99_first_third_ms": _p99(rows[:third]), "p99_last_third_ms": _p99(rows[-third:])}


def _p99(rows: Sequence[Row]) -> float | None:
    """The median of some minutes' p99; None: nothing was heard in them."""
    told = [float(row["first_pcm_p99_ms"]) for row in rows if row["first_pcm_p99_ms"] is not None]
    return round(statistics.median(told), 2) if told else None


WRONG = ("failed", "refused", "underruns", "left")


async def steady(arguments: argparse.Namespace) -> list[Row]:
    """All minutes; after each what there is so far is told and kept."""
    mode = Mode(arguments.mode)
    environment = {
        "VOICEWRIGHT_MODEL": arguments.model,
        "VOICEWRIGHT_MAX_SLOTS": str(arguments.slots),
        "VOICEWRIGHT_MAX_MODEL_LEN": str(arguments.length),
        "VOICEWRIGHT_MAX_WAITING": str(LINE),
        "VOICEWRIGHT_MAX_CONNECTIONS": str(LINE),
    }
    closed: Row = {}
    if not arguments.rate:
        closed = await capacity(environment, mode, arguments.slots)
        tell(f"capacity: {closed}")
    rate = arguments.rate or arguments.share * closed["req_per_s"]
    rows: list[Row] = []
    ends = time.monotonic() + 60 * arguments.minutes
    starting = runtime_process([], environment)
    async with starting as runtime, client_process(runtime.url) as clients, watching() as watch:
        while not rows or time.monotonic() < ends:
            plan = plans.open_loop(mode, rate, arguments.seconds, len(rows), WARM_UP_S)
            rows.append(await minute(clients, runtime, watch, plan, len(rows)))
            tell(str(rows[-1]))
            if arguments.json:
                report = {"card": card(), "rate": round(rate, 2), "closed": closed, "rows": rows, "creep": creep(rows)}
                whole = arguments.json.with_suffix(".part")
                whole.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
                os.replace(whole, arguments.json)
    return rows


def main() -> int:
    """Tables on stdout; exit status 1 where a reply failed, was refused or ran dry, or a slot was left."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--mode", default="custom_voice")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a row")
    parser.add_argument("--share", type=float, default=0.8, help="of what a closed loop gets through")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, in place of a share")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--length", type=int, default=700, help="positions of a slot")
    rows = asyncio.run(steady(parser.parse_args()))
    print(tables_of({"minutes": rows, "all": [creep(rows)]}))
    return 1 if any(row[name] for row in rows for name in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
