"""Benchmark of the engine's parts: times, lower bounds from the device's rates, and times by kernel."""
