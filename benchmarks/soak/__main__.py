"""Abuse a runtime for minutes: mixed modes and dialects, cancels, hang-ups, slow readers and nonsense.

`python -m benchmarks.soak --minutes 15` runs twice as many clients as there are slots. Every stream that is heard to
its end is compared, byte for byte, with the same request alone. Exit status 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common.metrics import percentile, rounded
from benchmarks.common.report import log_step, parser_of, report
from benchmarks.common.servers import BenchRuntime, busy_slots, process_usage, runtime_process
from benchmarks.soak.clients import KINDS, SoakClients
from benchmarks.soak.report import SoakReport, lag_bounds

MIN_SAMPLE_S, MAX_SAMPLES = 5.0, 720


def main() -> int:
    """Run, print, and write the files."""
    parser = parser_of(__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--slots", type=int, default=6)
    parser.add_argument("--clients", type=int, help="twice as many as slots by default")
    parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help="mean between a client's requests")
    parser.add_argument("--waiting", type=int, default=0, help="waiting requests; more are refused at once")
    parser.add_argument("--wishes", type=int, default=18, help="different requests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", action="append", metavar="[MODE=]PATH_OR_ID")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="memory, slots and TTFA over the minutes")
    arguments = parser.parse_args()
    found = asyncio.run(soak(arguments))
    if arguments.picture is not None:
        arguments.picture.write_text(found.picture(), encoding="utf-8")
    results = found.summary() | {"broken": found.broken()}
    rows = [{"metric": name, "value": value} for name, value in results.items()]
    report({"soak": rows}, arguments.json, different=found.different[:10], samples=found.samples)
    return 1 if results["broken"] else 0


async def soak(arguments: argparse.Namespace) -> SoakReport:
    """Start a runtime, hear every request alone, then abuse it."""
    options = [option for model in arguments.model or [] for option in ("--model", model)]
    options += ["--max-slots", str(arguments.slots)]
    environment = {"VOICEWRIGHT_MAX_WAITING": str(arguments.waiting)}
    count = arguments.clients or 2 * arguments.slots
    found = SoakReport(minutes=arguments.minutes, slots=arguments.slots, clients=count)
    async with runtime_process(options, environment) as runtime, httpx.AsyncClient(trust_env=False) as http:
        card: dict[str, Any] = (await http.get(f"{runtime.url}/v1/models")).json()["data"][0]
        clients = SoakClients(runtime, card, arguments.wishes, found, arguments.seed, arguments.pause)
        log_step("every request alone")
        await clients.prepare()
        log_step(f"{count} clients")
        until = time.monotonic() + 60 * arguments.minutes
        sampling = asyncio.create_task(_sample(runtime, http, found))
        kinds = [KINDS[number % len(KINDS)] for number in range(count)]
        await asyncio.gather(*(clients.keep_calling(kind, number, until) for number, kind in enumerate(kinds)))
        sampling.cancel()
        found.leaked_slots = await busy_slots(runtime.url)
        found.loop_lag_ms = lag_bounds((await http.get(f"{runtime.url}/metrics")).text)
    return found


async def _sample(runtime: BenchRuntime, http: httpx.AsyncClient, found: SoakReport) -> None:
    """Append samples of the runtime's processes and slots, and p99 of TTFA since the last sample."""
    began, heard = time.monotonic(), 0
    while True:
        active = (await http.get(f"{runtime.url}/ready")).json().get("active", 0)
        p99 = rounded(percentile(found.ttfa_ms[heard:], 0.99), 1)
        heard = len(found.ttfa_ms)
        minute = round((time.monotonic() - began) / 60, 3)
        found.samples.append({"minute": minute, "active": active, "ttfa_p99_ms": p99, **process_usage(runtime.pid)})
        await asyncio.sleep(max(MIN_SAMPLE_S, 60 * found.minutes / MAX_SAMPLES))


if __name__ == "__main__":
    sys.exit(main())
