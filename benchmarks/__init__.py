"""Benchmarks: measurements of speed and quality, not tests."""
