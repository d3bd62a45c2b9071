"""Directory of replicas: a Ray actor with the state of all replicas.

Each replica reports its state every second, and ingresses read the states. If the actor fails, ingresses keep the last
known states until the replicas have reported to a new actor.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from runtime.cluster.balance import Checkpoint, Replica, ReplicaState

REPORT_INTERVAL_S = 1.0  # Interval between two reports of a replica.
# Timeout after which a replica that does not report is removed. HAProxy detects a failed replica much earlier.
REPORT_TIMEOUT_S = 5.0
DRAIN_TIMEOUT_S = 5.0  # Timeout until all ingresses have stopped sending requests to a draining replica.
INGRESS_TIMEOUT_S = 3.0  # Timeout after which an ingress that does not read the directory is ignored.


class Directory:
    """Ray actor that stores the address and the state of each replica by name.

    Thread: event loop.
    """

    def __init__(self) -> None:
        self._replicas: dict[str, Replica] = {}
        self._seen: dict[str, float] = {}  # Time of each replica's last report, by name.
        self._version = 0  # Number that increases with every change that ingresses must apply.
        # Version that each ingress has applied, and time of its last read.
        self._applied: dict[str, tuple[int, float]] = {}

    async def report(self, replica: Replica) -> list[Checkpoint]:
        """Register a replica, or update the stored state of a known replica.

        Return the checkpoints of all replicas without duplicates.
        """
        known = self._replicas.get(replica.name)
        if known is not None and known.state is ReplicaState.DRAINING:
            replica = replace(replica, state=ReplicaState.DRAINING)
        if known != replica:
            self._version += 1
        self._replicas[replica.name] = replica
        self._seen[replica.name] = time.monotonic()
        served = (checkpoint for each in self._replicas.values() for checkpoint in each.checkpoints)
        return sorted(set(served), key=lambda checkpoint: (checkpoint.id, checkpoint.modes))

    async def leave(self, name: str) -> None:
        """Remove a replica from the directory."""
        self._seen.pop(name, None)
        if self._replicas.pop(name, None) is not None:
            self._version += 1

    async def drain(self, name: str) -> None:
        """Mark a replica as draining, and wait until no ingress sends it new requests.

        The wait ends after `DRAIN_TIMEOUT_S`.
        """
        known = self._replicas.get(name)
        if known is None:
            return
        self._replicas[name] = replace(known, state=ReplicaState.DRAINING)
        self._version += 1
        target, end = self._version, time.monotonic() + DRAIN_TIMEOUT_S
        while time.monotonic() < end and any(  # noqa: ASYNC110  A lost ingress is only known by its last read.
            version < target for version, when in self._applied.values() if time.monotonic() - when < INGRESS_TIMEOUT_S
        ):
            await asyncio.sleep(0.02)

    async def replicas(self, ingress: str, applied_version: int) -> tuple[int, list[Replica]]:
        """Return the version of the directory and all replicas.

        Args:
            ingress: Name of the calling ingress.
            applied_version: Last version whose changes this ingress has applied to its HAProxy.
        """
        now = time.monotonic()
        self._applied[ingress] = (applied_version, now)
        for name in [name for name, when in self._seen.items() if now - when > REPORT_TIMEOUT_S]:
            await self.leave(name)
        return self._version, list(self._replicas.values())
