"""Padding and mean of a sequence that fills only the start of a longer buffer.

With buffers of fixed length, one captured graph supports all sequence lengths. `length` is the number of steps in the
sequence, as a scalar tensor on the device. If `length` is None, the sequence fills the buffer, and torch's functions
are used. Values after the end of a sequence are arbitrary but finite, and do not affect earlier values.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def pad_reflect(x: Tensor, left: int, right: int, length: Tensor | None) -> Tensor:
    """Pad both ends of a sequence by reflection.

    The sequence is the first `length` steps of `x`, or all steps if `length` is None.

    Shapes: x [..., T] -> [..., left + T + right].
    """
    if length is None:
        return F.pad(x, (left, right), mode="reflect")
    last = length - 1
    places = last - (last - _places(x, left, right).abs()).abs()
    return x.index_select(-1, places.clamp(min=0))


def pad_replicate(x: Tensor, left: int, right: int, length: Tensor | None) -> Tensor:
    """Pad both ends of a sequence by repetition of the first and the last value.

    The sequence is the first `length` steps of `x`, or all steps if `length` is None.

    Shapes: x [..., T] -> [..., left + T + right].
    """
    if length is None:
        return F.pad(x, (left, right), mode="replicate")
    return x.index_select(-1, _places(x, left, right).clamp(min=0).minimum(length - 1))


def zero_padding(x: Tensor, length: Tensor | None) -> Tensor:
    """Return x with zeros after the first `length` steps, or x if `length` is None.

    Shapes: x, result [..., T].
    """
    return x if length is None else x.masked_fill(padding_mask(x, length), 0)


def masked_mean(x: Tensor, length: Tensor | None) -> Tensor:
    """Return the mean of the first `length` steps of x, or of all steps if it is None.

    Shapes: x [..., T] -> [..., 1].
    """
    if length is None:
        return x.mean(dim=-1, keepdim=True)
    return zero_padding(x, length).sum(dim=-1, keepdim=True) / length


def padding_mask(x: Tensor, length: Tensor) -> Tensor:
    """Return a mask that is True for the steps of x after the first `length` steps.

    Shapes: x [..., T] -> [T] bool.
    """
    return torch.arange(x.shape[-1], device=x.device) >= length


def _places(x: Tensor, left: int, right: int) -> Tensor:
    """Return the index of each padded position in the unpadded sequence."""
    return torch.arange(-left, x.shape[-1] + right, device=x.device)
