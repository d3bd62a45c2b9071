"""What clients are to do: which texts, when or how many at a time, and how each is listened to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import count, takewhile
from typing import Any, Self

from benchmarks.prompts import frames_of, sentences
from benchmarks.wordings import Wording
from runtime.request import Mode


@dataclass(frozen=True, slots=True)
class Rounds:
    """Replies of each client in a closed loop: first those of the warm-up, then those that count."""

    warm_up: int = 2
    counted: int = 4

    def with_calls(self, calls: int, clients: int) -> Rounds:
        """So many that at least ``calls`` of all clients count."""
        return replace(self, counted=max(self.counted, -(-calls // clients)))


ROUNDS = Rounds()


class Manner(StrEnum):
    """How a client behaves."""

    WHOLE = "whole"  # text at once, reads at once
    CANCEL = "cancel"  # stops it before the end
    SLOW = "slow"  # reads at half real time
    WORDS = "words"  # a word every 10 ms
    TOKENS = "tokens"  # as a language model writes: 30 tokens a second
    HALTING = "halting"  # a token every 50 ms, three sentences with silence between them
    SILENCE = "silence"  # a sentence at once, and silence before it is said that no more follows


# Between words; the table's words are a token each.
PACE_S = {Manner.WORDS: 0.010, Manner.TOKENS: 1 / 30, Manner.HALTING: 0.050, Manner.SILENCE: 0.0}
SILENCE_S = 2.0
HALTING_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``at_s``: seconds after the start of an open loop. ``cut_s``: from sending to cancelling."""

    number: int
    text: str
    frames: int
    is_counted: bool = True
    at_s: float = 0.0
    manner: Manner = Manner.WHOLE
    cut_s: float = 0.0
    language: str = "english"


@dataclass(frozen=True, slots=True)
class NewVoices:
    """Every call clones a recording that came in no other one, by x-vector only or with its transcript (ICL)."""

    seconds: float
    x_vector_only: bool

    def __str__(self) -> str:
        return f"{'x-vector' if self.x_vector_only else 'ICL'} {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls in their order. ``clients``: of a closed loop, each calls again when its reply has ended; 0: open loop.

    ``voices``: None means that the voice of the mode is a kept one.
    """

    mode: Mode
    clients: int
    calls: tuple[Call, ...]
    voices: NewVoices | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        calls = tuple(Call(**{**call, "manner": Manner(call["manner"])}) for call in fields["calls"])
        voices = fields["voices"] and NewVoices(**fields["voices"])
        return cls(Mode(fields["mode"]), fields["clients"], calls, voices)


def closed_loop(
    mode: Mode,
    clients: int,
    manner: Manner = Manner.WHOLE,
    rounds: Rounds = ROUNDS,
    voices: NewVoices | None = None,
    start: int = 0,
    wording: Wording | None = None,
) -> Plan:
    """So many clients at once; the number of the first call, from which its text and its voice follow, is ``start``.

    ``wording``: language and length of every text; None: the table's.
    """
    warm_up = rounds.warm_up * clients
    of = _halting_call if manner is Manner.HALTING else partial(_call, wording=wording)
    calls = (
        replace(of(start + number), manner=manner, is_counted=number >= warm_up)
        for number in range(warm_up + rounds.counted * clients)
    )
    return Plan(mode, clients, tuple(calls), voices)


def open_loop(mode: Mode, rate: float, seconds: float, seed: int, warm_up_s: float = 0.0) -> Plan:
    """Poisson arrivals whether or not earlier replies have ended; those of the warm-up do not count."""
    times = takewhile(lambda at: at < warm_up_s + seconds, arrivals(rate, seed))
    calls = (replace(_call(number), at_s=round(at, 6), is_counted=at >= warm_up_s) for number, at in enumerate(times))
    return Plan(mode, 0, tuple(calls))


def abuse(mode: Mode, rate: float, seconds: float, seed: int) -> Plan:
    """An open loop in which half cancel at some moment and a tenth reads at half real time; only the others count."""

    def spoiled(call: Call) -> Call:
        fate = uniform(seed, call.number, "fate")
        if fate < 0.5:
            length_s = call.frames * 0.08
            return replace(
                call, manner=Manner.CANCEL, cut_s=length_s * uniform(seed, call.number, "cut") / 4, is_counted=False
            )
        return replace(call, manner=Manner.SLOW, is_counted=False) if fate < 0.6 else call

    plan = open_loop(mode, rate, seconds, seed)
    return replace(plan, calls=tuple(spoiled(call) for call in plan.calls))


def writing(call: Call) -> Iterator[tuple[float, str]]:
    """The pieces of a live text, each after so many seconds; an empty one says that it is complete."""
    pace_s, is_halting = PACE_S[call.manner], call.manner is Manner.HALTING
    if call.manner is Manner.SILENCE:
        yield from ((0.0, call.text), (SILENCE_S, ""))
        return
    last = ""
    for number, word in enumerate(call.text.split()):
        yield (SILENCE_S if is_halting and last.endswith(".") else pace_s if number else 0.0), f"{word} "
        last = word
    yield 0.0, ""


def arrivals(rate: float, seed: int) -> Iterator[float]:
    """Times of a Poisson process in seconds, for ever; each gap follows from SHA-256 of seed and index."""
    at = 0.0
    for number in count():
        at -= math.log(1.0 - uniform(seed, number, "gap")) / rate
        yield at


def uniform(seed: int, number: int, what: str) -> float:
    """In [0, 1), the same on every machine."""
    digest = hashlib.sha256(f"{seed}:{number}:{what}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def _call(number: int, wording: Wording | None = None) -> Call:
    """The table's next text; past its end with another ending, since no text may come twice in a run."""
    if wording is not None:
        return Call(number, wording.text(number), wording.frames, language=wording.language)
    texts = sentences()
    again, place = divmod(number, len(texts))
    text = texts[place] if not again else f"{texts[place][:-1]}, {again + 1} times."
    return Call(number, text, frames_of(text))


def _halting_call(number: int) -> Call:
    """Several texts of the table as one."""
    calls = [_call(HALTING_SENTENCES * number + place) for place in range(HALTING_SENTENCES)]
    return Call(number, " ".join(call.text for call in calls), sum(call.frames for call in calls))
