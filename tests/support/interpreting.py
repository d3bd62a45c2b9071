"""Fixes for four bugs of Triton 3.6's interpreter on CPU tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter


@contextmanager
def patch_interpreter() -> Iterator[None]:
    """Fix four bugs of Triton's interpreter until the block ends.

    numpy 2.4 refuses loop bounds that are arrays with one number. Products of bfloat16 matrices use the integers that
    store the values. Conversion to bfloat16 truncates instead of rounding. Conversion to fp8 halves values that are
    rounded up to a power of two.
    """
    patch_tensor, dot = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder.create_dot
    convert = interpreter._convert_float

    def patched(tensor: type, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    def dot_of_wide(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot(builder, _wide(a), _wide(b), *rest)

    def rounded(values: Any, source: Any, target: Any, mode: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16:
            bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        if source == tl.float32 and target == tl.float8e4nv:
            wide = torch.from_numpy(np.ascontiguousarray(values).view(np.float32))
            return wide.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        return convert(values, source, target, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_convert_float", rounded)
        patch.setattr(interpreter, "_patch_lang_tensor", patched)
        patch.setattr(interpreter.InterpreterBuilder, "create_dot", dot_of_wide)
        # Overflow checks would compute every sum twice, so they are disabled.
        options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
        patch.setattr(interpreter.interpreter_builder, "options", options)
        yield


def _wide(operand: Any) -> Any:
    if operand.dtype != tl.bfloat16:
        return operand
    data = interpreter._convert_float(operand.data, tl.bfloat16, tl.float32, None).view(np.float32)
    return interpreter.TensorHandle(data, tl.float32)
