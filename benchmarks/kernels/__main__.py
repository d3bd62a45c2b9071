"""Benchmark that finds the fastest tile sizes of a frame's matrix products on this GPU.

python -m benchmarks.kernels tiles --rows 1,32,64

All tile sizes that fit are measured, with many launches in one CUDA graph. The fastest are printed first. The launches
use several weights in turn, so that the data comes from memory and not from the GPU's cache. The column `bits` is a
hash of the first row's result, which must be equal for all tile sizes of a product. `benchmarks.engine --profile`
measures all other kernels.
"""

from __future__ import annotations

import sys

from benchmarks.common.report import comma_separated, create_parser, write_report
from benchmarks.kernels.tiles import search_tiles


def main() -> int:
    parser = create_parser(__doc__)
    parser.add_argument("what", choices=("tiles",))
    parser.add_argument("--only", default="", help="products whose name contains this")
    parser.add_argument("--rows", type=comma_separated(int), default=(1, 32, 64), help="rows of products")
    parser.add_argument("--eight-bits", action="store_true", help="int8 weights with one scale per output")
    arguments = parser.parse_args()
    rows = search_tiles(arguments.only, arguments.rows, eight_bits=arguments.eight_bits)
    write_report({arguments.what: rows}, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
