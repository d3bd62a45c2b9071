"""Capture and replay as a device does them: operators are written down once, with the memory that they use, and done
again without a word of Python.

What was made within belongs to the graph and keeps its place. What came from outside is remembered by its memory
alone: if that was freed or moved meanwhile, the replay says so, where a device would read what now lies there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.graph_lint import hands_off, leaves, refuse


class Misuse(AssertionError):
    """The real library would refuse this, or answer something else than was meant."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A tensor that was there before the capture: where it lay, without keeping it alive."""

    memory: StorageWeakRef
    address: int
    dtype: torch.dtype
    place: tuple[int, tuple[int, ...], tuple[int, ...]]  # offset, size, stride

    @classmethod
    def of(cls, tensor: Tensor) -> Outside:
        memory = tensor.untyped_storage()
        place = int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()
        return cls(StorageWeakRef(memory), memory.data_ptr(), tensor.dtype, place)

    def tensor(self) -> Tensor:
        """Raises Misuse where the memory is gone."""
        memory = torch.UntypedStorage._new_with_weak_ptr(self.memory.cdata)
        if memory is None or memory.data_ptr() != self.address:
            raise Misuse("a graph reads or writes memory that was freed or moved since its capture")
        return torch.empty(0, dtype=self.dtype).set_(memory, *self.place)


class Step(NamedTuple):
    func: Any
    args: Any
    kwargs: Any
    made: list[Tensor]  # that are not views of the arguments


def changed(values: Any, change: Callable[[Any], Any]) -> Any:
    """The same tuples, lists and dictionaries with other leaves."""
    if isinstance(values, tuple | list):
        return type(values)([changed(value, change) for value in values])
    if isinstance(values, dict):
        return {name: changed(value, change) for name, value in values.items()}
    return change(values)


def tensor_of(leaf: Any) -> Any:
    return leaf.tensor() if isinstance(leaf, Outside) else leaf


class Capture(TorchDispatchMode):
    """Entered while a graph is captured. ``current`` is the one that is under way."""

    current: ClassVar[Capture | None] = None

    def __init__(self, stream: object, current_stream: Callable[[], object]) -> None:
        super().__init__()
        self.stream, self._current_stream = stream, current_stream
        self.steps: list[Step] = []
        self._own: dict[int, Tensor] = {}  # by address: memory that the graph has made
        self._hands_off = hands_off()

    def __enter__(self) -> Capture:
        Capture.current = self
        self._hands_off.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._hands_off.__exit__(*error)
        Capture.current = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._current_stream() is not self.stream:
            raise Misuse(f"{func} goes to another stream than the one that is captured")
        refuse(func, args, kwargs)
        given = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if func is torch.ops.aten.lift_fresh.default:  # a number in the code, which a graph holds as it is
            self._own[given[0].untyped_storage().data_ptr()] = given[0]
        addresses = {tensor.untyped_storage().data_ptr() for tensor in given}
        arguments, keywords = changed((args, kwargs), self._remember)
        result = func(*args, **kwargs)
        made = [leaf for leaf in leaves(result) if isinstance(leaf, Tensor)]
        made = [tensor for tensor in made if tensor.untyped_storage().data_ptr() not in addresses]
        for tensor in made:
            self._own[tensor.untyped_storage().data_ptr()] = tensor
        self.steps.append(Step(func, arguments, keywords, made))
        return result

    @torch.inference_mode()
    def replay(self) -> None:
        for func, args, kwargs, made in self.steps:
            args, kwargs = changed((args, kwargs), tensor_of)
            again = [leaf for leaf in leaves(func(*args, **kwargs)) if isinstance(leaf, Tensor)]
            for old, new in zip(made, again if made else (), strict=bool(made)):
                old.copy_(new)

    def _remember(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.untyped_storage().data_ptr() in self._own:
            return leaf
        return Outside.of(leaf)
