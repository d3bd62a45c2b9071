"""Benchmark of exactness: codes and scores."""
