"""The benchmark suites: `python -m benchmarks.suite engine closed --model FOLDER --json FILE --markdown FILE`.

engine  milliseconds of the parts by batch and context; with --peers other implementations beside ours
closed  clients that call again as soon as a reply has ended
open    Poisson arrivals at given rates, strict about underruns
live    text that is written while it is spoken
abuse   half cancel, a tenth reads slowly, twice as many come as can be served
start   seconds from a command to a runtime that answers, and its memory on the card
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import suites
from benchmarks.arguments import add_arms, parser_of, several, variables_of
from benchmarks.engine import Grid, measure_engine
from benchmarks.host import measure_host
from benchmarks.lanes import TRANSPORTS, Arm, Environment, opened, settings_of
from benchmarks.parts import free_bytes
from benchmarks.peers import in_a_child
from benchmarks.plan import ROUNDS, NewVoices, Rounds
from benchmarks.report import Tables, machine, markdown, setup, tables_of, tell
from benchmarks.sockets import runtime_process
from benchmarks.wordings import Wording
from runtime.engine.registry import Registry
from runtime.errors import SetUpError
from runtime.request import Mode
from runtime.settings import Settings

SUITES = ("engine", "closed", "open", "live", "abuse", "start")
UNCAPPED_S = 3600  # a closed loop asks how much can be made, not how much is listened to
MOST_LIVE = 32  # clients that write while they are spoken to, of those that are asked for
LINE = 4096  # places for requests that wait, where the load is the point and not the refusal


def main() -> int:
    """Measure what is asked for; tables on stdout, and into files."""
    arguments = _parser().parse_args()
    if not arguments.suite:
        arguments.suite = list(SUITES)
    try:
        report = asyncio.run(_run(arguments))
    except SetUpError as error:
        print(error, file=sys.stderr)
        return 2
    rows = [row for table in report["tables"].values() for row in table]
    return 1 if any(row.get("failed") or row.get("leaked_slots") for row in rows) else 0


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    base = _base(arguments)
    arms = [Arm.parse(text) for text in arguments.arm or ["ours"]]
    settings = settings_of(base)
    registry = Registry.read(settings.models)
    modes = [Mode(word) for word in arguments.modes] if arguments.modes else list(registry.modes)
    label = "" if all(entry.config.speaks for entry in registry.entries) else "synthetic weights"
    report: dict[str, Any] = {"machine": machine(), "setup": setup(settings, arms), "weights": label, "tables": {}}
    print(markdown(report))
    for name in SUITES:
        if name in arguments.suite:
            began = time.perf_counter()
            tables = await RUN[name](arguments, base, arms, modes)
            report["tables"] |= tables
            print(tables_of(tables), flush=True)
            print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            _write(arguments, report)
    return report


def _write(arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """What there is so far: a run that is stopped has lost its last suite only."""
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(report), encoding="utf-8")


async def _engine(arguments: argparse.Namespace, base: Environment, arms: list[Arm], modes: list[Mode]) -> Tables:
    grid = Grid(batches=arguments.batches, contexts=arguments.contexts, counted=arguments.frames)
    named = [(arm.name, settings_of({**base, **arm.environment})) for arm in arms]
    peers = await _peers(arguments, base) if arguments.peers else {}
    tables = measure_engine(named, grid, tell)
    host = [{"arm": name, **row} for name, arm in named for row in measure_host(_first_model(arm), grid.batches, tell)]
    return {**{f"engine: {name}": rows for name, rows in {**tables, "host": host}.items()}, **peers}


async def _peers(arguments: argparse.Namespace, base: Environment) -> Tables:
    """A B … B A, each in a process of its own; the mean of both runs would hide a drift, so both are shown."""
    names = ["ours", *arguments.peers]
    model, device = settings_of(base).models[0], "cuda" if torch.cuda.is_available() else "cpu"
    environment = {**os.environ, **base}
    rows = [await in_a_child(name, model, device, environment) for name in [*names, *reversed(names)]]
    return {"engine: peers, one request at a time": rows}


async def _closed(arguments: argparse.Namespace, base: Environment, arms: list[Arm], modes: list[Mode]) -> Tables:
    uncapped = {**base, "VOICEWRIGHT_LEAD_CAP_S": str(UNCAPPED_S)}
    async with opened(arms, arguments.transports, uncapped, arguments.traces) as lanes:
        if arguments.references == "new":
            kinds = [NewVoices(seconds, only) for only in (True, False) for seconds in arguments.reference_seconds]
            rows = await suites.new_voices(lanes, kinds, arguments.clients, arguments.calls, _rounds(arguments))
            return {"closed loop, a new voice with every request": rows}
        rows = await suites.closed_loop(
            lanes, modes, arguments.clients, arguments.calls, _rounds(arguments), arguments.wordings
        )
        return {"closed loop": rows}


async def _open(arguments: argparse.Namespace, base: Environment, arms: list[Arm], modes: list[Mode]) -> Tables:
    async with opened(arms, arguments.transports, base, arguments.traces) as lanes:
        rows = await suites.open_loop(
            lanes, modes, arguments.rates, arguments.seconds, arguments.warm_up, range(arguments.seeds)
        )
        return {"open loop": rows}


async def _live(arguments: argparse.Namespace, base: Environment, arms: list[Arm], modes: list[Mode]) -> Tables:
    async with opened(arms, arguments.transports, base, arguments.traces) as lanes:
        counts = [count for count in arguments.clients if count <= MOST_LIVE] or [1]
        return {"live text": await suites.live_text(lanes, modes, counts, arguments.calls, _rounds(arguments))}


async def _abuse(arguments: argparse.Namespace, base: Environment, arms: list[Arm], modes: list[Mode]) -> Tables:
    refusing = {**base, "VOICEWRIGHT_MAX_WAITING": "0"}
    async with opened(arms, arguments.transports, refusing, arguments.traces) as lanes:
        slots = settings_of(base).engine.max_slots
        load = arguments.seconds, arguments.abuse_rate
        return {"abuse": await suites.abuse(lanes, modes, slots, *load, _rounds(arguments))}


async def _start(arguments: argparse.Namespace, base: Environment, arms: list[Arm], modes: list[Mode]) -> Tables:
    rows = []
    for arm in arms:
        for run in ("first", "again"):
            began, free = time.perf_counter(), free_bytes()
            async with runtime_process([], {**base, **arm.environment}):
                seconds, taken = time.perf_counter() - began, free - free_bytes()
            rows.append(
                {"arm": arm.name, "run": run, "seconds": round(seconds, 1), "device_gib": round(taken / 2**30, 2)}
            )
    return {"start of a runtime": rows}


RUN: dict[str, Callable[..., Any]] = {
    "engine": _engine,
    "closed": _closed,
    "open": _open,
    "live": _live,
    "abuse": _abuse,
    "start": _start,
}


def _base(arguments: argparse.Namespace) -> Environment:
    return variables_of(arguments) | {
        "VOICEWRIGHT_MAX_SLOTS": str(arguments.slots),
        "VOICEWRIGHT_MAX_MODEL_LEN": str(arguments.length),
        "VOICEWRIGHT_MAX_WAITING": str(LINE),
        "VOICEWRIGHT_MAX_CONNECTIONS": str(LINE),
    }


def _rounds(arguments: argparse.Namespace) -> Rounds:
    return Rounds(arguments.warm_up_rounds, arguments.rounds)


def _first_model(settings: Settings) -> Settings:
    return Settings(models=settings.models[:1], limits=settings.limits, engine=settings.engine, modes=settings.modes)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    parser.add_argument("suite", nargs="*", choices=SUITES, help="without one: all")
    add_arms(parser)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--traces", type=Path, metavar="FILE", help="every chunk of every call, a line of JSON a call")
    parser.add_argument("--transports", type=several(str), default=TRANSPORTS, help=f"of {', '.join(TRANSPORTS)}")
    parser.add_argument("--modes", type=several(str), help="of those that the models serve")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--length", type=int, default=2304, help="positions of a slot")
    engine = parser.add_argument_group("engine")
    engine.add_argument("--batches", type=several(int), default=(1, 8, 32, 64))
    engine.add_argument("--contexts", type=several(int), default=(64, 512, 2048))
    engine.add_argument("--frames", type=int, default=30, help="counted at each point")
    engine.add_argument("--peers", type=several(str), default=(), help="faster,official")
    loads = parser.add_argument_group("loads")
    loads.add_argument("--clients", type=several(int), default=(1, 4, 8, 16, 32, 64))
    loads.add_argument("--calls", type=int, default=24, help="counted at each point of a closed loop, at least")
    loads.add_argument("--rounds", type=int, default=ROUNDS.counted, help="the same of each client")
    loads.add_argument("--warm-up-rounds", type=int, default=ROUNDS.warm_up, help="replies of each before them")
    loads.add_argument(
        "--references",
        choices=("kept", "new"),
        default="kept",
        help="new: closed loops of Base, each call its own voice",
    )
    loads.add_argument(
        "--wordings",
        type=several(Wording),
        default=(),
        help=f"of a closed loop's texts, a point each: {', '.join(Wording)}; without any, a table of English sentences",
    )
    loads.add_argument("--reference-seconds", type=several(float), default=(3.0, 10.0), help="of new references")
    loads.add_argument("--rates", type=several(float), default=(1, 4, 10, 20, 40, 60))
    loads.add_argument("--seconds", type=float, default=60.0, help="counted of an open loop")
    loads.add_argument("--warm-up", type=float, default=10.0, help="seconds before them")
    loads.add_argument("--seeds", type=int, default=1, help="runs of an open loop, each with arrivals of its own")
    loads.add_argument("--abuse-rate", type=float, default=0.0, help="requests a second; 0: twice what can be served")
    return parser


if __name__ == "__main__":
    sys.exit(main())
