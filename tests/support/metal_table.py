"""Table of the operators of the installed PyTorch that have a Metal kernel for Apple GPUs.

The wheels of torch for all systems contain torchgen and ``native_functions.yaml``. PyTorch decomposes implicit
composites before they reach the device, so only their components are recorded. Explicit composites are recorded as
one operator; this file lists the operators that they need.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torchgen  # type: ignore[import-untyped]
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torchgen.gen import ParsedYaml, parse_native_yaml  # type: ignore[import-untyped]
from torchgen.model import BackendIndex, DispatchKey, NativeFunction  # type: ignore[import-untyped]

# Operators that must have a Metal kernel instead of an explicit composite or a CPU operator.
INSTEAD = {
    "_scaled_dot_product_flash_attention_for_cpu": ("_scaled_dot_product_attention_math_for_mps",),
    "index_put_": ("_index_put_impl_",),
    "index_put": ("_index_put_impl_",),
}
WIDE = {torch.float64, torch.complex128}
# Operators that run on the host, because numpy arrays are cast before the copy.
ON_THE_HOST = {
    "lift_fresh",
    "_to_copy",
    "detach",
}


@cache
def _table() -> tuple[BackendIndex, dict[str, NativeFunction]]:
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed: ParsedYaml = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    return parsed.backend_indices[DispatchKey.MPS], {str(one.func.name): one for one in parsed.native_functions}


def has_kernel(name: str) -> bool:
    """Return True if an operator (name and overload, as ``add.Tensor``) has a Metal kernel."""
    instead = INSTEAD.get(name.partition(".")[0])
    if instead is not None:
        return all(map(has_kernel, instead))
    index, functions = _table()
    found = functions.get(name)
    if found is None:
        return False
    delegate = found.structured_delegate
    if delegate is not None and index.has_kernel(functions[str(delegate)]):
        return True
    return (
        index.has_kernel(found)
        or found.has_composite_explicit_autograd_kernel
        or found.has_composite_implicit_autograd_kernel
    )


class Recorder(TorchDispatchMode):
    """PyTorch dispatch mode that records the names of all operators that run.

    It also records which operators use 64-bit floats.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.wide: set[str] = set()

    def __torch_dispatch__(
        self, func: torch._ops.OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name.removeprefix("aten::") + (f".{over}" if (over := func._schema.overload_name) else "")
        composite = torch._C.DispatchKey.CompositeImplicitAutograd
        if func.has_kernel_for_dispatch_key(composite):
            with self:
                made = func.decompose(*args, **(kwargs or {}))
            if made is not NotImplemented:
                return made
        self.names.add(name)
        if name not in ON_THE_HOST and any(
            isinstance(one, Tensor) and one.dtype in WIDE for one in (*args, *(kwargs or {}).values())
        ):
            self.wide.add(name)
        assert threading.current_thread() is threading.main_thread(), "a mode is of one thread"
        return func(*args, **(kwargs or {}))
