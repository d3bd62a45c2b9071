"""Scheduling of requests: validation, waiting queue, decode steps and Code2Wav chunks."""
