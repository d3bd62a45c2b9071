"""Fuzzes a target by coverage: `python -m tests.fuzz TARGET FOLDER [--runs N]`. It needs atheris: `make fuzz`.

What ends it badly is kept in FOLDER as `crash-…`; it belongs into tests/fuzz/test_targets.py as an example.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["runtime", "studio"]):
    from tests.fuzz.targets import TARGETS

SLOWEST_S = 10  # of one input: more is a hang
MOST_BYTES = 4096


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=100_000)
    arguments = parser.parse_args()
    target = TARGETS[arguments.target]
    corpus = arguments.folder.resolve() / arguments.target.replace(" ", "_").replace(",", "")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    longest = max(MOST_BYTES, *map(len, target.seeds))
    logging.disable()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as nowhere:
        os.chdir(nowhere)  # what a name leads to would be found here

        def once(data: bytes) -> None:
            target.run(data)
            assert not os.listdir(nowhere), "it has written a file"

        options = [f"-runs={arguments.runs}", f"-timeout={SLOWEST_S}", f"-max_len={longest}", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus}/", "-print_final_stats=1", str(corpus)], once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
