"""What differs from one kind of device to the next, behind one small interface."""

from runtime.device.interface import Device
from runtime.device.opening import open_device

__all__ = ["Device", "open_device"]
