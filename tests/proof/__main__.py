"""Command that measures the promises (guarantees) of docs/reliability.md.

`make proof` runs this command, which writes the results to artifacts/proof.json. With ``--short``, results are printed
but not written.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from benchmarks.common.servers import BenchRuntime, runtime_process
from runtime.settings import DEMO_CHECKPOINT
from tests.proof.clients import bombs, disconnects, drain, stalled_readers
from tests.proof.concurrency import STREAMS as AT_ONCE
from tests.proof.concurrency import busy_loop, reconnects, unfair_client
from tests.proof.crash import STREAMS, crash
from tests.proof.crowd import crowd, overload, queue
from tests.proof.floods import floods
from tests.proof.idle_sockets import SPARE, SPEAKERS, as_many_as_allowed, measure_idle_sockets
from tests.proof.memory import short_of_memory
from tests.proof.network import slow_network
from tests.proof.recovery import recovery
from tests.support.app import running_app
from tests.support.checkpoints import BRIEF, write_checkpoint
from tests.support.promises import holding_tests, record_figures
from tests.support.thorough import ROOT

ONE_THREAD = {"VOICEWRIGHT_THREADS": "1", "OMP_NUM_THREADS": "1"}
FUZZED = {  # For each promise, the property-based tests whose examples are counted.
    "P1": ("tests/fuzz/test_targets.py", "tests/unit/server/native/test_schema.py"),
    "S2": ("tests/unit/shared/audio/test_decoding.py", "tests/unit/voices/test_voice_file.py"),
}
ISOLATION = tuple(f"tests/unit/engine/test_{name}.py" for name in ("leaks", "faults", "batches", "walk"))
PAIRS = ("tests/unit/server/native/test_totality.py", "tests/unit/server/test_dialect_totality.py", "-k", "every_pair")
ELSEWHERE = ("T9",)  # Promises whose results other commands measure.
SEND_S, PING_S = 5.0, 5.0  # Timeout in seconds for a client that reads nothing, and ping interval in seconds.


def process_figure(model: Path, slots: int, form: Callable[[BenchRuntime], Awaitable[str]], **settings: str) -> str:
    """Start a runtime process, measure it, and return the result as text.

    Args:
        model: Checkpoint.
        slots: Number of slots.
        form: Measurement function, which gets the running process.
        settings: Environment variables of the process.
    """

    async def run() -> str:
        arguments = ["--model", str(model), "--max-slots", str(slots)]
        async with runtime_process(arguments, ONE_THREAD | settings) as runtime:
            return await form(runtime)

    return asyncio.run(run())


async def disconnects_figure(runtime: BenchRuntime, count: int) -> str:
    return (await disconnects(runtime, count)).figure


def passed_figure(kind: str, *arguments: str) -> str:
    """Run pytest, and return the number of passed tests as text, followed by `kind`.

    Raises:
        ValueError: A test failed.
    """
    said = _run("-m", "pytest", *arguments)
    (passed,) = re.findall(r"(\d+) passed", said)
    return f"{passed} {kind}, 0 failures"


def cases_figure(tests: list[str]) -> str:
    """Run the test cases of a promise, and return the number of passed test cases as text.

    Promises without a measurement have this result.
    """
    return passed_figure("cases", *(f"tests/{test}" for test in tests))


def runaway_figure(count: int) -> str:
    """Measure runaway speech (speech that does not end) in a separate process.

    The result is a summary of `count` texts.
    """
    return _run("-c", f"from tests.proof.runaway import runaway; print(runaway({count}))").strip()


def crowd_figure(model: Path, count: int) -> str:
    """Measure a runtime with 4 slots under many short requests, and return a summary as text."""

    async def run() -> str:
        async with runtime_process(["--model", str(model), "--max-slots", "4"], ONE_THREAD) as runtime:
            return (await crowd(runtime, count)).figure

    return asyncio.run(run())


async def overload_figure(runtime: BenchRuntime, seconds: float) -> str:
    return (await overload(runtime, 4, seconds)).figure


def crash_figure(model: Path) -> str:
    with running_app(["--model", str(model), "--max-slots", str(STREAMS)]) as app:
        return asyncio.run(crash(app)).figure


def kills_figure(folder: Path, times: int) -> str:
    """Repeatedly kill processes that store recordings or voices, and return a summary.

    After each kill, all files are checked. The function fails if a file is damaged or lost.
    """
    takes = _run("-m", "tests.support.take_writers", str(folder / "takes"), str(times))
    _run("-m", "tests.support.writers", "kill", str(folder / "voices"), str(times))
    of_takes = f"{times} kills of the store's writer, {takes.strip()} writes acknowledged: 0 lost, 0 torn"
    return f"{of_takes}; {times} of a voice's: 0 torn"


def fuzz_figure(paths: tuple[str, ...], profile: str) -> str:
    """Run property-based tests with a Hypothesis profile, and return their number of examples."""
    said = _run("-m", "pytest", "-q", f"--hypothesis-profile={profile}", "--hypothesis-show-statistics", *paths)
    examples = sum(int(count) for count in re.findall(r"(\d+) passing", said))
    return f"{examples} examples, 0 failures"


def _run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def forms(folder: Path, *, short: bool) -> dict[str, Callable[[], str]]:
    """Return the measurement functions of all promises, keyed by the number of the promise.

    Args:
        folder: Empty folder for checkpoints.
        short: True to reduce the duration of all measurements.
    """
    model, cloner = folder / "model", folder / "cloner"
    write_checkpoint(model, BRIEF, "custom_voice", seed=1)
    write_checkpoint(cloner, BRIEF, "base", seed=1)
    profile = "quick" if short else "proof"
    pings = {"VOICEWRIGHT_PING_S": f"{PING_S:.0f}"}
    unread = {"VOICEWRIGHT_SEND_S": f"{SEND_S:.0f}", "VOICEWRIGHT_SEND_BUFFER_BYTES": "4096"}
    idle = 100 if short else as_many_as_allowed(10_000)
    many = {"VOICEWRIGHT_MAX_CONNECTIONS": str(idle + SPEAKERS + SPARE), "VOICEWRIGHT_IDLE_S": "900"}
    no_line = {"VOICEWRIGHT_MAX_WAITING": "0"}
    kept = {"VOICEWRIGHT_VOICES": str(folder / "voices-of-the-loop")}
    measured: dict[str, Callable[[], str]] = {
        "E5": partial(process_figure, cloner, 8, partial(short_of_memory, times=2 if short else 20)),
        "E7": partial(crash_figure, model),
        "E11": partial(crowd_figure, model, 200 if short else 10_000),
        "E12": partial(
            process_figure, DEMO_CHECKPOINT, 4, partial(overload_figure, seconds=6.0 if short else 300.0), **no_line
        ),
        "D1": partial(kills_figure, folder, 10 if short else 500),
        **{number: partial(fuzz_figure, paths, profile) for number, paths in FUZZED.items()},
        "State pairs": partial(passed_figure, "pairs of state and message answered", *PAIRS),
        "Disconnects": partial(process_figure, model, 4, partial(disconnects_figure, count=20 if short else 1000)),
        "Stalled readers": partial(process_figure, model, 24, partial(stalled_readers, send_s=SEND_S), **unread),
        "Idle sockets": partial(process_figure, model, SPEAKERS, partial(measure_idle_sockets, count=idle), **many),
        "Isolation": partial(passed_figure, "tests of E1, E2 and E3", *ISOLATION),
        "Runaway": partial(runaway_figure, 24 if short else 1000),
        "Bombs": partial(process_figure, cloner, 4, partial(bombs, count=20 if short else 100)),
        "Recovery": partial(recovery, folder / "kept", 100 if short else 1000),
        "Slow network": partial(process_figure, model, 24, partial(slow_network, ping_s=PING_S), **pings),
        "Queue": partial(process_figure, DEMO_CHECKPOINT, 4, partial(queue, slots=4, seconds=10.0 if short else 120.0)),
        "Reconnects": partial(process_figure, model, 8, partial(reconnects, count=20 if short else 200)),
        "Unfair client": partial(
            process_figure, model, 4, partial(unfair_client, running=64, seconds=5.0 if short else 60.0)
        ),
        "Event loop": partial(
            process_figure, model, AT_ONCE, partial(busy_loop, seconds=5.0 if short else 120.0), **kept
        ),
        "Floods": partial(process_figure, model, 4, partial(floods, heard=4 if short else 100)),
        "Drain": partial(process_figure, model, 20, partial(drain, streams=20), VOICEWRIGHT_DRAIN_S="240"),
    }
    counted: dict[str, Callable[[], str]] = {
        number: partial(cases_figure, tests) for number, tests in holding_tests().items() if number not in ELSEWHERE
    }
    return measured | {number: form for number, form in counted.items() if number not in measured}


def main() -> None:
    """Run the measurement of each promise, print each result and record it immediately.

    Results that are already recorded remain if a later measurement fails. Short measurements are not recorded.
    """
    parser = argparse.ArgumentParser(prog="make proof", description=__doc__)
    parser.add_argument("--short", action="store_true", help="shorter measurements, and nothing is written")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="E11, P1, Drain, …")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        for number, form in forms(Path(name), short=arguments.short).items():
            if arguments.only is None or number in arguments.only:
                figure = form()
                print(f"{number}: {figure}", flush=True)
                if not arguments.short:
                    record_figures({number: figure})


if __name__ == "__main__":
    main()
