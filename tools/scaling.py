"""Simulation of a cluster by discrete events with measured figures: ``python -m tools.scaling --replicas 2 …``.

Every replica makes a frame for all its rows at once, in ``frame_ms`` of one row and ``row_ms`` for each further one.
Listeners come back with the next text as soon as one has ended (closed loop), or at random times (``--rate``).
A new stream goes to the replica with most free slots and waits there where none is free. Where replicas share
processors (``--cores``), as on a machine without cards, each asks for ``--cores-each`` while it works, and all are
slower by what is missing. JSON on stdout.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

FRAME_S = 0.08  # of sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Measurements of one replica: milliseconds a frame, slots, processors."""

    frame_ms: float
    row_ms: float
    slots: int
    cores_each: float = 0.0
    cores: float = 0.0  # of the machine that all replicas share; 0: each has its own device


@dataclass(slots=True)
class Stream:
    """One text being spoken."""

    frames: int
    came: float
    listener: int
    first: float | None = None


@dataclass(slots=True)
class _Replica:
    rows: list[Stream] = field(default_factory=list)
    waiting: deque[Stream] = field(default_factory=deque)
    working: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Results for listeners: seconds of audio a second, and times to the first frame in milliseconds."""

    audio_s_per_s: float
    first_p50_ms: float
    first_p95_ms: float
    streams: int
    most_at_once: int


class Cluster:
    """Replicas and the listeners before them."""

    def __init__(self, figures: Figures, replicas: int, seed: int = 1) -> None:
        self._figures = figures
        self._replicas = [_Replica() for _ in range(replicas)]
        self._events: list[tuple[float, int, int]] = []  # when, order, replica; -1: a listener comes
        self._order = 0
        self._random = random.Random(seed)
        self._now = 0.0

    def closed(self, listeners: int, texts: Sequence[int], each: int) -> Outcome:
        """Let so many listeners have ``each`` so many texts, of these lengths in frames, one after the other."""
        left = {listener: deque(self._random.choice(texts) for _ in range(each)) for listener in range(listeners)}
        for listener in range(listeners):
            self._come(Stream(left[listener].popleft(), 0.0, listener))

        def ended(stream: Stream) -> None:
            if left[stream.listener]:
                self._come(Stream(left[stream.listener].popleft(), self._now, stream.listener))

        return self._run(ended, float("inf"), [])

    def opened(self, rate: float, texts: Sequence[int], seconds: float) -> Outcome:
        """Let listeners come at random, so many a second on average, for so long."""
        arrivals, when = [], 0.0
        while (when := when + self._random.expovariate(rate)) < seconds:
            arrivals.append(when)
        return self._run(lambda _: None, seconds, [(when, self._random.choice(texts)) for when in arrivals])

    def _run(self, ended: Callable[[Stream], None], until: float, arrivals: list[tuple[float, int]]) -> Outcome:
        for number, (when, _) in enumerate(arrivals):
            heapq.heappush(self._events, (when, number - len(arrivals), -1))
        coming = iter(arrivals)
        firsts: list[float] = []
        frames = streams = most = 0
        while self._events:
            self._now, _, number = heapq.heappop(self._events)
            if self._now > until:
                break
            if number < 0:
                self._come(Stream(next(coming)[1], self._now, -1))
                continue
            replica = self._replicas[number]
            replica.working = False
            for stream in tuple(replica.rows):
                frames += 1
                stream.frames -= 1
                if stream.first is None:
                    stream.first = self._now
                    firsts.append((self._now - stream.came) * 1000)
                if not stream.frames:
                    streams += 1
                    replica.rows.remove(stream)
                    ended(stream)
            self._work(number)
            most = max(most, sum(len(one.rows) for one in self._replicas))
        firsts.sort()
        return Outcome(
            audio_s_per_s=round(frames * FRAME_S / self._now, 3) if self._now else 0.0,
            first_p50_ms=round(firsts[len(firsts) // 2], 1) if firsts else 0.0,
            first_p95_ms=round(firsts[int(len(firsts) * 0.95)], 1) if firsts else 0.0,
            streams=streams,
            most_at_once=most,
        )

    def _come(self, stream: Stream) -> None:
        """To the replica with most free slots."""
        number = min(
            range(len(self._replicas)), key=lambda n: len(self._replicas[n].rows) + len(self._replicas[n].waiting)
        )
        self._replicas[number].waiting.append(stream)
        self._work(number)

    def _work(self, number: int) -> None:
        """Begin the replica's next frame, unless it is at one."""
        replica = self._replicas[number]
        if replica.working:
            return
        while replica.waiting and len(replica.rows) < self._figures.slots:
            replica.rows.append(replica.waiting.popleft())
        if not replica.rows:
            return
        replica.working = True
        wall = (self._figures.frame_ms + self._figures.row_ms * (len(replica.rows) - 1)) / 1000
        self._order += 1
        heapq.heappush(self._events, (self._now + wall * self._slowed(), self._order, number))

    def _slowed(self) -> float:
        """By how much all are slower, for want of processors."""
        if not self._figures.cores:
            return 1.0
        wanted = self._figures.cores_each * sum(replica.working for replica in self._replicas)
        return max(1.0, wanted / self._figures.cores)


def fitted(rate_of_one: float, rate_of_many: float, many: int) -> tuple[float, float]:
    """``frame_ms`` and ``row_ms`` of audio seconds a second that one listener and ``many`` got of one replica."""
    one, all_ = FRAME_S / rate_of_one * 1000, many * FRAME_S / rate_of_many * 1000
    return one, (all_ - one) / (many - 1) if many > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--rate-of-one", type=float, required=True, help="audio seconds a second of one listener")
    parser.add_argument("--rate-of-all", type=float, required=True, help="of as many as a replica has slots")
    parser.add_argument("--cores", type=float, default=0.0)
    parser.add_argument("--cores-each", type=float, default=0.0)
    parser.add_argument("--frames", type=int, nargs="+", default=[30, 40, 50], help="lengths of the texts")
    parser.add_argument("--rate", type=float, default=0.0, help="open loop: listeners a second")
    parser.add_argument("--seconds", type=float, default=600.0, help="open loop: for so long")
    told = parser.parse_args()
    frame_ms, row_ms = fitted(told.rate_of_one, told.rate_of_all, told.slots)
    figures = Figures(frame_ms=frame_ms, row_ms=row_ms, slots=told.slots, cores=told.cores, cores_each=told.cores_each)
    cluster = Cluster(figures, told.replicas)
    if told.rate:
        outcome = cluster.opened(told.rate, told.frames, told.seconds)
    else:
        outcome = cluster.closed(told.replicas * told.slots, told.frames, each=20)
    print(json.dumps(asdict(figures) | asdict(outcome)))


if __name__ == "__main__":
    main()
