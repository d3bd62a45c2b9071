"""Benchmarks that measure speed and quality (they are not tests)."""
