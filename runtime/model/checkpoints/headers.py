"""Comparison of safetensors headers with the parameters of the networks.

The comparison needs neither torch nor the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.errors import CheckpointInvalid, CheckpointUnsupported

MAX_NAMED = 5  # Maximum number of keys in an error message.
# Dtypes that published weights may have. Weights of another dtype are quantized and need scales.
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """Header of one tensor in a safetensors file."""

    shape: tuple[int, ...]
    dtype: str  # Dtype name of the safetensors format.


Headers = dict[str, TensorHeader]


def check_headers(
    source: object, expected: dict[str, tuple[int, ...]], stored: Headers, rounded: Headers | None = None
) -> list[str]:
    """Check that files contain all tensors that the networks require.

    Args:
        expected: Shapes of the required floating-point tensors by key.
        stored: Headers of the tensors in the files by key.
        rounded: Headers of the required quantized tensors by key. Their dtypes are also checked.

    Returns:
        Keys of tensors that are not required, such as the training state.

    Raises:
        CheckpointInvalid: Tensors are missing or have the wrong shape.
        CheckpointUnsupported: The weights are quantized in an unknown way.
    """
    rounded = rounded or {}
    expected = expected | {key: header.shape for key, header in rounded.items()}
    missing, extra = expected.keys() - stored.keys(), sorted(stored.keys() - expected.keys())
    # Some quantizers store integers under the name of a published tensor. Others replace a tensor by several tensors.
    checked = stored.keys() if missing else stored.keys() & expected.keys()
    kinds = {key: (header.dtype,) for key, header in rounded.items()}
    if others := sorted(
        f"{key} ({stored[key].dtype})" for key in checked if stored[key].dtype not in kinds.get(key, FLOATS)
    ):
        wrong = "of the wrong type:" if rounded else "not floating point:"
        why = f"{list_some(wrong, others)}; quantized weights are not supported"
        raise CheckpointUnsupported(path=source, why=why)
    misshaped = [
        f"{key} {list(stored[key].shape)} instead of {list(shape)}"
        for key, shape in expected.items()
        if key in stored and stored[key].shape != shape
    ]
    # The message also lists unexpected tensors, because a missing tensor may have another name in the file.
    if missing or misshaped:
        complaints = (("missing", missing), ("unexpected", extra), ("misshaped", misshaped))
        why = "; ".join(filter(None, (list_some(problem, sorted(keys)) for problem, keys in complaints)))
        raise CheckpointInvalid(path=source, why=why)
    return extra


def list_some(problem: str, names: Sequence[str]) -> str:
    """Return a text with a problem and up to `MAX_NAMED` names, or "" if there are no names."""
    rest = len(names) - MAX_NAMED
    listed = ", ".join(names[:MAX_NAMED])
    return f"{problem} {listed}" + (f" and {rest} more" if rest > 0 else "") if names else ""
