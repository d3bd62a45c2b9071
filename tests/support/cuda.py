"""Markers of test files whose tests run only with a GPU, or only without one."""

from __future__ import annotations

import pytest
import torch

needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]
# Markers of tests that run kernels in Triton's interpreter, which is slow.
interpreted = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is not needed beside a card"),
]
