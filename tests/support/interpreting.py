"""Triton kernels on CPU tensors, where there is no card. Import this before any kernel."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton.language as tl
from triton.runtime import interpreter

_patch = interpreter._patch_lang_tensor
_dot = interpreter.InterpreterBuilder.create_dot


def _patch_with_index(tensor: Any, scope: Any) -> None:
    """Triton 3.6 makes loop bounds of arrays of one number, which NumPy 2.4 no longer takes for integers."""
    _patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def _wide(operand: Any) -> Any:
    if operand.dtype != tl.bfloat16:
        return operand
    data = interpreter._convert_float(operand.data, tl.bfloat16, tl.float32, None).view(np.float32)
    return interpreter.TensorHandle(data, tl.float32)


def _dot_of_wide(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
    """Triton 3.6 multiplies bfloat16 as the integers that it is stored as."""
    return _dot(builder, _wide(a), _wide(b), *rest)


interpreter._patch_lang_tensor = _patch_with_index
interpreter.InterpreterBuilder.create_dot = _dot_of_wide
