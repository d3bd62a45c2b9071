"""PyTorch device type ``npu`` for tests: a Python backend over CPU tensors.

After `register`, ``torch.device("npu")`` is a device of this process. An operator raises an error if it mixes NPU
tensors with CPU tensors. Every operator on NPU tensors calls `launch`, which notifies the simulated driver. The CPU
computes the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from runtime.model.products import linear

KIND = "npu"
NPU = torch.device("privateuseone", 0)  # NPU device. The device type has this name until `register` renames it.
CPU = torch.device("cpu")
aten = torch.ops.aten

# Copy operators: they accept tensors of two devices.
ACROSS = {aten.copy_.default, aten._to_copy.default, aten._copy_from.default}
# Operators that create a tensor from numbers in several steps that change its size.
MADE = (aten.arange.default, aten.arange.start, aten.arange.start_step, aten.hann_window.default)
# Composite operators that have their own kernel on the NPU, so they must not be decomposed.
WHOLE = {aten.stft.default, aten.stft.center}
# Operators that change metadata in place, which a wrapper subclass cannot support.
UNKNOWN = {"resize_", "set_", "t_", "transpose_", "squeeze_", "unsqueeze_", "as_strided_", "swapaxes_"}


class Misuse(AssertionError):
    """Error for a call that torch_npu would refuse or compute incorrectly."""


class Driver(Protocol):
    """Interface for an observer that is called for every NPU operator before it is computed.

    PyTorch calls `launch` on the thread that runs the operator.
    """

    def launch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Compute an NPU operator on the CPU, and return the result."""


class NpuTensor(Tensor):
    """Tensor on the NPU, whose data is in the CPU tensor `held`."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor, requires_grad: bool = False) -> NpuTensor:
        # The wrapper is created outside inference mode, because a view that is created in inference mode may have a
        # normal tensor as its base.
        with torch.inference_mode(False):
            made: NpuTensor = Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=NPU,
                requires_grad=requires_grad,
            )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if is_composite(func):  # PyTorch decomposes composites before this point, except in inference mode.
            return func.decompose(*args, **(kwargs or {}))
        return launch(func, args, kwargs or {})

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("the host has no numbers of the NPU's; copy them first")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> Any:  # type: ignore[override]
        return f"NpuTensor({self.held!r})"


class BackendModule:
    """Functions of ``torch.npu`` that PyTorch itself calls.

    All other functions are in torch_npu_stand_in.py.
    """

    stand_in: Any = None

    def is_available(self) -> bool:
        return bool(self.stand_in is not None and self.stand_in.is_available())

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None:
        """Ignore the seed, because no code uses the NPU's random generator."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stand_in, name)


class _State:
    """Current driver, and the library that this process registered with PyTorch."""

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self.module = BackendModule()
        self.library: torch.library.Library | None = None
        self.lock = threading.Lock()


_state = _State()


def register(driver: Driver | None, stand_in: Any = None) -> None:
    """Register the device type with PyTorch once, and set the executor of its operators."""
    with _state.lock:
        if _state.library is None:
            _setup_privateuseone_for_python_backend(rename=KIND, backend_module=_state.module)
            _state.library = torch.library.Library("aten", "IMPL")  # The library must exist as long as the process.
            _state.library.impl("empty.memory_format", _empty, "PrivateUse1")
            _state.library.impl("empty_strided", _empty_strided, "PrivateUse1")
            _state.library.impl("_copy_from", _copy_from, "PrivateUse1")
            for func in MADE:
                _state.library.impl(func.name().removeprefix("aten::"), _made_by(func), "PrivateUse1")
        _state.driver, _state.module.stand_in = driver, stand_in


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **where: Any) -> Any:
    return launch(aten.empty.memory_format, (size,), {"dtype": dtype, "memory_format": memory_format, "device": NPU})


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **where: Any) -> Any:
    return launch(aten.empty_strided.default, (size, stride), {"dtype": dtype, "device": NPU})


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Any:
    """Copy a tensor implicitly, for example the data of ``torch.tensor([1], device="npu")``."""
    return launch(aten.copy_.default, (target, source), {"non_blocking": non_blocking})


def _made_by(func: Any) -> Callable[..., Any]:
    def make(*args: Any, dtype: Any = None, **where: Any) -> Any:
        return launch(func, args, {"dtype": dtype, "device": NPU})

    return make


@cache
def is_composite(func: Any) -> bool:
    """Return True if PyTorch decomposes an operator into others on every device."""
    return func not in WHOLE and torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    )


def changed(values: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to all values in nested containers, and return the copy.

    Args:
        values: Nested values.
        change: Function that is applied to each value that is not a container.
    """
    if isinstance(values, tuple | list):
        return type(values)([changed(value, change) for value in values])
    if isinstance(values, dict):
        return {name: changed(value, change) for name, value in values.items()}
    return change(values)


def launch(func: Any, args: Any, kwargs: Any) -> Any:
    """Call the driver for an operator with NPU tensors, and return the computed result."""
    driver = _state.driver
    return compute(func, args, kwargs) if driver is None else driver.launch(func, args, kwargs)


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute an NPU operator on the CPU, and return its result as NPU tensors.

    Raises:
        Misuse: The arguments mix NPU tensors and CPU tensors.
    """
    inner = _held_of(args, func)
    words = {name: _held_of((value,), func)[0] for name, value in kwargs.items()}
    if func.overloadpacket.__name__ in UNKNOWN:
        raise Misuse(f"{func} is not emulated")
    made = INSTEAD.get(func, func)(*inner, **words)
    if func is aten.copy_.default:
        return args[0]
    if func is aten._to_copy.default and (device := kwargs.get("device")) is not None and device.type != KIND:
        return made
    if type(made) is Tensor:
        first = args[0] if args else None
        return first if type(first) is NpuTensor and made is first.held else NpuTensor(made)
    given = {id(leaf.held): leaf for leaf in args if type(leaf) is NpuTensor}

    def wrapped(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return given[id(leaf)] if id(leaf) in given else NpuTensor(leaf)

    return changed(made, wrapped)


def held(leaf: Any) -> Any:
    """Return the CPU tensor that an NPU tensor contains, or the CPU device for the NPU device.

    All other values are returned unchanged.
    """
    if type(leaf) is NpuTensor:
        return leaf.held
    return CPU if isinstance(leaf, torch.device) and leaf.type == KIND else leaf


def _held_of(values: Any, func: Any) -> list[Any]:
    """Return operator arguments with CPU tensors and devices instead of the NPU's.

    Raises:
        Misuse: An argument is a CPU tensor with at least one dimension.
    """
    inner = []
    for value in values:
        kind = type(value)
        if kind is NpuTensor:
            inner.append(value.held)
        elif kind is tuple or kind is list:
            inner.append(_held_of(value, func))
        elif isinstance(value, Tensor):
            if value.dim() and func not in ACROSS:
                raise Misuse(f"{func}: a tensor of {value.device} among the NPU's")
            inner.append(value)
        else:
            inner.append(CPU if kind is torch.device and value.type == KIND else value)
    return inner


def _mm(rows: Tensor, matrix: Tensor) -> Tensor:
    return linear(rows, matrix.t())


def _addmm(bias: Tensor, rows: Tensor, matrix: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if (beta, alpha) == (1, 1) and bias.dim() == 1:
        return linear(rows, matrix.t(), bias)
    made: Tensor = aten.addmm.default(bias, rows, matrix, beta=beta, alpha=alpha)
    return made


# Batch-invariant matrix multiplications as on the CPU device, so that codes can be compared.
INSTEAD: dict[Any, Callable[..., Any]] = {aten.mm.default: _mm, aten.addmm.default: _addmm}
