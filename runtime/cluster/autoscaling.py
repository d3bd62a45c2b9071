"""Autoscaling policy that sets a pool's number of replicas by its fraction of used slots."""

from __future__ import annotations

from math import ceil
from typing import Any


def slots_in_use(context: Any, *, target: float = 0.7) -> tuple[int, dict[str, Any]]:
    """Return the number of replicas that keeps the fraction of used slots at ``target``.

    This function is an autoscaling policy for Ray Serve.

    Args:
        context: `ray.serve.config.AutoscalingContext` with the metrics that the replicas record.
        target: Fraction of slots that should be in use, from 0 to 1.

    Returns:
        Number of replicas before Ray Serve applies the pool's minimum and maximum, and an empty policy state.
    """
    metrics = context.aggregated_metrics or {}
    in_use, slots = (sum(metrics.get(name, {}).values()) for name in ("slots_in_use", "slots"))
    reporting = len(metrics.get("slots", {}))
    if not slots or not reporting:
        return int(context.target_num_replicas), {}
    return replicas_needed(in_use, slots / reporting, target), {}


def replicas_needed(in_use: float, slots_each: float, target: float) -> int:
    """Return the smallest number of replicas that keeps slot usage at or below ``target``.

    Args:
        in_use: Number of slots in use.
        slots_each: Number of slots per replica.
        target: Fraction of slots that should be in use, from 0 to 1.
    """
    return max(1, ceil(in_use / (slots_each * target) - 1e-9))
