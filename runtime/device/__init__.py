"""Devices behind one common interface: CPU, CUDA, NPU and MPS."""

from runtime.device.interface import Device
from runtime.device.open_device import open_device

__all__ = ["Device", "open_device"]
