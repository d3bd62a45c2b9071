"""Benchmark of each part of the engine, such as prefill: times, lower bounds and kernels."""
