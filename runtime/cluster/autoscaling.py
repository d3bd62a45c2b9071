"""Autoscaling policy: the number of replicas of a pool, by its slots in use."""

from __future__ import annotations

from math import ceil
from typing import Any


def slots_in_use(context: Any, *, target: float = 0.7) -> tuple[int, dict[str, Any]]:
    """Ray Serve's policy: as many replicas as keep the share of slots in use at ``target``, within the pool's bounds.

    ``context`` is `ray.serve.config.AutoscalingContext`, with what the replicas record. The second value is Serve's to
    keep; there is nothing to keep.
    """
    metrics = context.aggregated_metrics or {}
    in_use, slots = (sum(metrics.get(name, {}).values()) for name in ("slots_in_use", "slots"))
    reporting = len(metrics.get("slots", {}))
    if not slots or not reporting:
        return int(context.target_num_replicas), {}
    return needed(in_use, slots / reporting, target), {}


def needed(in_use: float, slots_each: float, target: float) -> int:
    """Replicas of ``slots_each`` slots for so many in use at a share of ``target``; at least one."""
    return max(1, ceil(in_use / (slots_each * target) - 1e-9))
