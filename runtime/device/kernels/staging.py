"""Shared code of small_m_gemm and medium_m_gemm: memory layouts and the final sums.

The code is written in Gluon, Triton's lower-level language with explicit layouts. The inner dimension K is divided into
parts. Each warp sums one part, and then the sums of the parts are added in order.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def offsets(dtype: gl.constexpr, R: gl.constexpr, PARTS: gl.constexpr, BK: gl.constexpr):
    """Return three index tensors: parts of K, rows, and elements of a step.

    Shapes: results [PARTS, 1, 1], [1, R, 1], [1, 1, BK].
    """
    VECTOR: gl.constexpr = 128 // dtype.primitive_bitwidth  # Number of elements that a thread copies at once.
    lanes: gl.constexpr = min(32, BK // VECTOR)
    spread: gl.constexpr = gl.BlockedLayout([1, 1, VECTOR], [1, 32 // lanes, lanes], [PARTS, 1, 1], [2, 1, 0])
    part = gl.arange(0, PARTS, gl.SliceLayout(1, gl.SliceLayout(2, spread)))
    row = gl.arange(0, R, gl.SliceLayout(0, gl.SliceLayout(2, spread)))
    k = gl.arange(0, BK, gl.SliceLayout(0, gl.SliceLayout(1, spread)))
    return part[:, None, None], row[None, :, None], k[None, None, :]


@gluon.jit
def allocate(dtype: gl.constexpr, STEPS: gl.constexpr, R: gl.constexpr, PARTS: gl.constexpr, BK: gl.constexpr):
    """Allocate shared memory for tensor core operands, without bank conflicts.

    Shapes: result [STEPS, PARTS, R, BK].
    """
    VECTOR: gl.constexpr = 128 // dtype.primitive_bitwidth
    return gl.allocate_shared_memory(dtype, [STEPS, PARTS, R, BK], gl.SwizzledSharedLayout(VECTOR, 1, 8, [2, 1, 0]))


@gluon.jit
def weights_at(
    w, N: gl.constexpr, K: gl.constexpr, GATED: gl.constexpr, BN: gl.constexpr, PARTS: gl.constexpr, BK: gl.constexpr
):
    """Return the addresses of the weights that a program loads in its first step.

    Shapes: result [PARTS, BN, BK].
    """
    OUTPUTS: gl.constexpr = BN // (1 + GATED)
    part, row, k = offsets(w.dtype.element_ty, BN, PARTS, BK)
    row = gl.program_id(0) * OUTPUTS + row % OUTPUTS + row // OUTPUTS * N
    return w + row * K + part * (K // PARTS) + k


@gluon.constexpr_function
def sums_layout(PARTS: int) -> gl.NVMMADistributedLayout:
    """Return the layout of the tensor cores' sums, where each warp has one part of K.

    Shapes: sums [PARTS, BN, BM].
    """
    return gl.NVMMADistributedLayout([2, 0], [PARTS, 1, 1], [1, 16, 8])


@gluon.constexpr_function
def whole_layout(OUTPUTS: int, GATED: int, PARTS: int) -> gl.BlockedLayout:
    """Return a layout in which one thread has all partial sums of an output and of its gate.

    Shapes: sums [OUTPUTS, BM, 1 + GATED, PARTS].
    """
    wide = min(32, OUTPUTS)
    return gl.BlockedLayout([1, 1, 1 + GATED, PARTS], [wide, 32 // wide, 1, 1], [1, PARTS, 1, 1], [0, 1, 2, 3])


@gluon.constexpr_function
def flat_layout(OUTPUTS: int, PARTS: int) -> gl.BlockedLayout:
    """Return the layout of outputs in which adjacent threads write adjacent memory.

    Shapes: outputs [OUTPUTS, BM].
    """
    wide = min(32, OUTPUTS)
    return gl.BlockedLayout([1, 1], [wide, 32 // wide], [1, PARTS], [0, 1])


@gluon.constexpr_function
def _adjacent_layout(PARTS: int, R: int, BK: int) -> gl.DistributedLinearLayout:
    """Return the register layout of weights or rows [PARTS, R, BK] before `relabel`.

    Each thread has four adjacent elements. Except for the order within each 16 elements of K, the layout matches the
    operands of the tensor cores.
    """
    more_k = [[0, 0, 2**bit] for bit in range(4, BK.bit_length() - 1)]
    more_rows = [[0, 2**bit, 0] for bit in range(4, R.bit_length() - 1)]
    registers = [[0, 0, 1], [0, 0, 2], [0, 8, 0], *more_k, *more_rows]
    lanes = [[0, 0, 4], [0, 0, 8], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    warps = [[2**bit, 0, 0] for bit in range(PARTS.bit_length() - 1)]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [PARTS, R, BK])


@gluon.jit
def relabel(x):
    """Reorder the 8 pairs in each 16 elements of K in [A, B, K] to 0, 2, 4, 6, 1, 3, 5, 7.

    Tensor cores multiply 16 elements of K at once. They expect that each thread has two pairs of elements, eight
    elements apart. With the new order, these are two pairs that are adjacent in memory. Both operands are reordered, so
    the sum of the 16 products does not change.
    """
    A: gl.constexpr = x.shape[0]
    B: gl.constexpr = x.shape[1]
    K: gl.constexpr = x.shape[2]
    return x.reshape([A, B, K // 16, 4, 2, 2]).permute([0, 1, 2, 4, 3, 5]).reshape([A, B, K])


@gluon.jit
def _upcast(weights):
    """Upcast int8 to bfloat16 with half as many instructions as Triton's conversion.

    The lower seven bits of the byte become the mantissa of a number from 128 to 255. Afterwards, 128 is subtracted, or
    256 if the byte is negative.
    """
    return gl.inline_asm_elementwise(
        """{
        .reg .b32 t, a, b;
        prmt.b32 t, $2, 0, 0x4140;
        lop3.b32 a, t, 0x007f007f, 0x43004300, 0xea;
        lop3.b32 b, t, 0x00800080, 0x43004300, 0xea;
        sub.rn.bf16x2 $0, a, b;
        prmt.b32 t, $2, 0, 0x4342;
        lop3.b32 a, t, 0x007f007f, 0x43004300, 0xea;
        lop3.b32 b, t, 0x00800080, 0x43004300, 0xea;
        sub.rn.bf16x2 $1, a, b;
        }""",
        "=r,=r,r",
        [weights],
        dtype=gl.bfloat16,
        is_pure=True,
        pack=4,
    )


@gluon.jit
def upcast_operand(staged, of_sums: gl.constexpr):
    """Load int8 weights [PARTS, BN, BK] from shared memory as the tensor cores' first operand."""
    shape: gl.constexpr = staged.shape
    weights = relabel(_upcast(staged.load(_adjacent_layout(shape[0], shape[1], shape[2]))))
    return gl.convert_layout(weights, gl.DotOperandLayout(0, of_sums, 2), assert_trivial=True)


@gluon.jit
def relabeled_operand(staged, of_sums: gl.constexpr):
    """Load input rows from shared memory as the second operand for int8 weights."""
    shape: gl.constexpr = staged.shape
    rows = relabel(staged.load(_adjacent_layout(shape[0], shape[1], shape[2]))).permute([0, 2, 1])
    return gl.convert_layout(rows, gl.DotOperandLayout(1, of_sums, 2), assert_trivial=True)


@gluon.jit
def scales_of(scale, N: gl.constexpr, GATED: gl.constexpr, OUTPUTS: gl.constexpr, PARTS: gl.constexpr):
    """Load the scales of a program's outputs.

    Shapes: [OUTPUTS, 1, 1 + GATED].
    """
    layout: gl.constexpr = gl.SliceLayout(3, whole_layout(OUTPUTS, GATED, PARTS))
    n = gl.arange(0, OUTPUTS, gl.SliceLayout(1, gl.SliceLayout(2, layout)))
    half = gl.arange(0, 1 + GATED, gl.SliceLayout(0, gl.SliceLayout(1, layout)))
    return gl.load(scale + gl.program_id(0) * OUTPUTS + n[:, None, None] + half[None, None, :] * N)


@gluon.jit
def sum_partials(sums, GATED: gl.constexpr):
    """Add the partial sums of the parts of K in order.

    Shapes: sums [PARTS, BN, BM]; result [OUTPUTS, BM, 1 + GATED].
    """
    PARTS: gl.constexpr = sums.shape[0]
    OUTPUTS: gl.constexpr = sums.shape[1] // (1 + GATED)
    BM: gl.constexpr = sums.shape[2]
    gl.static_assert(PARTS == 4)
    parts = sums.reshape([PARTS, 1 + GATED, OUTPUTS, BM]).permute([2, 3, 1, 0])
    parts = gl.convert_layout(parts, whole_layout(OUTPUTS, GATED, PARTS))
    even, odd = gl.split(parts.reshape([OUTPUTS, BM, 1 + GATED, 2, 2]))
    first, third = gl.split(even)
    second, fourth = gl.split(odd)
    return first + second + third + fourth


@gluon.jit
def compute_outputs(acc, residual_values, dtype: gl.constexpr, GATED: gl.constexpr, flat: gl.constexpr):
    """Return the outputs of a product: silu(gate) * up, or the sums plus a residual.

    Intermediate results are rounded like the results of separate operations.

    Shapes: acc [OUTPUTS, BM, 1 + GATED]; residual_values, result [OUTPUTS, BM].
    """
    if GATED:
        gate, up = gl.split(acc)
        gate = gate.to(dtype).to(gl.float32)
        acc = (gate / (1 + gl.exp(-gate))).to(dtype).to(gl.float32) * up.to(dtype).to(gl.float32)
    else:
        acc = acc.reshape([acc.shape[0], acc.shape[1]])
    acc = gl.convert_layout(acc, flat)
    if residual_values is not None:
        acc = acc.to(dtype).to(gl.float32) + residual_values
    return acc.to(dtype)
