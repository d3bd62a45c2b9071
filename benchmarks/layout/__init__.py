"""A checkpoint in the published layout, with random weights: tiny ones for tests, full-sized ones for benchmarks."""
