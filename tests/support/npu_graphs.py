"""Capture and replay of operators with fixed memory addresses, as on a real device.

Tensors that are created during the capture belong to the graph and keep their address. For all other tensors, only the
address is recorded. The replay fails if their memory was freed or moved, because a real device would read wrong data.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from tests.support.graph_lint import NotForGraphs, hands_off, leaves, refuse
from tests.support.npu_backend import INSTEAD, Misuse, NpuTensor, changed, compute, held

__all__ = ["Capture", "Misuse"]


@dataclass(frozen=True, slots=True)
class ExternalTensor:
    """Weak reference to the memory of a tensor that was created before a graph capture."""

    memory: StorageWeakRef
    address: int
    dtype: torch.dtype
    place: tuple[int, tuple[int, ...], tuple[int, ...]]  # Storage offset, size and stride of the tensor.

    @classmethod
    def of(cls, tensor: Tensor) -> ExternalTensor:
        memory = tensor.untyped_storage()
        place = int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()
        return cls(StorageWeakRef(memory), memory.data_ptr(), tensor.dtype, place)

    def tensor(self) -> Tensor:
        """Return a new tensor object for the recorded memory.

        Raises:
            Misuse: The memory was freed or moved.
        """
        memory = torch.UntypedStorage._new_with_weak_ptr(self.memory.cdata)
        if memory is None or memory.data_ptr() != self.address:
            raise Misuse("a graph reads or writes memory that was freed or moved since its capture")
        return torch.empty(0, dtype=self.dtype).set_(memory, *self.place)


class Step(NamedTuple):
    func: Any
    args: Any
    kwargs: Any
    made: list[Tensor]  # Results that are not views of arguments.


def tensor_of(leaf: Any) -> Any:
    return leaf.tensor() if isinstance(leaf, ExternalTensor) else leaf


class Capture:
    """Recorder of a graph capture, with the operators of one thread on one stream."""

    def __init__(self, stream: object) -> None:
        self.stream, self.thread = stream, threading.get_ident()
        self.steps: list[Step] = []
        self._own: dict[int, Tensor] = {}  # Tensors that the graph has created, keyed by address.
        self._hands_off = hands_off()

    def __enter__(self) -> Capture:
        self._hands_off.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hands_off.__exit__(*error)

    def write_down(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Compute an operator, append it to the captured steps, and return its result.

        Raises:
            NotForGraphs: A graph cannot contain the operator.
        """
        refuse(func, args, kwargs)
        given = [held(leaf) for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if func is torch.ops.aten.lift_fresh.default:  # This operator creates a constant.
            self._own[given[0].untyped_storage().data_ptr()] = given[0]
        addresses = {tensor.untyped_storage().data_ptr() for tensor in given}
        arguments, keywords = changed((args, kwargs), self._remember)
        result = compute(func, args, kwargs)
        if any(isinstance(leaf, Tensor) and not isinstance(leaf, NpuTensor) for leaf in leaves(result)):
            raise NotForGraphs(f"{func}: a copy to the host")
        made = [held(leaf) for leaf in leaves(result) if isinstance(leaf, NpuTensor)]
        made = [tensor for tensor in made if tensor.untyped_storage().data_ptr() not in addresses]
        for tensor in made:
            self._own[tensor.untyped_storage().data_ptr()] = tensor
        if not func.overloadpacket.__name__.startswith("empty"):
            self.steps.append(Step(INSTEAD.get(func, func), arguments, keywords, made))
        return result

    @torch.inference_mode()
    def replay(self) -> None:
        for func, args, kwargs, made in self.steps:
            args, kwargs = changed((args, kwargs), tensor_of)
            again = [leaf for leaf in leaves(func(*args, **kwargs)) if isinstance(leaf, Tensor)]
            for old, new in zip(made, again if made else (), strict=bool(made)):
                old.copy_(new)

    def _remember(self, leaf: Any) -> Any:
        leaf = held(leaf)
        if not isinstance(leaf, Tensor) or leaf.untyped_storage().data_ptr() in self._own:
            return leaf
        return ExternalTensor.of(leaf)
