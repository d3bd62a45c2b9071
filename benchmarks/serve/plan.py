"""Load plans: texts, arrival times or concurrency, and the behaviour of each client."""

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


class Manner(StrEnum):
    """The way in which a client writes or listens."""

    WHOLE = "whole"  # Sends the text at once and reads at once.
    CANCEL = "cancel"  # Cancels before the end.
    SLOW = "slow"  # Reads at half real time.
    WORDS = "words"  # Writes a word every 10 ms.
    TOKENS = "tokens"  # Writes as a language model does: 30 tokens a second.


PACE_S = {Manner.WORDS: 0.010, Manner.TOKENS: 1 / 30}  # Seconds between words. A word of the datasets is one token.


@dataclass(frozen=True, slots=True)
class Rounds:
    """Replies of each client in a closed loop: those of the warm-up, and then those that count."""

    warm_up: int = 2
    counted: int = 4

    def with_calls(self, calls: int, clients: int) -> Rounds:
        """Return rounds in which at least `calls` of all clients count."""
        return replace(self, counted=max(self.counted, -(-calls // clients)))


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `at_s`: seconds after the start of an open loop. `cut_s`: from sending to cancelling."""

    number: int
    text: str
    frames: int
    is_counted: bool = True
    at_s: float = 0.0
    manner: Manner = Manner.WHOLE
    cut_s: float = 0.0
    language: str = "english"


@dataclass(frozen=True, slots=True)
class Workload:
    """Common settings of a plan's calls.

    Attributes:
        voices: recordings that Base clones, one for each call; None: the mode's usual voice.
        cancels, slow: shares of the calls that are cancelled or read slowly. These do not count.
    """

    mode: Mode
    dataset: Dataset = Dataset.SENTENCES
    manner: Manner = Manner.WHOLE
    voices: NewVoices | None = None
    cancels: float = 0.0
    slow: float = 0.0

    def call(self, number: int, seed: int = 0) -> Call:
        """Return the call with this number."""
        text = self.dataset.text(number)
        frames = self.dataset.frames(text)
        call = Call(number, text, frames, manner=self.manner, language=self.dataset.language)
        fate = uniform(seed, number, "fate")
        if fate < self.cancels:
            cut_s = frames * 0.08 * uniform(seed, number, "cut") / 4
            return replace(call, manner=Manner.CANCEL, cut_s=cut_s, is_counted=False)
        if fate < self.cancels + self.slow:
            return replace(call, manner=Manner.SLOW, is_counted=False)
        return call


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls in their order. `clients`: of a closed loop, each calls again when its reply has ended; 0: open loop."""

    load: Workload
    clients: int
    calls: tuple[Call, ...]

    def split(self, processes: int) -> list[Plan]:
        """Return the shares of several processes of clients; fewer if there are fewer clients."""
        count = min(processes, self.clients or processes)
        return [
            replace(self, clients=len(range(first, self.clients, count)), calls=self.calls[first::count])
            for first in range(count)
        ]


def closed_loop(load: Workload, clients: int, rounds: Rounds, start: int = 0) -> Plan:
    """Return the plan of clients that call again when a reply has ended; `start` is the number of the first call."""
    warm_up = rounds.warm_up * clients
    calls = (
        replace(call, is_counted=call.is_counted and number >= warm_up)
        for number in range(warm_up + rounds.counted * clients)
        for call in (load.call(start + number),)
    )
    return Plan(load, clients, tuple(calls))


def open_loop(load: Workload, rate: float, seconds: float, seed: int, warm_up_s: float = 0.0) -> Plan:
    """Return the plan of Poisson arrivals, whether or not earlier replies have ended. The warm-up does not count."""
    times = takewhile(lambda at: at < warm_up_s + seconds, arrivals(rate, seed))
    calls = (
        replace(call, at_s=round(at, 6), is_counted=call.is_counted and at >= warm_up_s)
        for number, at in enumerate(times)
        for call in (load.call(number, seed),)
    )
    return Plan(load, 0, tuple(calls))


def writing(call: Call) -> Iterator[tuple[float, str]]:
    """Yield the pieces of a live text, each with the seconds before it. An empty piece ends the text."""
    for number, word in enumerate(call.text.split()):
        yield PACE_S[call.manner] if number else 0.0, f"{word} "
    yield 0.0, ""


def arrivals(rate: float, seed: int) -> Iterator[float]:
    """Yield the times of a Poisson process in seconds. Each gap follows from SHA-256 of the seed and its index."""
    at = 0.0
    for number in count():
        at -= math.log(1.0 - uniform(seed, number, "gap")) / rate
        yield at


def uniform(seed: int, number: int, what: str) -> float:
    """Return a number in [0, 1), the same on every machine."""
    digest = hashlib.sha256(f"{seed}:{number}:{what}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56
