"""Compile products of medium_m_gemm for a Hopper, without one, and print what came out, a line each.

    TRITON_INTERPRET=0 python -m tests.support.compile_medium_m_gemm

A process of its own: Triton decides at its import whether kernels are interpreted.
"""

from __future__ import annotations

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from runtime.device.kernels import medium_m_gemm
from runtime.device.kernels.gemm import PARTS

# Outputs, inputs and gate: all weights ahead, some of them with a residual behind, and gated.
SHAPES = ((4096, 1024, False), (2048, 6144, False), (6144, 2048, True))
TENSORS = ("x", "w", "residual", "out")
STRIDES = ("x_stride", "residual_stride", "out_stride")
TYPES = dict.fromkeys(TENSORS, "*bf16") | dict.fromkeys(("M", *STRIDES), "i32")


def main() -> None:
    """Compile the kernels of frames, for each number of rows that has tiles."""
    for shape in SHAPES:
        for rows, tiles in zip(medium_m_gemm.SIZES, medium_m_gemm.TILES[shape], strict=True):
            if tiles is not None:
                print(json.dumps(_compile(*shape, rows, tiles)))


def _compile(N: int, K: int, gated: bool, rows: int, tiles: medium_m_gemm.MediumTiles) -> dict[str, object]:
    kernel = medium_m_gemm._medium_m_gemm_kernel
    constants: dict[str, int] = {
        **{"N": N, "K": K, "RESIDUAL": N < K, "GATED": gated, "BM": medium_m_gemm.block_rows(rows)},
        **{"BN": tiles.BN, "PARTS": PARTS, "BK": tiles.BK, "PDL": True},
        **{"WEIGHTS_AHEAD": tiles.weights_ahead, "ROWS_AHEAD": tiles.rows_ahead},
    }
    names = kernel.arg_names
    source = GluonASTSource(
        kernel,
        signature={name: TYPES.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in TYPES if name != "M"},
    )
    options = {"num_warps": PARTS, "enable_fp_fusion": False, "launch_pdl": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    code = compiled.asm["ptx"]
    steps = ("cp.async.cg.shared.global", "griddepcontrol.launch_dependents", "griddepcontrol.wait", "mma.sync")
    return {
        "shape": (N, K, gated, rows),
        "shared": compiled.metadata.shared,
        "reckoned": medium_m_gemm.shared_bytes(tiles, rows),
        "at": [code.find(step) for step in steps],
    }


if __name__ == "__main__":
    main()
