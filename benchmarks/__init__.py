"""Benchmarks that measure the speed and the quality of the engine."""
