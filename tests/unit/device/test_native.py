"""Tests for the C++ matrix multiplications: equal to NumPy and batch-invariant.

The tests cover every instruction set that the processor supports.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from runtime.device import native
from runtime.device.native import __main__ as build
from runtime.device.native import reference
from runtime.device.quantized import (
    GROUP_WEIGHTS,
    Int4,
    Int8,
    NativeFloat16,
    NativeInt4,
    NativeInt8,
    NativeTiles,
    WeightOnlyInt4,
    product_function,
)
from tests.support.examples import examples

ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
BUILT = pytest.mark.skipif(not native.is_loaded(), reason="no C++ compiler built the kernels")
LEVELS = range(torch.ops.voicewright.use_level(-1) + 1 if native.is_loaded() else 0)


@pytest.fixture(params=LEVELS, ids=lambda level: f"level {level}")
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    """Select each instruction set that this processor supports, starting with portable code."""
    torch.ops.voicewright.use_level(request.param)
    yield request.param
    torch.ops.voicewright.use_level(-1)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def expected_int8(x: Tensor, rounded: Int8) -> Tensor:
    values = rounded.values.numpy().astype(np.int64)
    return torch.from_numpy(reference.int8_product(x.numpy(), values, rounded.scales.numpy()))


def expected_int4(x: Tensor, rounded: Int4) -> Tensor:
    values, scales, offsets = (part.float().numpy() for part in (rounded.values, rounded.scales, rounded.offsets))
    return torch.from_numpy(reference.int4_product(x.numpy(), values.astype(np.int64), scales, offsets))


@BUILT
@settings(max_examples=examples(40), deadline=None)
@given(M=st.integers(1, 19), N=st.integers(1, 70), K=st.integers(1, 200), seed=st.integers(0, 2**30))
def test_int8_product_of_any_shape_equals_the_numpy_reference(M: int, N: int, K: int, seed: int) -> None:
    x, rounded = numbers(M, K, seed=seed), Int8.of(numbers(N, K, seed=seed + 1))
    expected = expected_int8(x, rounded)
    for level in LEVELS:
        torch.ops.voicewright.use_level(level)
        assert torch.equal(NativeInt8(rounded)(x), expected), level


@BUILT
@settings(max_examples=examples(40), deadline=None)
@given(M=st.integers(1, 19), N=st.integers(1, 70), groups=st.integers(1, 6), seed=st.integers(0, 2**30))
def test_int4_product_of_any_shape_equals_the_numpy_reference(M: int, N: int, groups: int, seed: int) -> None:
    x, rounded = (
        numbers(M, GROUP_WEIGHTS * groups, seed=seed),
        Int4.of(numbers(N, GROUP_WEIGHTS * groups, seed=seed + 1)),
    )
    expected = expected_int4(x, rounded)
    for level in LEVELS:
        torch.ops.voicewright.use_level(level)
        assert torch.equal(NativeInt4(rounded)(x), expected), level


@BUILT
@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 200)),
    dtype=st.sampled_from((torch.float32, torch.bfloat16, torch.float16)),
    magnitude=st.sampled_from((0.0, 1e-38, 0.02, 1e30)),
    seed=st.integers(0, 2**30),
)
def test_weights_quantized_in_cpp_equal_weights_quantized_by_torch(
    sizes: tuple[int, int], dtype: torch.dtype, magnitude: float, seed: int
) -> None:
    """The weights include ties in rounding, groups of equal weights, and denormal numbers."""
    weight = (numbers(*sizes, seed=seed) * magnitude).to(dtype).nan_to_num()
    weight[0], weight[:, 0] = weight[0].sign(), weight[0, 0]
    eight, packed = Int8.of(weight), NativeInt8(weight)
    assert packed.outputs == len(weight)
    tiles, scales = native.int8_tiles(eight.values, eight.scales)
    assert torch.equal(packed.tiles, tiles)
    assert torch.equal(packed.scales, scales)
    weight = weight.repeat(16, GROUP_WEIGHTS)
    four = Int4.of(weight)
    assert torch.equal(NativeInt4(weight).blocks, native.int4_blocks(four.values, four.scales, four.offsets))


@BUILT
@settings(max_examples=examples(40), deadline=None)
@given(M=st.integers(1, 19), N=st.integers(1, 70), K=st.integers(1, 200), seed=st.integers(0, 2**30))
def test_float16_product_of_any_shape_equals_the_numpy_reference(M: int, N: int, K: int, seed: int) -> None:
    x, weight = numbers(M, K, seed=seed), numbers(N, K, seed=seed + 1)
    weight[0, 0] = 2.0**-24  # Smallest positive number in float16.
    product = NativeFloat16(weight)
    expected = torch.from_numpy(reference.dense_product(x.numpy(), product.weight.float().numpy()))
    for level in LEVELS:
        torch.ops.voicewright.use_level(level)
        assert torch.equal(product(x), expected), level


@BUILT
@settings(max_examples=examples(40), deadline=None)
@given(
    sizes=st.tuples(*(st.integers(1, most) for most in (3, 60, 40, 70, 7, 9))),
    dtype=st.sampled_from(tuple(native.KINDS)),
    seed=st.integers(0, 2**30),
)
def test_convolution_of_any_shape_equals_torch(sizes: tuple[int, ...], dtype: torch.dtype, seed: int) -> None:
    B, T, C, N, taps, dilation = sizes
    x, weight = numbers(B, T + (taps - 1) * dilation, C, seed=seed), numbers(N, C, taps, seed=seed + 1)
    product = NativeTiles(weight.permute(0, 2, 1).flatten(1), dtype, taps)
    x = x.bfloat16().float() if dtype is torch.bfloat16 else x
    expected = F.conv1d(x.transpose(1, 2), weight.to(dtype).float(), dilation=dilation).transpose(1, 2)
    x = x * (1 + 2**-10) if dtype is torch.bfloat16 else x  # The kernels round x to bfloat16 again.
    made = []
    for level in LEVELS:
        torch.ops.voicewright.use_level(level)
        made.append(product.convolve(x, taps, dilation))
    torch.testing.assert_close(made[0], expected, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(other, made[0]) for other in made[1:])


@BUILT
@pytest.mark.parametrize("extreme", [0.0, 1e-38, 1e30])
def test_largest_int8_values_do_not_overflow(level: int, extreme: float) -> None:
    """If weights and inputs are -127 or 127, the 16-bit sums on AVX2 are as large as possible."""
    signs = torch.where(numbers(40, 96) > 0, 1.0, -1.0)
    x = torch.cat((signs[:3], signs[:1] * extreme))
    eight = Int8.of(signs)
    assert torch.equal(NativeInt8(eight)(x), expected_int8(x, eight))
    four = Int4.of(signs)
    assert torch.equal(NativeInt4(four)(x), expected_int4(x, four))


@BUILT
@pytest.mark.parametrize("threads", [1, 2])
def test_native_product_is_batch_invariant(level: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        weight, rows = numbers(1040, 1056), numbers(21, 1056, seed=2)
        for product in (NativeFloat16(weight), NativeInt8(Int8.of(weight)), NativeInt4(Int4.of(weight))):
            whole = product(rows)
            assert all(torch.equal(product(rows[row : row + 1]), whole[row : row + 1]) for row in range(len(rows)))
            assert torch.equal(product(rows[3:14]), whole[3:14])
    finally:
        torch.set_num_threads(before)


@BUILT
def test_non_finite_row_does_not_affect_other_rows_of_a_product(level: int) -> None:
    rows = numbers(3, 64, seed=3)
    for product in (NativeInt8(Int8.of(numbers(32, 64))), NativeInt4(Int4.of(numbers(32, 64)))):
        sane = product(rows)
        for broken in (torch.nan, torch.inf):
            changed = rows.clone()
            changed[1, 7] = broken
            made = product(changed)
            assert not made[1].isfinite().any()
            assert torch.equal(made[[0, 2]], sane[[0, 2]])


@BUILT
def test_bfloat16_rows_and_strided_rows_are_accepted() -> None:
    product, rows = NativeInt4(Int4.of(numbers(32, 64))), numbers(64, 5, seed=3).t()
    assert torch.equal(product(rows), product(rows.contiguous()))
    assert product(rows.bfloat16()).dtype is torch.bfloat16


def test_torch_is_used_without_the_native_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "is_loaded", lambda: False)
    assert isinstance(product_function(Int4.of(numbers(32, 64))), WeightOnlyInt4)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"build them with python -m runtime\.device\.native"),
        (b"of another processor", "products.so: file too short"),
    ],
    ids=["missing", "broken"],
)
def test_log_explains_why_torch_is_used(
    content: bytes | None,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    library = tmp_path / "products.so"
    if content is not None:
        library.write_bytes(content)
    monkeypatch.setattr(native, "library_path", lambda: library)
    caplog.set_level(logging.INFO, native.__name__)
    assert not native.is_loaded.__wrapped__()
    (line,) = caplog.messages
    assert re.search(f"frames on the CPU use PyTorch kernels.*{reason}", line)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(ARM_COMPILER) is None, reason=f"no {ARM_COMPILER}")
def test_arm_compiler_emits_dot_product_instructions(tmp_path: Path) -> None:
    include = Path(torch.__file__).parent / "include"
    flags = ("-O1", "-std=c++20", "-w", "-S", "-I", include)
    for source in native.SOURCES:
        if source.suffix != ".cpp":
            continue
        command = [ARM_COMPILER, *flags, source, "-o", tmp_path / source.name]
        subprocess.run(command, check=True, timeout=build.BUILD_TIMEOUT_S)
    assert "sdot" in (tmp_path / "products.cpp").read_text()


def compiled(source: str, folder: Path, compiler: str = ARM_COMPILER) -> Path:
    """Compile a C++ program without torch, and return the path of the executable."""
    if not all(map(shutil.which, (compiler, ARM_EMULATOR))):
        pytest.skip(f"no {compiler} or {ARM_EMULATOR}")
    (folder / "torch" / "csrc" / "stable").mkdir(parents=True)
    for header in ("library", "ops", "tensor"):
        (folder / "torch" / "csrc" / "stable" / f"{header}.h").touch()
    include = (f"-I{folder}", f"-I{native.SOURCES[0].parent}")
    flags = ("-O2", "-std=c++20", "-static", "-w", *build.NUMERICS)
    command = [compiler, *flags, *include, Path(__file__).with_name(source), "-o", folder / "program"]
    subprocess.run(command, check=True, timeout=build.BUILD_TIMEOUT_S)
    return folder / "program"


@pytest.fixture(scope="module")
def arm_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("emulated_products.cpp", tmp_path_factory.mktemp("arm"))


@pytest.mark.slow
def test_convolution_has_the_same_bits_on_arm_and_x86(tmp_path: Path) -> None:
    arm = (ARM_EMULATOR, compiled("emulated_convolution.cpp", tmp_path / "arm"))
    here = compiled("emulated_convolution.cpp", tmp_path / "here", "g++")
    for sizes in ((0, 1, 1, 20, 70, 1, 1), (1, 1, 1, 20, 70, 1, 1), (0, 3, 2, 9, 33, 2, 1), (1, 2, 13, 5, 24, 7, 3)):
        kind, B, T, C, N, taps, dilation = sizes  # In products.h, kind 0 is float32 and kind 1 is float16.
        weight = numbers(N, taps * C, seed=1).to((torch.float32, torch.float16)[kind])
        x, vectors = numbers(B, T + (taps - 1) * dilation, C), 9 * numbers(3, N + -N % native.TILE, seed=2)
        parts = x, vectors, numbers(B, T, N, seed=3), native.float_tiles(weight)
        content = b"".join(part.numpy().tobytes() for part in parts)
        results = []
        for command in ((*arm, 0), *((here, level) for level in LEVELS)):
            text = map(str, (*command, *sizes))
            results.append(subprocess.run([*text], input=content, check=True, capture_output=True).stdout)
        assert len(results[0]) == 2 * B * T * N * 4
        assert all(result == results[0] for result in results[1:]), sizes


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1], ids=["portable", "dot products"])
@pytest.mark.parametrize(("M", "N", "K"), [(1, 16, 32), (3, 40, 96), (9, 17, 224), (19, 70, 160)])
def test_arm_products_equal_the_numpy_reference_under_emulation(
    arm_program: Path, level: int, M: int, N: int, K: int
) -> None:
    x, weight = numbers(M, K), numbers(N, K, seed=1)
    # The signs ±1 become the largest values in 4 and in 8 bits.
    weight[:, :GROUP_WEIGHTS] = weight[:, :GROUP_WEIGHTS].sign()
    eight, four, half = Int8.of(weight), Int4.of(weight), weight.half()
    tiles = native.int8_tiles(eight.values, eight.scales)
    blocks = native.int4_blocks(four.values, four.scales, four.offsets)
    for kind, parts, expected in (  # The first value is a kind of weight in products.h.
        (1, (half,), torch.from_numpy(reference.dense_product(x.numpy(), half.float().numpy()))),
        (3, tiles, expected_int8(x, eight)),
        (4, (blocks,), expected_int4(x, four)),
    ):
        content = b"".join(part.contiguous().numpy().tobytes() for part in (x, *parts))
        command = [ARM_EMULATOR, "-cpu", "max", arm_program, *map(str, (kind, level, M, N, K))]
        made = subprocess.run(command, input=content, check=True, capture_output=True, timeout=60).stdout
        assert np.array_equal(np.frombuffer(made, np.float32).reshape(M, N), expected.numpy()), kind


def test_missing_or_broken_compiler_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "library_path", lambda: tmp_path / "build" / "products.so")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "No C++ compiler was found" in build.build()
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false" if name == "c++" else None)
    assert "could not build" in build.build()
    assert not any((tmp_path / "build").iterdir())
