"""Wyoming, the protocol of Home Assistant's voice services, on its own TCP port."""
