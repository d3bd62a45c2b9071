"""Compilation of Triton kernels for a Hopper GPU on a machine without a GPU.

Tests call `compiled`, which runs this module in a separate process. A separate process is needed because Triton decides
at import time whether kernels are interpreted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

LIMIT_S = 280
H200_SHARED_BYTES = 227 * 1024
# Order of the instructions in a kernel that prefetches its weights before the previous kernel has ended.
STEPS = ("cp.async.cg.shared.global", "griddepcontrol.launch_dependents", "griddepcontrol.wait", "mma.sync")
TYPES = dict.fromkeys(("x", "w", "residual", "out"), "*bf16")
TYPES |= dict.fromkeys(("M", "x_stride", "residual_stride", "out_stride"), "i32")

Facts = dict[str, Any]


def compiled(kernel: str) -> list[Facts]:
    """Compile a kernel in all its shapes in a separate process, and return their `Facts`.

    `kernel` is gemm, small_m_gemm or medium_m_gemm. The facts of a shape are its shared memory, and the positions of
    some instructions.
    """
    command = [sys.executable, "-m", "tests.support.compiling", kernel]
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def gemm() -> Iterator[Facts]:
    """Compile the matrix multiplications with int8 weights, once for each tile size.

    Yields:
        The report of each kernel.
    """
    from triton.compiler import ASTSource

    from runtime.device.kernels import gemm, split_k

    types = TYPES | {"w": "*i8", "scale": "*fp32", "bias": "*bf16", "sums": "*fp32"}
    # Measurements showed that these (N, K) shapes are faster with the older instruction if there are few rows.
    for N, K in ((1024, 2048), (1024, 3072), (2048, 1024), (2048, 2048)):
        chosen = {gemm.choose_tiles(N, K, rows, gated=False, eight_bits=True): rows for rows in (16, 64, 128, 256)}
        for tiles, rows in chosen.items():
            constants = {
                **{"N": N, "K": K, "BIAS": False, "RESIDUAL": True, "GATED": False, "PDL": True},
                **{"BM": tiles.BM or min(64, rows), "BN": tiles.BN, "BK": tiles.BK},
                **{"PARTS": tiles.parts, "PREFETCH": tiles.prefetch},
            }  # fmt: skip
            kernel = split_k._stretch if tiles.split_k else gemm._gemm_kernel
            made = _compile(ASTSource, kernel, types, constants, num_warps=tiles.warps, num_stages=tiles.stages)
            code = made.asm["ptx"]
            yield {"shape": (N, K, rows), "wgmma": "wgmma.mma_async" in code, "mma": "mma.sync" in code}


def small_m_gemm() -> Iterator[Facts]:
    """Compile the kernel small_m_gemm in all its variants, and yield one report per variant.

    The variants have one or eight rows, and bfloat16 or int8 weights.
    """
    import torch
    from triton.experimental.gluon._runtime import GluonASTSource

    from runtime.device.kernels import small_m_gemm
    from runtime.device.kernels.gemm import PARTS

    for name, answer in (("pdl", True), ("wgmma", True), ("shared_memory", H200_SHARED_BYTES)):
        setattr(small_m_gemm, name, lambda answer=answer: answer)
    # Each tuple has N, K and gated. The cases are: with the norm, with a residual, gated, and with inputs that do not
    # fit into shared memory at the same time.
    for N, K, gated in ((4096, 1024, False), (1024, 3072, False), (3072, 1024, True), (2048, 6144, False)):
        for rows, dtype in ((rows, dtype) for rows in (1, 8) for dtype in (torch.bfloat16, torch.int8)):
            weight = torch.empty(2 * N if gated else N, K, device="meta", dtype=dtype)
            x = torch.empty(rows, K, device="meta", dtype=torch.bfloat16)
            tiles = small_m_gemm.choose_tiles(x, weight, gated=gated)
            assert tiles is not None
            is_normed, is_int8 = tiles.BK * PARTS == K, dtype is torch.int8
            types = TYPES | {"norm": "*bf16", "eps": "fp32"} | ({"w": "*i8", "scale": "*fp32"} if is_int8 else {})
            constants = {
                **{"N": N, "K": K, "NORM": is_normed, "RESIDUAL": not (is_normed or gated), "GATED": gated},
                **{"ROWS": tiles.rows, "BM": small_m_gemm.MAX_ROWS, "BN": tiles.BN, "PARTS": PARTS},
                **{"BK": tiles.BK, "ROWS_RESIDENT": tiles.rows_resident, "PDL": True},
                **({} if is_int8 else {"scale": None}),
            }  # fmt: skip
            made = _compile(GluonASTSource, small_m_gemm._small_m_gemm_kernel, types, constants, num_warps=PARTS)
            yield {"shape": (N, K, gated, rows, str(dtype)), **_resources(made)}


def medium_m_gemm() -> Iterator[Facts]:
    """Compile the kernel medium_m_gemm for all its tile sizes, and yield a report for each."""
    from triton.experimental.gluon._runtime import GluonASTSource

    from runtime.device.kernels import medium_m_gemm
    from runtime.device.kernels.gemm import PARTS

    # Each tuple has N, K and gated. In some cases all weights are prefetched, and in others only a part of them.
    shapes = (4096, 1024, False), (2048, 6144, False), (6144, 2048, True)
    for (N, K, gated), is_int8 in product(shapes, (False, True)):
        table = medium_m_gemm.EIGHT_BITS if is_int8 else medium_m_gemm.TILES
        types = TYPES | ({"w": "*i8", "scale": "*fp32"} if is_int8 else {})
        for rows, tiles in zip(medium_m_gemm.ROWS, table[N, K, gated], strict=False):
            if tiles is None:
                continue
            constants: dict[str, object] = {
                **{"N": N, "K": K, "RESIDUAL": N < K, "GATED": gated, "BM": medium_m_gemm.block_rows(rows)},
                **{"BN": tiles.BN, "PARTS": PARTS, "BK": tiles.BK, "PDL": True},
                **{"WEIGHTS_AHEAD": tiles.weights_ahead, "ROWS_AHEAD": tiles.rows_ahead},
                **({} if is_int8 else {"scale": None}),
            }
            made = _compile(GluonASTSource, medium_m_gemm._medium_m_gemm_kernel, types, constants, num_warps=PARTS)
            estimated = medium_m_gemm.shared_bytes(tiles, rows, 1 if is_int8 else 2)
            yield {"shape": (N, K, gated, rows, is_int8), "estimated": estimated, **_resources(made)}


def _compile(
    source_type: Any, kernel: Any, types: Mapping[str, str], constants: Mapping[str, object], **options: int
) -> Any:
    """Return a kernel that is compiled with these parameter types.

    All parameters without a type are constants.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    names = kernel.arg_names
    source = source_type(
        kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items() if name in names},
        attrs={
            (names.index(name),): [["tt.divisibility", 16]]
            for name in types
            if name in names and name not in ("M", "eps")
        },
    )
    every = {"enable_fp_fusion": False, "launch_pdl": True, **options}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=every)


def _resources(made: Any) -> Facts:
    """Return a compiled kernel's shared memory in bytes and positions of `STEPS` in its PTX."""
    return {"shared": made.metadata.shared, "at": [made.asm["ptx"].find(step) for step in STEPS]}


if __name__ == "__main__":
    for facts in {"gemm": gemm, "small_m_gemm": small_m_gemm, "medium_m_gemm": medium_m_gemm}[sys.argv[1]]():
        print(json.dumps(facts))
