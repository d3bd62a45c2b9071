"""Comparison of the speed of several implementations on the same checkpoint and device.

python -m benchmarks.peers ours official --model FOLDER --python official=.venv-oracle/bin/python
python -m benchmarks.peers ours faster --model FOLDER --device cuda --python faster=VENV/bin/python
python -m benchmarks.peers ours c cpp --model FOLDER --variant int8:QUANTIZE=int8
  --program 'c=PATH -d {model} --int8 --text {text} --max-tokens {frames} -o {wav}'
  --program 'cpp=PATH --model TALKER --codec CODEC --speaker NAME --max-new {frames} -o {wav}'

ours      this engine, once for each --variant
official  the published package qwen-tts (tests/golden/oracle_env.sh creates its environment)
faster    the package faster-qwen3-tts
others    programs, each with its own --program: the example uses gabriele-mastrapasqua/qwen3-tts and
          ServeurpersoCom/qwentts.cpp, built from their public sources

Each implementation runs in its own process and gets one request at a time. The time per frame is the difference in time
between a short and a long utterance, divided by their difference in frames. It includes Code2Wav, but not the prompt
and the start. The order is A B … B A, and both runs are shown. Use weights that never generate EOS (`python -m
tests.support.checkpoints FOLDER`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from benchmarks.common.report import Row, create_parser, log_step, write_report
from benchmarks.common.variants import Variant, add_variants, shared_environment, variants_of
from benchmarks.peers.child import PEERS

MAX_RUN_S = 900.0
MAX_ERROR_CHARS = 300


def main() -> int:
    """Measure all implementations twice, print and write the results, and return the status.

    The exit status is 1 if an implementation failed.
    """
    parser = create_parser(__doc__)
    parser.add_argument("peer", nargs="+", help=f"{', '.join(PEERS)}, or the name of a program")
    add_variants(parser)
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a peer")
    parser.add_argument("--program", action="append", default=[], metavar="PEER=COMMAND", help="command of a peer")
    parser.add_argument("--lengths", default="24,72", help="frames of the two utterances")
    parser.add_argument("--once", action="store_true", help="without the second run")
    arguments = parser.parse_args()
    if not arguments.model:
        parser.error("--model is needed")
    variants = variants_of(arguments)
    runs = [(peer, run) for peer in arguments.peer for run in (variants if peer == "ours" else [Variant("", {})])]
    rows = []
    for peer, variant in runs if arguments.once else [*runs, *reversed(runs)]:
        log_step(f"{peer} {variant.name}")
        rows.append(run_peer(peer, variant, arguments))
        write_report({"peers": rows}, arguments.json, shown=["-"])
    write_report({"peers": rows}, arguments.json)
    return 1 if any("error" in row for row in rows) else 0


def run_peer(peer: str, variant: Variant, arguments: argparse.Namespace) -> Row:
    """Measure one implementation in a child process, and return a table row.

    The row has the results or the error message.
    """
    python, program = (dict(pair.split("=", 1) for pair in pairs) for pairs in (arguments.python, arguments.program))
    command = [python.get(peer, sys.executable), "-m", "benchmarks.peers.child", peer, "--model", arguments.model[0]]
    command += ["--lengths", arguments.lengths, "--device", arguments.device or "cpu"]
    command += ["--program", program[peer]] if peer in program else []
    environment = {**os.environ, **shared_environment(arguments), **variant.environment}
    engine = f"{peer} {variant.name}".strip()
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=MAX_RUN_S, check=False)
    except subprocess.TimeoutExpired:
        return {"engine": engine, "error": f"no end within {MAX_RUN_S:g} s"}
    if done.returncode:
        return {"engine": engine, "error": done.stderr.strip().rpartition("\n")[2][:MAX_ERROR_CHARS]}
    return {"engine": engine, **json.loads(done.stdout.strip().rpartition("\n")[2])}


if __name__ == "__main__":
    sys.exit(main())
