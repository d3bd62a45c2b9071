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


def main() -> None:
    """What the fast path asks for, at one row and at eight."""
    for name, answer in (("pdl", True), ("shared_memory", H200)):
        setattr(small_m_gemm, name, lambda answer=answer: answer)
    for shape in SHAPES:
        for rows in (1, 8):
            print(json.dumps(_compile(*shape, rows)))


def _compile(N: int, K: int, gated: bool, rows: int) -> dict[str, object]:
    weight = torch.empty(2 * N if gated else N, K, device="meta", dtype=torch.bfloat16)
    way = small_m_gemm.way(torch.empty(rows, K, device="meta", dtype=torch.bfloat16), weight, gated=gated)
    assert way is not None
    normed = way.each * PARTS == K
    kernel, constants = small_m_gemm._small_m_gemm_kernel, {
        **{"N": N, "K": K, "NORM": normed, "RESIDUAL": not (normed or gated), "GATED": gated},
        **{"LIVE": way.live, "BM": small_m_gemm.MOST_ROWS, "TILE": way.tile, "PARTS": PARTS},
        **{"EACH": way.each, "AT_ONCE": way.at_once, "PDL": True},
    }  # fmt: skip
    names = kernel.arg_names
    source = GluonASTSource(
        kernel,
        signature={name: TYPES.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in (*TENSORS, *STRIDES)},
    )
    options = {"num_warps": PARTS, "enable_fp_fusion": False, "launch_pdl": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    code = compiled.asm["ptx"]
    steps = ("cp.async.cg.shared.global", "griddepcontrol.launch_dependents", "griddepcontrol.wait", "mma.sync")
    return {
        "shape": (N, K, gated, rows),
        "shared": compiled.metadata.shared,
        "at": [code.find(step) for step in steps],
    }


if __name__ == "__main__":
    main()
