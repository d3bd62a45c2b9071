"""Load test of a runtime: TTFA, ITL, RTF, goodput, underruns and throughput.

python -m benchmarks.serve --model FOLDER --concurrency 1,8,64              closed loops
python -m benchmarks.serve --model FOLDER --rate 10,40 --seconds 60         Poisson arrivals
python -m benchmarks.serve --model FOLDER --concurrency 8 --text words,tokens     live text
python -m benchmarks.serve --model FOLDER --load 2 --cancel .5 --slow .1 --max-waiting 0          overload
python -m benchmarks.serve --model FOLDER --load .8 --minutes 30            growth of memory and of TTFA
python -m benchmarks.serve --url direct=http://HOST:PORT --url proxy=http://HOST:PORT --concurrency 1,8

Closed loops of complete texts run without a limit of buffered audio, because they measure the maximum throughput. If
several `--variant`s or `--url`s are given, they are compared at each load in the order A B B A. The exit status is 1 if
a response failed or a slot did not become free.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import product

from benchmarks.common.report import Row, Tables, comma_separated, create_parser, write_report
from benchmarks.common.texts import Dataset
from benchmarks.common.variants import Variant, add_variants, shared_environment, variants_of
from benchmarks.common.voices import NewVoices
from benchmarks.serve.load import (
    WRONG,
    capacity_rps,
    measure_closed,
    measure_minutes,
    measure_open,
    summarize_windows,
)
from benchmarks.serve.plan import PACE_S, ClientBehaviour, Workload
from benchmarks.serve.targets import Target, open_targets
from runtime.engine.loading.registry import Registry
from runtime.errors import SetUpError
from runtime.request import Mode

UNCAPPED_S = 3600
MANY_WAITING = 4096
TEXTS = (ClientBehaviour.WHOLE, *PACE_S)


def main() -> int:
    """Run the load test, print and write the tables, and return the exit status."""
    arguments = parse_arguments()
    try:
        tables = asyncio.run(ServeRun(arguments).run())
    except SetUpError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = WRONG if arguments.minutes else ("failed", "leaked_slots")
    return 1 if any(row.get(name) for rows in tables.values() for row in rows for name in wrong) else 0


class ServeRun:
    """One run of the load test, with its settings and its result tables.

    Each table is printed and written when it is complete.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.tables: Tables = {}
        self.variants = variants_of(arguments)
        self.shared = shared_environment(
            arguments,
            max_slots=arguments.slots,
            max_model_len=arguments.length,
            max_waiting=arguments.max_waiting,
            max_connections=MANY_WAITING,
        )
        registry = None if arguments.url else Registry.read(Variant("", {}).settings(self.shared).models)
        served = list(registry.modes) if registry else [Mode.CUSTOM_VOICE]
        self.weights = "" if not registry or all(entry.config.speaks for entry in registry.entries) else "synthetic"
        self.loads = loads_of(arguments, served)

    async def run(self) -> Tables:
        arguments = self.arguments
        complete_text_loads = [load for load in self.loads if load.manner is ClientBehaviour.WHOLE]
        live = [load for load in self.loads if load.manner is not ClientBehaviour.WHOLE]
        rates: Sequence[float] = arguments.rate
        if arguments.load or (complete_text_loads and arguments.concurrency):
            async with self._targets(lead_cap_s=UNCAPPED_S) as targets:
                started = [{"target": target.name, "seconds": target.start_s} for target in targets if target.start_s]
                self._store_rows("start", started)
                if arguments.load:
                    capacity = await capacity_rps(targets[0], self.loads[0], arguments.slots)
                    rates = [*rates, *(share * capacity for share in arguments.load)]
                rows = await measure_closed(targets, complete_text_loads, arguments.concurrency, arguments.calls)
                self._store_rows("closed loop", rows)
        if not rates and not (live and arguments.concurrency):
            return self.tables
        async with self._targets() as targets:
            rows = await measure_closed(targets, live, arguments.concurrency, arguments.calls)
            self._store_rows("live text", rows)
            if arguments.minutes and rates:
                keep = partial(self._store_rows, "minutes", is_shown=False)
                load, rate = self.loads[0], rates[0]
                rows = await measure_minutes(targets[-1], load, rate, arguments.minutes, arguments.seconds, keep)
                self._store_rows("minutes", rows)
                self._store_rows("all minutes", [summarize_windows(rows)])
            elif rates:
                self._store_rows("open loop", await measure_open(targets, self.loads, rates, arguments.seconds))
        return self.tables

    def _targets(self, **settings: object) -> AbstractAsyncContextManager[list[Target]]:
        arguments = self.arguments
        shared = {**self.shared, **{f"VOICEWRIGHT_{name.upper()}": str(value) for name, value in settings.items()}}
        options = {"urls": arguments.url, "processes": arguments.processes}
        return open_targets(self.variants, shared, **options)

    def _store_rows(self, name: str, rows: list[Row], *, is_shown: bool = True) -> None:
        if rows:
            self.tables[name] = rows
            shown = [name] if is_shown else ["-"]
            write_report(self.tables, self.arguments.json, shown=shown, settings=self.shared, weights=self.weights)


def loads_of(arguments: argparse.Namespace, served: Sequence[Mode]) -> list[Workload]:
    """Return the workloads that the command line selects.

    They are all combinations of mode, text dataset, client behaviour and reference recording.
    """
    voices: list[NewVoices | None] = [None]
    if arguments.new_voices:
        voices = [NewVoices(seconds, only) for only in (True, False) for seconds in arguments.new_voices]
    modes = [Mode.BASE] if arguments.new_voices else arguments.mode or served
    shares = {"cancels": arguments.cancel, "slow": arguments.slow}
    kinds = product(modes, arguments.dataset, arguments.text, voices)
    return [Workload(*kind, **shares) for kind in kinds]


def parse_arguments() -> argparse.Namespace:
    parser = create_parser(__doc__)
    add_variants(parser)
    parser.add_argument("--url", type=_named_url, action="append", metavar="NAME=URL", help="URL of a running server")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--length", type=int, default=2304, help="positions of a slot")
    parser.add_argument("--max-waiting", type=int, default=MANY_WAITING, help="maximum number of waiting requests")
    parser.add_argument("--processes", type=int, default=1, help="processes of clients")
    load = parser.add_argument_group("load")
    load.add_argument("--concurrency", type=comma_separated(int), default=(), help="clients of closed loops")
    load.add_argument("--rate", type=comma_separated(float), default=(), help="Poisson arrivals per second")
    load.add_argument(
        "--load", type=comma_separated(float), default=(), help="arrivals as a share of the closed loop's rate"
    )
    load.add_argument("--calls", type=int, default=24, help="minimum number of measured calls of a closed loop")
    load.add_argument("--seconds", type=float, default=60.0, help="measured seconds of an open loop")
    load.add_argument("--minutes", type=float, default=0.0, help="repeat the first rate for this time")
    calls = parser.add_argument_group("calls")
    calls.add_argument(
        "--mode", type=comma_separated(Mode), default=(), help="modes; default: all that the models serve"
    )
    calls.add_argument(
        "--dataset", type=comma_separated(Dataset), default=(Dataset.SENTENCES,), help=f"of {','.join(Dataset)}"
    )
    calls.add_argument(
        "--text", type=comma_separated(ClientBehaviour), default=(ClientBehaviour.WHOLE,), help=f"of {','.join(TEXTS)}"
    )
    calls.add_argument(
        "--new-voices", type=comma_separated(float), default=(), help="seconds; Base clones a new one each call"
    )
    calls.add_argument("--cancel", type=float, default=0.0, help="share of calls that are cancelled")
    calls.add_argument("--slow", type=float, default=0.0, help="share of calls that are read at half real time")
    arguments = parser.parse_args()
    if not (arguments.concurrency or arguments.rate or arguments.load):
        arguments.concurrency = (1, 4, 8)
    return arguments


def _named_url(text: str) -> tuple[str, str]:
    name, _, url = text.rpartition("=") if "=" in text.partition("://")[0] else ("url", "", text)
    return name, url.rstrip("/")


if __name__ == "__main__":
    sys.exit(main())
