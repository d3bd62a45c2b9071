"""Measure the Triton kernels on a GPU, with many launches in one CUDA graph.

python -m benchmarks.kernels launches --batches 1,8,32,64     attention, sampling, frame input and output
python -m benchmarks.kernels tiles --rows 1,32,64             products with all tiles that fit, the fastest first

Launches use several caches and weights in turn, so that data comes from memory and not from the GPU's cache. `bits` is
a hash of the first row's result, which must be equal for all tiles of a product.
"""

from __future__ import annotations

import sys

from benchmarks.common.report import parser_of, report, several
from benchmarks.kernels.launches import launches
from benchmarks.kernels.tiles import search_tiles
from benchmarks.kernels.timing import launch_us


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=("launches", "tiles"))
    parser.add_argument("--only", default="", help="kernels or products whose name contains this")
    parser.add_argument("--batches", type=several(int), default=(1, 8, 32, 64), help="rows of launches")
    parser.add_argument("--rows", type=several(int), default=(1, 32, 64), help="rows of products")
    parser.add_argument("--eight-bits", action="store_true", help="weights of eight bits with a scale per output")
    arguments = parser.parse_args()
    if arguments.what == "tiles":
        rows = search_tiles(arguments.only, arguments.rows, eight_bits=arguments.eight_bits)
    else:
        rows = []
        for case in launches(arguments.batches):
            if arguments.only in case.kernel:
                took = launch_us(case.launch)
                size = {"kernel": case.kernel, "shapes": case.shapes}
                rows.append({**size, "us": round(took, 2), "gb_per_s": round(case.bytes / took / 1000)})
    report({arguments.what: rows}, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
