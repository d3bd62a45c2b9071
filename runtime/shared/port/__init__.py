"""Connections to a listening port, the same for runtime and studio."""
