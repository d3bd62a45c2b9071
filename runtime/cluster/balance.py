"""Load balancing policy between replicas, without sockets or a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

MAX_WEIGHT = 256  # Maximum weight in HAProxy.


class ReplicaState(StrEnum):
    """Requests that a replica may receive."""

    READY = "ready"
    DRAINING = "draining"  # No new requests; current speech ends there.


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Checkpoint that a replica serves, as in /v1/models."""

    id: str
    created: int  # Seconds since the epoch.
    modes: tuple[str, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """Return an entry of /v1/models, of which it keeps what a replica has to know of another."""
        lists = {name: tuple(entry[name]) for name in ("modes", "speakers", "languages")}
        return cls(id=entry["id"], created=entry["created"], **lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A runtime process that clients can be connected to, as its own supervisor tells it."""

    name: str
    host: str
    port: int
    wyoming_port: int = 0  # TCP port on the same host; 0: none.
    pool: str
    modes: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...] = ()
    state: ReplicaState = ReplicaState.READY

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Load of a replica, as reported at /ready."""

    slots: int
    active: int
    waiting: int

    @property
    def free(self) -> float:
        """Slots that no request holds or waits for; below one, the smaller the longer the queue is."""
        free = self.slots - self.active - self.waiting
        return float(free) if free > 0 else 1.0 / (2 - free)


def weights(rooms: Mapping[str, Room], connections: Mapping[str, int]) -> dict[str, int]:
    """Weights under which HAProxy's ``leastconn`` takes the replica with most free slots.

    It takes the server with the smallest (connections + 1) / weight. Connections are not slots: a socket may be silent
    for an hour. With weights of (connections + 1) * free that quotient is 1 / free for every server, and each new
    connection, until the weights are told anew, counts for as much of it as connections there have of late.

    ``connections`` are those that each replica has; weights are integers from 1 to 256.
    """
    wanted = {name: (connections.get(name, 0) + 1) * room.free for name, room in rooms.items()}
    most = max(wanted.values(), default=1.0)
    return {name: max(1, round(MAX_WEIGHT * weight / most)) for name, weight in wanted.items()}
