"""Dispatch mode that detects operators that a device graph cannot capture.

It detects reads by the host, data-dependent shapes, random numbers of the device's generator, copies between devices
and operators that Ascend graphs do not support. Use it with meta tensors: they compute nothing, and their device
reveals every copy from the host.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

READS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "allclose"}
SHAPES = {
    "nonzero",
    "nonzero_numpy",
    "argwhere",
    "masked_select",
    "bincount",
    "unique_dim",
    "unique_consecutive",
    "unique_dim_consecutive",
    "_unique",
    "_unique2",
}
RANDOM = {"multinomial", "bernoulli", "bernoulli_", "rand", "randn", "randint", "randperm", "uniform_", "normal_"}
RANDOM |= {"exponential_", "random_", "native_dropout", "dropout"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
# Operators without aclnn implementation up to torch_npu 2.8.0: "Cannot run aclop operators during NPU graph capture".
WITHOUT_ACLNN = {"__rshift__", "__lshift__", "__irshift__", "__ilshift__"}

# Functions that copy data from the host to tensors or back. A dispatch mode does not see these calls.
FROM_HOST = [(torch, name) for name in ("tensor", "as_tensor", "from_numpy", "asarray")]
TO_HOST = [(Tensor, name) for name in ("tolist", "numpy", "__array__")]

hands_off_threads: set[int] = set()  # IDs of the threads inside `hands_off`, which is not reentrant.


class NotForGraphs(AssertionError):
    """Error for an operation that a graph cannot contain."""


def refuse(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> None:
    """Raise NotForGraphs if a graph cannot contain an operator call with these arguments."""
    name = func.overloadpacket.__name__
    if name in READS:
        raise NotForGraphs(f"{name}: the host reads what the device has computed")
    if name in SHAPES or str(func) == "aten.repeat_interleave.Tensor":
        raise NotForGraphs(f"{name}: a shape that depends on data")
    if name in RANDOM:
        raise NotForGraphs(f"{name}: randomness that does not belong to the request")
    if name in WITHOUT_ACLNN:
        raise NotForGraphs(f"{name}: no operator that Ascend's graphs take")
    indices = leaves(args[1]) if name in INDEXING else ()
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices if isinstance(index, Tensor)):
        raise NotForGraphs(f"{name}: a boolean index, whose shape depends on data")
    if name == "lift_fresh" and args[0].dim():
        raise NotForGraphs("a tensor made of the host's data")
    if len(devices := devices_of((args, kwargs))) > 1:
        raise NotForGraphs(f"{name}: {', '.join(sorted(map(str, devices)))} in one operation")


def devices_of(values: Any) -> set[torch.device]:
    """Return the devices of all tensors in a nested structure of operator arguments."""
    return {leaf.device for leaf in leaves(values) if isinstance(leaf, Tensor)}


def leaves(values: Any) -> Iterator[Any]:
    """Yield all values in nested tuples, lists and dictionaries of operator arguments.

    torch's general tree functions are slower than the operators themselves.
    """
    if isinstance(values, tuple | list):
        for value in values:
            yield from leaves(value)
    elif isinstance(values, dict):
        yield from leaves(list(values.values()))
    else:
        yield values


class GraphLint(TorchDispatchMode):
    """Dispatch mode that raises NotForGraphs for operators that a graph cannot contain."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device, self.operators = device, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        refuse(func, args, kwargs)
        made = func(*args, **kwargs)
        self.operators += 1
        if strange := devices_of((args, made)) - {self.device}:
            raise NotForGraphs(f"{func}: a tensor on {strange.pop()} while the work is {self.device}'s")
        return made


@contextmanager
def linted(device: str | torch.device = "meta") -> Iterator[GraphLint]:
    """Detect operators in the block that a device graph cannot capture.

    `device` is the device whose graphs are checked.

    Raises:
        NotForGraphs: An operator cannot be captured, or the block raised an error. Meta tensors raise if data is read.
    """
    with hands_off(), GraphLint(torch.device(device)) as lint:
        try:
            yield lint
        except (RuntimeError, NotImplementedError) as error:
            raise NotForGraphs(f"{type(error).__name__}: {error}") from error


@contextmanager
def hands_off() -> Iterator[None]:
    """Forbid the current thread to exchange data with the host in the block.

    The thread can neither create tensors from host data nor read tensors.
    """

    def guarded(name: str, original: Any) -> Any:
        def guard(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() in hands_off_threads:
                raise NotForGraphs(f"{name}: the host's data in a graph")
            return original(*args, **kwargs)

        return guard

    with ExitStack() as stack:
        for owner, name in FROM_HOST + TO_HOST:
            stack.enter_context(patch.object(owner, name, guarded(name, getattr(owner, name))))
        hands_off_threads.add(threading.get_ident())
        stack.callback(hands_off_threads.discard, threading.get_ident())
        yield
