"""Shared code of the benchmarks: texts, voices, metrics, reports, settings and servers."""
