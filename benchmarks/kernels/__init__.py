"""Times of the Triton kernels on a CUDA card."""
