"""Checkpoints of the engine: registry and loader."""
