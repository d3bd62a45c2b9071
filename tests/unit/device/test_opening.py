"""Tests for the settings `--device` and `--dtype` and their error messages."""

from __future__ import annotations

import pytest
import torch

from runtime.device.cpu import CpuDevice
from runtime.device.open_device import choose_cache_dtype, choose_dtype, choose_quantization, open_device
from runtime.device.quantized import Quantization, cpu_quantizations
from runtime.errors import DeviceUnavailable, InvalidSetting


def test_device_auto_selects_the_cpu_without_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_device("auto").name == open_device("cpu").name == "cpu"
    with pytest.raises(DeviceUnavailable, match="torch sees no CUDA device"):
        open_device("cuda")


def test_unavailable_device_is_refused() -> None:
    with pytest.raises(DeviceUnavailable, match="npu"):
        open_device("npu")


@pytest.mark.parametrize("name", ["", "gpu", "CPU", "cuda:0"])
def test_error_about_an_unknown_device_lists_the_available_devices(name: str) -> None:
    with pytest.raises(InvalidSetting, match="auto, cpu, cuda, npu or mps"):
        open_device(name)


@pytest.mark.parametrize(
    ("name", "dtype"), [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_cpu_uses_float32_by_default(name: str, dtype: torch.dtype) -> None:
    assert choose_dtype(name, CpuDevice()) is dtype


def test_half_precision_on_cpu_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidSetting, match="overflows in half precision; use bfloat16 or float32"):
        choose_dtype("float16", CpuDevice())


@pytest.mark.parametrize("name", ["", "fp32", "int8"])
def test_error_about_an_unknown_dtype_lists_the_available_dtypes(name: str) -> None:
    with pytest.raises(InvalidSetting, match="auto, float32 or bfloat16"):
        choose_dtype(name, CpuDevice())


@pytest.mark.parametrize("name", ["cpu", "cuda", "npu"])
def test_fp8_cache_is_refused_without_kernels_for_it(name: str) -> None:
    assert choose_cache_dtype("auto", device_named(name), torch.bfloat16) is torch.bfloat16
    with pytest.raises(InvalidSetting, match="kv_cache is fp8: it needs an NVIDIA GPU of the Ada generation or later"):
        choose_cache_dtype("fp8", device_named(name), torch.bfloat16)


def device_named(name: str) -> CpuDevice:
    device = CpuDevice()
    device.name = name
    return device


@pytest.mark.parametrize("name", ["cpu", "cuda", "npu"])
def test_published_weight_dtype_works_on_every_device(name: str) -> None:
    assert choose_quantization("off", device_named(name)) is None


@pytest.mark.parametrize("kind", cpu_quantizations())
def test_cpu_supports_quantized_weights(kind: Quantization) -> None:
    assert choose_quantization(kind, CpuDevice()) is kind


def test_int8_is_the_only_quantization_on_cuda_and_npus_have_none() -> None:
    assert choose_quantization("int8", device_named("cuda")) is Quantization.INT8
    with pytest.raises(InvalidSetting, match="quantize is int4: the device is cuda, and int4 needs a CPU"):
        choose_quantization("int4", device_named("cuda"))
    with pytest.raises(InvalidSetting, match="the device is npu, and int8 needs a CPU or a CUDA card"):
        choose_quantization("int8", device_named("npu"))
