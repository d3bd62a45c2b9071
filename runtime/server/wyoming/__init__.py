"""Wyoming, the protocol of Home Assistant's voice services, on a separate TCP port."""
