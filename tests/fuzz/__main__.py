"""Command for coverage-guided fuzzing: `python -m tests.fuzz FOLDER [--target NAME]`.

`make fuzz` installs atheris and runs this command. Without `--target`, all targets run one after another, and the
result is recorded. An input that crashes a target is stored in FOLDER as `crash-…`. Add that input to
tests/fuzz/test_targets.py as an example.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.mutation import Mutation, mutator

SLOWEST_S = 10  # Time limit of one input in seconds. A longer run counts as a hang.
MAX_MESSAGE_BYTES = 128 * 2**10  # Maximum size of a WebSocket message in bytes.
FIGURE = "Fuzzing by coverage"
SLOW = {"document": 0.02}  # Slow targets, with their number of executions relative to other targets.
EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


def shares(runs: int, names: list[str]) -> dict[str, int]:
    """Divide `runs` executions among the fuzzing targets.

    The result is the number of executions of each target. The last target gets the remainder.
    """
    parts = {name: SLOW.get(name, 1.0) for name in names}
    dealt = {name: int(runs * part / sum(parts.values())) for name, part in parts.items()}
    dealt[names[-1]] += runs - sum(dealt.values())
    return dealt


def fuzz(name: str, folder: Path, runs: int) -> None:
    """Fuzz the target `name` in this process with `runs` inputs.

    libFuzzer ends the process after the last input.
    """
    import atheris

    with atheris.instrument_imports(include=["runtime", "studio"]):
        from tests.fuzz.targets import TARGETS

    if name not in TARGETS:
        raise SystemExit(f"There is no target {name!r}; there are: {', '.join(TARGETS)}")
    target = TARGETS[name]
    corpus = folder / re.sub(r"\W+", "_", name)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    longest = max(MAX_MESSAGE_BYTES, *map(len, target.seeds))
    logging.disable()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as nowhere:
        os.chdir(nowhere)  # The folder is empty, so files that a target writes or opens by name are detected.

        def once(data: bytes) -> None:
            target.run(data)
            assert not os.listdir(nowhere), "it has written a file"

        options = [f"-runs={runs}", f"-timeout={SLOWEST_S}", f"-max_len={longest}", "-rss_limit_mb=4096"]
        arguments = [sys.argv[0], *options, f"-artifact_prefix={corpus}/", "-print_final_stats=1", str(corpus)]
        changes = {"custom_mutator": _mutator(target.mutation)} if target.mutation else {}
        atheris.Setup(arguments, once, **changes)
        atheris.Fuzz()


def _mutator(mutation: Mutation) -> Callable[[bytes, int, int], bytes]:
    import atheris

    # `atheris.Fuzz` replaces `atheris.Mutate`, so each call must look it up again.
    return mutator(mutation, lambda data, most: atheris.Mutate(data, most))


def fuzz_all(folder: Path, runs: int) -> str:
    """Fuzz each target in its own process, and return a summary.

    Raises:
        SystemExit: A target crashed. The message contains its name.
    """
    from tests.fuzz.targets import TARGETS

    executed, began = 0, time.monotonic()
    for name, share in shares(runs, list(TARGETS)).items():
        command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", str(folder), "--target", name]
        done = subprocess.run([*command, "--runs", str(share)], stderr=subprocess.PIPE, text=True, check=False)
        made = EXECUTED.search(done.stderr)
        if done.returncode or made is None:
            raise SystemExit(f"{name}: {done.stderr[-4000:]}")
        executed += int(made[1])
        print(f"{name}: {made[1]}", flush=True)
    minutes = (time.monotonic() - began) / 60
    return f"{executed:,} executions of {len(TARGETS)} targets in {minutes:.0f} minutes: 0 crashes, hangs or files"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("folder", type=Path, help="for corpora and findings")
    parser.add_argument("--target", help="one of tests/fuzz/targets.py; all, if not given")
    parser.add_argument("--runs", type=int, default=1_000_000, help="executions of all targets together")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if arguments.target is not None:
        fuzz(arguments.target, folder, arguments.runs)
        return
    figure = fuzz_all(folder, arguments.runs)
    print(figure)
    from tests.support.promises import record_figures

    record_figures({FIGURE: figure})


if __name__ == "__main__":
    main()
