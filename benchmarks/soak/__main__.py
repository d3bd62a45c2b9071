"""Soak test: all modes and APIs, cancels, disconnects, slow readers and invalid input.

`python -m benchmarks.soak --minutes 15` runs twice as many clients as there are slots. Each complete stream is
compared, byte for byte, with the audio of the same request alone. The exit status is 1 if a guarantee was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

import httpx

from benchmarks.common.report import create_parser, log_step, write_report
from benchmarks.common.servers import busy_slots, process_usage, runtime_process
from benchmarks.soak.clients import KINDS, SoakClients, SoakReport


def main() -> int:
    """Run the soak test, print and write the report, and return the exit status."""
    parser = create_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--slots", type=int, default=6)
    parser.add_argument("--clients", type=int, help="twice as many as slots by default")
    parser.add_argument("--model", action="append", default=[], metavar="[MODE=]PATH_OR_ID")
    arguments = parser.parse_args()
    found = asyncio.run(soak(arguments))
    results = found.summary()
    rows = [{"metric": name, "value": value} for name, value in results.items()]
    write_report({"soak": rows}, arguments.json, different=found.different[:10])
    return 1 if results["broken"] else 0


async def soak(arguments: argparse.Namespace) -> SoakReport:
    """Start a runtime, run every request alone and then under load, and return a report.

    The runtime has no waiting queue.
    """
    options = [option for model in arguments.model for option in ("--model", model)]
    options += ["--max-slots", str(arguments.slots)]
    count, found = arguments.clients or 2 * arguments.slots, SoakReport()
    environment = {"VOICEWRIGHT_MAX_WAITING": "0"}
    async with runtime_process(options, environment) as runtime, httpx.AsyncClient(trust_env=False) as http:
        card: dict[str, Any] = (await http.get(f"{runtime.url}/v1/models")).json()["data"][0]
        clients = SoakClients(runtime, card, found)
        log_step("run every request alone")
        await clients.prepare()

        async def abuse(minutes: float) -> None:
            until = time.monotonic() + 60 * minutes
            kinds = [KINDS[number % len(KINDS)] for number in range(count)]
            await asyncio.gather(*(clients.keep_calling(kind, number, until) for number, kind in enumerate(kinds)))

        log_step(f"{count} clients")
        await abuse(arguments.minutes / 3)  # Caches fill during the first third.
        found.note_usage(process_usage(runtime.pid))
        await abuse(2 * arguments.minutes / 3)
        found.note_usage(process_usage(runtime.pid))
        found.leaked_slots = await busy_slots(runtime.url)
    return found


if __name__ == "__main__":
    sys.exit(main())
