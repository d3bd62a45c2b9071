"""Load plans: the texts and times of requests, and the behaviour of each client."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count, takewhile

from benchmarks.common.texts import Dataset
from benchmarks.common.voices import NewVoices
from runtime.request import Mode


class ClientBehaviour(StrEnum):
    """Behaviour of a client during a request, for example slow reading."""

    WHOLE = "whole"  # The client sends the complete text and reads immediately.
    CANCEL = "cancel"  # The client cancels the request before its end.
    SLOW = "slow"  # The client reads at half of real time.
    WORDS = "words"  # The client sends one word every 10 ms.
    TOKENS = "tokens"  # The client sends text like a language model, at 30 tokens per second.


# Seconds between words. A word of the datasets counts as one token.
PACE_S = {ClientBehaviour.WORDS: 0.010, ClientBehaviour.TOKENS: 1 / 30}


@dataclass(frozen=True, slots=True)
class Rounds:
    """Numbers of requests per client in a closed loop, for warm-up and measurement."""

    warm_up: int = 2
    counted: int = 4

    def with_calls(self, calls: int, clients: int) -> Rounds:
        """Return a copy with enough requests per client for at least `calls` counted requests.

        `clients` is the number of clients in the closed loop.
        """
        return replace(self, counted=max(self.counted, -(-calls // clients)))


@dataclass(frozen=True, slots=True)
class Call:
    """Speech request of a load plan.

    Attributes:
        at_s: Time of sending in an open loop, in seconds from the start of the loop.
        cut_s: Seconds from sending to cancelling if `manner` is `CANCEL`.
    """

    number: int
    text: str
    frames: int
    is_counted: bool = True
    at_s: float = 0.0
    manner: ClientBehaviour = ClientBehaviour.WHOLE
    cut_s: float = 0.0
    language: str = "english"


@dataclass(frozen=True, slots=True)
class Workload:
    """Settings that all requests of a load plan share.

    Attributes:
        voices: Reference recordings for the mode `base`, one per request, or None for the default voice of the mode.
        cancels, slow: Fractions of requests whose client cancels or reads slowly. These requests are not counted.
    """

    mode: Mode
    dataset: Dataset = Dataset.SENTENCES
    manner: ClientBehaviour = ClientBehaviour.WHOLE
    voices: NewVoices | None = None
    cancels: float = 0.0
    slow: float = 0.0

    def call(self, number: int, seed: int = 0) -> Call:
        """Return the request with this number.

        Its text depends on the number, and its behaviour on the number and `seed`.
        """
        text = self.dataset.text(number)
        frames = self.dataset.frames(text)
        call = Call(number, text, frames, manner=self.manner, language=self.dataset.language)
        fate = uniform_random(seed, number, "fate")
        if fate < self.cancels:
            cut_s = frames * 0.08 * uniform_random(seed, number, "cut") / 4
            return replace(call, manner=ClientBehaviour.CANCEL, cut_s=cut_s, is_counted=False)
        if fate < self.cancels + self.slow:
            return replace(call, manner=ClientBehaviour.SLOW, is_counted=False)
        return call


@dataclass(frozen=True, slots=True)
class Plan:
    """Requests of a load test in the order of sending.

    `clients` is the number of concurrent clients of a closed loop, or 0 for an open loop.
    """

    load: Workload
    clients: int
    calls: tuple[Call, ...]

    def split(self, processes: int) -> list[Plan]:
        """Split the plan between up to `processes` client processes.

        There are fewer plans than processes if there are fewer clients.
        """
        count = min(processes, self.clients or processes)
        return [
            replace(self, clients=len(range(first, self.clients, count)), calls=self.calls[first::count])
            for first in range(count)
        ]


def closed_loop(load: Workload, clients: int, rounds: Rounds, start: int = 0) -> Plan:
    """Create the plan of a closed loop, in which each client sends one request after another.

    The plan starts with warm-up requests.

    Args:
        load: Settings of all requests.
        clients: Number of concurrent clients.
        rounds: Number of requests per client.
        start: Number of the first request.
    """
    warm_up = rounds.warm_up * clients
    calls = (
        replace(call, is_counted=call.is_counted and number >= warm_up)
        for number in range(warm_up + rounds.counted * clients)
        for call in (load.call(start + number),)
    )
    return Plan(load, clients, tuple(calls))


def open_loop(load: Workload, rate: float, seconds: float, seed: int, warm_up_s: float = 0.0) -> Plan:
    """Create the plan of an open loop, in which requests arrive as a Poisson process.

    Requests during the warm-up are not counted.

    Args:
        load: Settings of all requests.
        rate: Requests per second.
        seconds: Duration after the warm-up.
        seed: Seed of the random numbers.
        warm_up_s: Duration of the warm-up in seconds.
    """
    times = takewhile(lambda at: at < warm_up_s + seconds, poisson_arrivals(rate, seed))
    calls = (
        replace(call, at_s=round(at, 6), is_counted=call.is_counted and at >= warm_up_s)
        for number, at in enumerate(times)
        for call in (load.call(number, seed),)
    )
    return Plan(load, 0, tuple(calls))


def typed_words(call: Call) -> Iterator[tuple[float, str]]:
    """Yield the words of a request's text, each with the delay in seconds before it is sent.

    The delays depend on the request's behaviour. An empty word marks the end of the text.
    """
    for number, word in enumerate(call.text.split()):
        yield PACE_S[call.manner] if number else 0.0, f"{word} "
    yield 0.0, ""


def poisson_arrivals(rate: float, seed: int) -> Iterator[float]:
    """Yield the arrival times of a Poisson process in seconds, without end.

    `rate` is the number of arrivals per second. Each interval is derived from the SHA-256 hash of the seed and its
    index.
    """
    at = 0.0
    for number in count():
        at -= math.log(1.0 - uniform_random(seed, number, "gap")) / rate
        yield at


def uniform_random(seed: int, number: int, what: str) -> float:
    """Return a pseudo-random number in [0, 1), which is the same on every machine.

    It is derived from the hash of all three arguments. `what` is the purpose of the number.
    """
    digest = hashlib.sha256(f"{seed}:{number}:{what}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56
