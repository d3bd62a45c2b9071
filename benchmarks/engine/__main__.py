"""Benchmark of the parts of the engine: times, lower bounds, and profiles of the kernels.

python -m benchmarks.engine --model FOLDER --batches 1,8,32,64 --prompts 32,128,512
python -m benchmarks.engine --model FOLDER --profile                    also the time of each CUDA kernel
python -m benchmarks.engine --variant graphs --variant eager:EAGER=1    compare settings

A lower bound ("floor") is the larger of two times. The first is the time to read the required bytes at the measured
read rate. These bytes are the weights once per pass, and the keys and values of the batch. The second is the time for
the multiplications at the measured rate of a large matrix product. Both rates are measured in the same run. Lower
bounds for a CPU also assume bfloat16. `voicewright bench` is a shorter benchmark, which also measures TTFA over the
WebSocket.
"""

from __future__ import annotations

import argparse
import sys

import torch

from benchmarks.common.report import Tables, comma_separated, create_parser, write_report
from benchmarks.common.variants import add_variants, shared_environment, variants_of
from benchmarks.engine.lower_bounds import add_lower_bounds, measure_rates
from benchmarks.engine.profiles import profile_parts
from benchmarks.engine.tables import BenchmarkSizes, measure_parts, open_parts
from runtime.engine.capacity.probe import bytes_per_weight
from runtime.errors import SetUpError


def main() -> int:
    """Run the benchmark, print and write the tables, and return the exit status."""
    arguments = _parser().parse_args()
    grid = BenchmarkSizes(arguments.batches, arguments.contexts, arguments.prompts, counted=arguments.frames)
    shared = shared_environment(
        arguments, max_slots=max(arguments.batches), max_model_len=arguments.length, quantize=arguments.quantize
    )
    try:
        variants = [(variant.name, open_parts(variant.settings(shared), grid)) for variant in variants_of(arguments)]
    except SetUpError as error:
        print(error, file=sys.stderr)
        return 2
    rates = measure_rates()
    tables: Tables = {"rates": [rates.row()], **measure_parts(variants, grid)}
    if len(variants) == 1:
        checkpoint = variants[0][1].core.checkpoint
        add_lower_bounds(checkpoint.config, rates, tables, bytes_per_weight(torch.bfloat16, checkpoint.quantization))
    write_report(tables, arguments.json, settings=shared)
    if arguments.profile:
        kernels = profile_parts(variants[0][1], arguments.batches, arguments.prompts, arguments.contexts[0])
        write_report(tables | kernels, arguments.json, shown=[*kernels, "-"], settings=shared)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser, numbers = create_parser(__doc__), comma_separated(int)
    add_variants(parser)
    parser.add_argument("--batches", type=numbers, default=(1, 8, 32, 64))
    parser.add_argument("--contexts", type=numbers, default=(64, 512, 2048), help="positions of the rows of a frame")
    parser.add_argument("--prompts", type=numbers, default=(32, 128, 512))
    parser.add_argument("--frames", type=int, default=30, help="measurements of each part")
    parser.add_argument("--length", type=int, default=2304, help="positions of a slot")
    parser.add_argument("--quantize", help="off, int8 or int4; default: VOICEWRIGHT_QUANTIZE")
    parser.add_argument("--profile", action="store_true", help="also measure kernels (CUDA)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
