"""Selection of device, dtype and quantization from the settings."""

from __future__ import annotations

import torch

from runtime.device.cpu import CpuDevice, has_bfloat16_instructions
from runtime.device.cuda import CudaDevice
from runtime.device.fused import FP8
from runtime.device.interface import Device
from runtime.device.mps import MpsDevice
from runtime.device.npu import NpuDevice, has_npu
from runtime.device.quantized import Quantization, supported_quantizations, supports_float16, unsupported_message
from runtime.errors import DeviceUnavailable, InvalidSetting

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
FP8_CAPABILITY = (8, 9)  # Minimum CUDA capability for conversions to and from `FP8`.


def open_device(name: str, *, eager: bool = False) -> Device:
    """Open the device `cpu`, `cuda`, `npu` or `mps`, or the best available one for `auto`.

    The order of `auto` is CUDA, NPU, CPU. MPS is untested and must be selected by name. With `eager`, the device does
    not capture graphs.

    Raises:
        DeviceUnavailable: The device is not available.
        InvalidSetting: The name is unknown.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "npu" if has_npu() else "cpu"
    if name == "cpu":
        return CpuDevice()
    if name == "cuda":
        if not torch.cuda.is_available():
            raise DeviceUnavailable(device="cuda", why="torch sees no CUDA device; it may be a CPU build of torch")
        return CudaDevice(eager=eager)
    if name == "npu":
        return NpuDevice(eager=eager)
    if name == "mps":
        if not torch.backends.mps.is_available():
            raise DeviceUnavailable(device="mps", why="torch sees none of Apple's GPUs (macOS 14 on Apple silicon)")
        return MpsDevice()
    raise InvalidSetting(name="device", value=repr(name), why="it must be auto, cpu, cuda, npu or mps")


def choose_dtype(name: str, device: Device, *, is_large: bool = False) -> torch.dtype:
    """Return the torch dtype of the talker and code predictor for a `--dtype` setting.

    Args:
        is_large: True for a large checkpoint published in bfloat16. A CPU with bfloat16 instructions runs such a
            checkpoint in bfloat16, which takes a third of the time and half of the memory of float32.

    Raises:
        InvalidSetting: The name is unknown, or it is float16, which overflows in the 0.6B code predictor
            (docs/model.md 7.2).
    """
    if name == "auto":
        return torch.bfloat16 if is_large and device.name == "cpu" and has_bfloat16_instructions() else device.dtype
    if name == "float16":
        raise InvalidSetting(
            name="dtype",
            value=name,
            why="the code predictor overflows in half precision; use bfloat16 or float32",
        )
    if name not in DTYPES:
        raise InvalidSetting(name="dtype", value=repr(name), why="it must be auto, float32 or bfloat16")
    return DTYPES[name]


def choose_quantization(word: str, device: Device) -> Quantization | None:
    """Return the quantization for a `--quantize` setting, or None if the setting is off.

    Args:
        word: A valid setting other than auto.

    Raises:
        InvalidSetting: The device does not support this quantization.
    """
    if word == "off":
        return None
    kind = Quantization(word)
    if kind not in supported_quantizations(device.name):
        raise InvalidSetting(name="quantize", value=word, why=unsupported_message(kind, device.name))
    return kind


def choose_cache_dtype(name: str, device: Device, dtype: torch.dtype) -> torch.dtype:
    """Return the torch dtype of the KV cache for a `kv_cache` setting.

    Args:
        name: `auto`, which selects `dtype`, or `fp8`.
        dtype: Dtype of the talker.

    Raises:
        InvalidSetting: The device does not support fp8.
    """
    if name == "auto":
        return dtype
    if not (device.name == "cuda" and device.fused(dtype) and torch.cuda.get_device_capability() >= FP8_CAPABILITY):
        why = "it needs an NVIDIA GPU of the Ada generation or later, with Triton and bfloat16"
        raise InvalidSetting(name="kv_cache", value=name, why=why)
    return FP8


def choose_code2wav_dtype(
    name: str, device: Device, dtype: torch.dtype, quantization: Quantization | None
) -> torch.dtype:
    """Return the torch dtype of Code2Wav's matrix products.

    A name other than `auto` selects the dtype with this name. `auto` selects:

    * on a GPU, the device's dtype
    * on a CPU, float32 if the talker has unquantized float32 weights
    * otherwise, the first supported dtype of bfloat16 (not if the talker has float16 weights), float16 and float32.
      With float16, products of many rows are still computed in float32.

    Args:
        name: A valid dtype setting.
        dtype, quantization: Dtype and quantization of the talker and code predictor.
    """
    if name != "auto":
        return DTYPES[name]
    if device.name != "cpu":
        return device.dtype
    if dtype is torch.float32 and quantization is None:
        return torch.float32
    if quantization is not Quantization.FLOAT16 and has_bfloat16_instructions():
        return torch.bfloat16
    return torch.float16 if supports_float16() else torch.float32
