"""Autoscaling policy: the number of replicas of a pool, chosen from its slots in use."""

from __future__ import annotations

from math import ceil
from typing import Any


def slots_in_use(context: Any, *, target: float = 0.7) -> tuple[int, dict[str, Any]]:
    """Autoscaling policy of Ray Serve that keeps the fraction of slots in use at ``target``.

    Args:
        context: `ray.serve.config.AutoscalingContext` with the metrics that the replicas record.
        target: Share of the slots that should be in use, from 0 to 1.

    Returns:
        The number of replicas (Serve applies the pool's bounds), and the policy's state, which is empty.
    """
    metrics = context.aggregated_metrics or {}
    in_use, slots = (sum(metrics.get(name, {}).values()) for name in ("slots_in_use", "slots"))
    reporting = len(metrics.get("slots", {}))
    if not slots or not reporting:
        return int(context.target_num_replicas), {}
    return replicas_needed(in_use, slots / reporting, target), {}


def replicas_needed(in_use: float, slots_each: float, target: float) -> int:
    """Return the number of replicas with which ``in_use`` slots are `target` of all slots.

    Args:
        target: Fraction of the slots that should be in use.
    """
    return max(1, ceil(in_use / (slots_each * target) - 1e-9))
