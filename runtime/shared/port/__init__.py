"""Handles connections to a port of ours, the same for the runtime and for the studio."""
