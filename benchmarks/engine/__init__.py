"""Benchmark of each part of the engine, such as prefill.

It reports measured times, their theoretical lower bounds, and the kernels that run.
"""
