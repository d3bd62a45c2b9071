"""Decides how HAProxy chooses between replicas: pure policy, no sockets, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MOST = 256  # the largest weight that HAProxy has


class ReplicaState(StrEnum):
    """What may be sent to a replica."""

    READY = "ready"
    DRAINING = "draining"  # nothing new; what it speaks ends there


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A runtime process that clients can be connected to, as its own supervisor tells it."""

    name: str
    host: str
    port: int
    pool: str
    modes: tuple[str, ...]
    speakers: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    state: ReplicaState = ReplicaState.READY

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How busy a replica is, as it says at /ready."""

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
    return {name: max(1, round(MOST * weight / most)) for name, weight in wanted.items()}
