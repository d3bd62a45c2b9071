"""Code that the benchmarks share, such as texts, metrics, reports and server processes."""
