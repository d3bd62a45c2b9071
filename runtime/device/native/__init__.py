"""Matrix products and decoder layers in C++, compiled once on this machine.

`python -m runtime.device.native` builds the library next to this file, and `make run` builds it after an installation.
Operations that are not in the library use torch's kernels (`runtime.device.quantized`).
"""

from __future__ import annotations

import hashlib
import logging
import platform
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device.cpu import is_x86

log = logging.getLogger(__name__)

HEADERS = ("products.h", "layers.h", "tiles.h")
UNITS = ("products.cpp", "packing.cpp", "decoder.cpp", "code2wav.cpp")
SOURCES = tuple(map(Path(__file__).with_name, (*HEADERS, *UNITS)))
TILE = 16  # Number of outputs that a kernel computes together, as in products.h.
QUAD = 4  # Number of adjacent values of the dimension K in one 32-bit word, as in products.h.
# Values of the enum `Kind` in products.h.
KINDS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
GROUP = 32  # Number of int4 weights that share a scale and an offset. Rows are padded to a multiple of this number.


def library_path() -> Path:
    """Return the path of the library for this source, torch version and CPU architecture."""
    content = b"".join(source.read_bytes() for source in SOURCES)
    key = hashlib.sha256(content + torch.__version__.encode() + platform.machine().encode()).hexdigest()
    return SOURCES[0].parent / "build" / f"products-{key[:16]}.so"


@cache
def is_loaded() -> bool:
    """Load the library of C++ operators if necessary, and return True if it can be used.

    If the library is missing or cannot be loaded, torch's kernels are used, and the reason is logged once.
    """
    path = library_path()
    try:
        torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    except OSError as error:
        reason = (error.__cause__ or error) if path.exists() else "build them with python -m runtime.device.native"
        log.info("frames on the CPU use PyTorch kernels, which are slower than the native ones (%s)", reason)
        return False
    return True


def supports_convolution(dtype: torch.dtype = torch.float32) -> bool:
    """True if the C++ operators should be used for convolutions in `dtype` on this CPU.

    The library must be loaded, and the CPU must have fused multiply-adds of `dtype`. On other CPUs, torch's
    convolutions are faster. On CPUs with AMX, torch's bfloat16 products are used.
    """
    if not is_loaded() or (is_x86() and torch.ops.voicewright.use_level(-1) == 0):
        return False
    return dtype is not torch.bfloat16 or (
        torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()
    )


def float_tiles(weight: Tensor, taps: int = 1) -> Tensor:
    """Rearrange a weight matrix for `convolve_tiles`.

    Shapes: weight [N, taps * C]; result [tiles, taps * C, 16], padded with zeros, or in bfloat16 [tiles, taps * C / 2,
    16, 2] with an even C.
    """
    pair = 2 if weight.dtype is torch.bfloat16 else 1
    each = weight.view(len(weight), taps, -1)
    more = (0, -each.shape[2] % pair, 0, 0, 0, -len(weight) % TILE)
    padded = (F.pad(each, more) if any(more) else each).flatten(1)
    tiles = padded.view(-1, TILE, padded.shape[1] // pair, pair).transpose(1, 2).contiguous()
    return tiles if pair > 1 else tiles.squeeze(3)


def int8_tiles(values: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Rearrange an int8 weight matrix and its scales for `int8_product`.

    Shapes: values [N, K] int8; scales [N] float32; results [tiles, K' / 4, 16, 4] uint8, weights plus 128,
    and [tiles * 16] float32, where K' is K padded to whole groups.
    """
    N, K = values.shape
    padded = F.pad(values, (0, -K % GROUP, 0, -N % TILE)) ^ -128  # In two's complement, XOR with -128 adds 128.
    tiles = padded.view(torch.uint8).view(-1, TILE, padded.shape[1] // QUAD, QUAD).permute(0, 2, 1, 3)
    return tiles.contiguous(), F.pad(scales, (0, -N % TILE))


def int4_blocks(values: Tensor, scales: Tensor, offsets: Tensor) -> Tensor:
    """Rearrange an int4 weight matrix, its scales and its offsets for `int4_product`.

    Shapes: values [N, K] from 0 to 15, where K is a multiple of 32; scales, offsets [N, K / 32]
    bfloat16; result [tiles, K / 32, 320] uint8: values, scales and offsets of a group of 16 outputs.
    """
    more = (0, 0, 0, -len(values) % TILE)
    groups = values.shape[1] // GROUP
    parts = F.pad(values, more).to(torch.uint8).view(-1, TILE, groups, 2, GROUP // 2 // QUAD, QUAD)
    both = (parts[:, :, :, 0] | (parts[:, :, :, 1] << 4)).permute(0, 2, 3, 1, 4).flatten(2)

    def of_tiles(numbers: Tensor) -> Tensor:
        return F.pad(numbers, more).view(-1, TILE, groups).transpose(1, 2).contiguous().view(torch.uint8)

    return torch.cat((both, of_tiles(scales), of_tiles(offsets)), dim=-1)


def quantize_int8_tiles(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize a weight matrix to int8 in the layout of `int8_tiles`.

    Shapes: weight [N, K] of any floating dtype; results as in `int8_tiles`.
    """
    N, K = weight.shape
    tiles = torch.empty((-(-N // TILE), -(-K // GROUP) * GROUP // QUAD, TILE, QUAD), dtype=torch.uint8)
    scales = torch.empty(len(tiles) * TILE)
    torch.ops.voicewright.pack_int8(*_readable(weight), tiles, scales)
    return tiles, scales


def quantize_int4_blocks(weight: Tensor) -> Tensor:
    """Quantize a weight matrix to int4 in the layout of `int4_blocks`.

    Shapes: weight [N, K] of any floating dtype, where N is a multiple of 16 and K of 32; result as in `int4_blocks`.
    """
    N, K = weight.shape
    blocks = torch.empty((N // TILE, K // GROUP, TILE * (GROUP // 2 + 4)), dtype=torch.uint8)
    torch.ops.voicewright.pack_int4(*_readable(weight), blocks)
    return blocks


def _readable(weight: Tensor) -> tuple[Tensor, bool]:
    """Return a contiguous matrix in float32 or bfloat16, and True if the dtype is bfloat16."""
    is_narrow = weight.dtype is torch.bfloat16
    return (weight if is_narrow else weight.float()).contiguous(), is_narrow
