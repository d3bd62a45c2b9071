"""Devices differ behind one small interface: CPU, CUDA and NPU."""

from runtime.device.interface import Device
from runtime.device.open_device import open_device

__all__ = ["Device", "open_device"]
