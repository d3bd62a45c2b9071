"""Compile products of eight-bit weights for a Hopper, without one, and print which instruction each has, a line each.

    TRITON_INTERPRET=0 python -m tests.support.compile_gemm

A process of its own: Triton decides at its import whether kernels are interpreted.
"""

from __future__ import annotations

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from runtime.device.kernels import gemm, split_k
from runtime.device.kernels.gemm import Tiles

# Outputs, inputs and gate of matrices of which few rows were found to be faster with the older instruction.
SHAPES = ((1024, 2048, False), (1024, 3072, False), (2048, 1024, False), (2048, 2048, False))
ROWS = (16, 64, 128, 256)
TENSORS = {"x": "*bf16", "w": "*i8", "scale": "*fp32", "bias": "*bf16", "residual": "*bf16", "out": "*bf16"}
NUMBERS = dict.fromkeys(("M", "x_stride", "residual_stride", "out_stride"), "i32")
TYPES = TENSORS | NUMBERS | {"sums": "*fp32"}


def main() -> None:
    """A tile once, whatever the rows."""
    for N, K, gated in SHAPES:
        chosen = {gemm.choose_tiles(N, K, rows, gated=gated, eight_bits=True): rows for rows in ROWS}
        for tiles, rows in chosen.items():
            print(json.dumps(_compile(N, K, rows, tiles)))


def _compile(N: int, K: int, rows: int, tiles: Tiles) -> dict[str, object]:
    kernel = split_k._stretch if tiles.split_k else gemm._gemm_kernel
    constants: dict[str, int] = {
        **{"N": N, "K": K, "BIAS": False, "RESIDUAL": True, "GATED": False, "PDL": True},
        **{"BM": tiles.BM or min(64, rows), "BN": tiles.BN, "BK": tiles.BK},
        **{"PARTS": tiles.parts, "PREFETCH": tiles.prefetch},
    }  # fmt: skip
    names = kernel.arg_names
    source = ASTSource(
        kernel,
        signature={name: TYPES.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items() if name in names},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in TYPES if name in names and name != "M"},
    )
    options = {"num_warps": tiles.warps, "num_stages": tiles.stages, "enable_fp_fusion": False, "launch_pdl": True}
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
    return {"shape": (N, K, rows), "wgmma": "wgmma.mma_async" in code, "mma": "mma.sync" in code}


if __name__ == "__main__":
    main()
