"""Tests for the availability of the kernels, and for a runtime without Triton."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # what an import finds of a package that is not installed
import runtime.cli, runtime.engine.engine, runtime.device.open_device
from runtime.device.kernels import available, pdl
print(available(), pdl())
"""
WITH_TRITON = "from runtime.device.kernels import available; print(available())"


def said(program: str, **environment: str) -> str:
    known = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=known | environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_runtime_imports_without_triton_and_reports_missing_kernels() -> None:
    assert said(WITHOUT_TRITON, CUDA_VISIBLE_DEVICES="") == "False False"


@pytest.mark.slow
def test_kernels_are_available_with_a_gpu_or_the_interpreter() -> None:
    pytest.importorskip("triton")
    assert said(WITH_TRITON, CUDA_VISIBLE_DEVICES="") == "False"
    assert said(WITH_TRITON, CUDA_VISIBLE_DEVICES="", TRITON_INTERPRET="1") == "True"
