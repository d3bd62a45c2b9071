"""Benchmark of the engine's parts: times, lower bounds, and times per kernel."""
