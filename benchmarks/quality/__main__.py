"""Checks of the engine: codes in batches, quantized weights, and blends of voices.

python -m benchmarks.quality codes --model FOLDER --rows 1,8 [--baseline FILE] [--variant a --variant b:EAGER=1]
python -m benchmarks.quality scores --model FOLDER --weights bfloat16,int8,int4
python -m benchmarks.quality blends --pairs angus+clara,reed+iris

codes   Texts in every mode, alone and in a batch, must have the same codes. Variants are compared with the first
        variant. With `--baseline FILE`, they are also compared with an earlier run, for example a GPU with a CPU
        (`--dtype float32`), or CUDA graphs with eager execution.
scores  A float32 checkpoint speaks eight texts in a batch. The other weight formats are forced to use the same
        codes. The result is the distance of their probabilities from float32: the KL divergence (nats per sample),
        and how often both have the same most probable code. `int8-gpu` is int8 as on a GPU, where activations stay
        bfloat16. `fp8-cache` is float32 with a KV cache in fp8.
blends  Pairs of speakers are blended with six weights. The result is the F0 and the timbre at each weight, and whether
        they move monotonically from the first voice to the second. The exit status is 1 if they do not.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.common.report import comma_separated, create_parser, write_report
from benchmarks.common.variants import add_variants, shared_environment, variants_of
from benchmarks.quality.blends import measure_blends
from benchmarks.quality.codes import CodeRun
from benchmarks.quality.scores import measure_scores
from runtime.errors import SetUpError
from runtime.settings import DEMO_CHECKPOINT

WEIGHTS = ("bfloat16", "int8", "int4")
PAIRS = ("angus+clara", "bruno+mia", "reed+iris", "clara+nora", "owen+angus")


def main() -> int:
    """Run the checks, print and write the results, and return the exit status.

    The exit status is 1 if codes in a batch differ from the codes of single rows, or if a blend is not monotone.
    """
    arguments = _parser().parse_args()
    try:
        if arguments.what == "codes":
            shared = shared_environment(arguments, max_slots=max(arguments.rows), guard=0)
            tables = CodeRun(shared, arguments.rows, arguments.frames, arguments.baseline).run(variants_of(arguments))
        elif arguments.what == "blends":
            environment = {**os.environ, **shared_environment(arguments)}
            tables = {"blends": measure_blends(environment, arguments.pairs, arguments.sentences)}
        else:
            model = (arguments.model or [str(DEMO_CHECKPOINT)])[0]
            tables = {"against float32": measure_scores(model, arguments.weights, arguments.positions)}
    except SetUpError as error:
        print(error, file=sys.stderr)
        return 2
    write_report(tables, arguments.json)
    differ = any(row["codes_differ"] or row["failed"] for row in tables.get("batch", ()))
    return 1 if differ or not all(row["monotone"] for row in tables.get("blends", ())) else 0


def _parser() -> argparse.ArgumentParser:
    parser = create_parser(__doc__)
    parser.add_argument("what", choices=("codes", "scores", "blends"))
    add_variants(parser)
    parser.add_argument("--rows", type=comma_separated(int), default=(1, 8), help="requests at once (codes)")
    parser.add_argument("--frames", type=int, default=100, help="maximum frames of a reply (codes)")
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="file of the results without a batch, read if it exists"
    )
    parser.add_argument(
        "--weights",
        type=comma_separated(str),
        default=WEIGHTS,
        help="of float32, bfloat16, int8, int4, int8-gpu, fp8-cache",
    )
    parser.add_argument("--positions", type=int, default=2000, help="minimum number of compared draws (scores)")
    parser.add_argument("--pairs", type=comma_separated(str), default=PAIRS, help="FIRST+SECOND, … (blends)")
    parser.add_argument("--sentences", type=int, default=24, help="sentences per weight (blends)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
