"""Benchmark of the engine's parts: times, lower bounds, and times by kernel."""
