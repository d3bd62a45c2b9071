"""Benchmark of the Triton kernels on a CUDA GPU."""
