"""Speaks Wyoming, the protocol of Home Assistant's voice services, on a TCP port of its own."""
