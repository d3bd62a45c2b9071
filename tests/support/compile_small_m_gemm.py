"""Compile products of small_m_gemm for a Hopper, without one, and print what came out, a line each.

    TRITON_INTERPRET=0 python -m tests.support.compile_small_m_gemm

A process of its own: Triton decides at its import whether kernels are interpreted.
"""

from __future__ import annotations

import json

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from runtime.device.kernels import small_m_gemm
from runtime.device.kernels.gemm import PARTS

H200 = 227 * 1024
# Outputs, inputs and gate: with the norm, with a residual, gated, and with more rows than fit at once.
SHAPES = ((4096, 1024, False), (1024, 3072, False), (3072, 1024, True), (2048, 6144, False))
TENSORS = ("x", "w", "norm", "residual", "out")
STRIDES = ("x_stride", "residual_stride", "out_stride")
TYPES = dict.fromkeys(TENSORS, "*bf16") | dict.fromkeys(("M", *STRIDES), "i32") | {"eps": "fp32"}
INT8 = {"w": "*i8", "scale": "*fp32"}


def main() -> None:
    """Compile the kernels of the fast path, for one row and for eight."""
    for name, answer in (("pdl", True), ("wgmma", True), ("shared_memory", H200)):
        setattr(small_m_gemm, name, lambda answer=answer: answer)
    for shape in SHAPES:
        for rows in (1, 8):
            for dtype in (torch.bfloat16, torch.int8):
                print(json.dumps(_compile(*shape, rows, dtype)))


def _compile(N: int, K: int, gated: bool, rows: int, dtype: torch.dtype) -> dict[str, object]:
    weight = torch.empty(2 * N if gated else N, K, device="meta", dtype=dtype)
    tiles = small_m_gemm.choose_tiles(torch.empty(rows, K, device="meta", dtype=torch.bfloat16), weight, gated=gated)
    assert tiles is not None
    normed = tiles.BK * PARTS == K
    kernel = small_m_gemm._small_m_gemm_kernel
    constants: dict[str, int | None] = {
        **{"N": N, "K": K, "NORM": normed, "RESIDUAL": not (normed or gated), "GATED": gated},
        **{"ROWS": tiles.rows, "BM": small_m_gemm.MAX_ROWS, "BN": tiles.BN, "PARTS": PARTS},
        **{"BK": tiles.BK, "ROWS_RESIDENT": tiles.rows_resident, "PDL": True},
    }  # fmt: skip
    names, types = kernel.arg_names, TYPES
    if dtype is torch.int8:
        types = TYPES | INT8
    else:
        constants["scale"] = None
    source = GluonASTSource(
        kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in types if name not in ("M", "eps")},
    )
    options = {"num_warps": PARTS, "enable_fp_fusion": False, "launch_pdl": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    code = compiled.asm["ptx"]
    steps = ("cp.async.cg.shared.global", "griddepcontrol.launch_dependents", "griddepcontrol.wait", "mma.sync")
    return {
        "shape": (N, K, gated, rows, str(dtype)),
        "shared": compiled.metadata.shared,
        "at": [code.find(step) for step in steps],
    }


if __name__ == "__main__":
    main()
