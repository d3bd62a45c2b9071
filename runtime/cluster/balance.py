"""Load balancing between replicas, as pure functions that use no sockets and no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

MAX_WEIGHT = 256  # Maximum weight of a server in HAProxy.


class ReplicaState(StrEnum):
    """State of a replica in the load balancer."""

    READY = "ready"
    DRAINING = "draining"  # State of a replica that finishes its requests and gets no new requests.


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Checkpoint that a replica serves, as listed by /v1/models."""

    id: str
    created: int  # Unix time at which the replica was created.
    modes: tuple[str, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """Parse an entry of the response of /v1/models."""
        lists = {name: tuple(entry[name]) for name in ("modes", "speakers", "languages")}
        return cls(id=entry["id"], created=entry["created"], **lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Address and checkpoints of a runtime process, as the process reports them."""

    name: str
    host: str
    port: int
    wyoming_port: int = 0  # TCP port on the same host, or 0 if Wyoming is off.
    pool: str
    modes: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...] = ()
    state: ReplicaState = ReplicaState.READY

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load of a replica, as reported by its route /ready."""

    slots: int
    active: int
    waiting: int

    @property
    def free(self) -> float:
        """Number of free slots, or a fraction of a slot if no slot is free.

        The fraction is at most 1/2 and decreases with the length of the queue.
        """
        free = self.slots - self.active - self.waiting
        return float(free) if free > 0 else 1.0 / (2 - free)


def weights(loads: Mapping[str, Load], connections: Mapping[str, int]) -> dict[str, int]:
    """Return server weights that make HAProxy choose the replica with the most free slots.

    HAProxy's ``leastconn`` chooses the server with the smallest quotient (connections + 1) / weight. The number of
    connections is not the number of busy slots, because a WebSocket may be idle for an hour. With the weight
    (connections + 1) * free, the quotient is 1 / free. Until the weights are updated, each new connection increases
    the quotient of its server.

    Args:
        loads: Load by name of the replica.
        connections: Number of connections by name of the replica.

    Returns:
        Weights by name of the replica, which are integers from 1 to 256.
    """
    products = {name: (connections.get(name, 0) + 1) * load.free for name, load in loads.items()}
    largest = max(products.values(), default=1.0)
    return {name: max(1, round(MAX_WEIGHT * weight / largest)) for name, weight in products.items()}
