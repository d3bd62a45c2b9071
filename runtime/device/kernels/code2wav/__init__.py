"""Triton kernels of Code2Wav."""
