"""Random changes of JSON messages: values, fields and the order of fields.

Random changes of bytes rarely produce valid JSON. With libFuzzer's own mutations, only 13 of 100 inputs were valid, so
the code that reads the fields was hardly tested.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

LINE = b"\n"  # Separator between the messages of one session.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7.5, 2**31, 2**63, 10**30, 1e308, -0.0, float("nan"), float("inf")),
    *("", " ", "x", "\0", "\ud800", "../x", "é" * 200, "你好。", "0", "true", "null", "pcm_16000", "AAAA", "{}"),
    *([], {}, [[]], [None], {"": None}, {"id": "anna"}, ["x"] * 50),
)


class Mutation:
    """Mutator that changes the JSON messages of one fuzzing target randomly.

    New fields and values are copied from the messages ``seeds`` or are unusual values.
    """

    def __init__(self, seeds: Sequence[bytes]) -> None:
        nodes = [node for seed in seeds for line in seed.split(LINE) for node in _nodes(json.loads(line))]
        objects = [node for node in nodes if isinstance(node, dict)]
        self._keys = sorted({key for each in objects for key in each})
        self._values = [*ODD, *nodes]
        self._messages = [json.loads(line) for seed in seeds for line in seed.split(LINE)]

    def __call__(self, data: bytes, most: int, seed: int) -> bytes | None:
        """Return a randomly changed copy of a message, or None if this fails.

        `most` is the maximum size of the copy in bytes.
        """
        dice = random.Random(seed)
        lines = data.split(LINE)
        number = dice.randrange(len(lines))
        change = dice.choice([self._in_message] * 6 + [self._repeated, self._dropped, self._swapped, self._added])
        if not change(lines, number, dice):
            return None
        changed = LINE.join(lines)
        return changed if len(changed) <= most else None

    def _in_message(self, lines: list[bytes], number: int, dice: random.Random) -> bool:
        try:
            message = json.loads(lines[number])
        except ValueError:
            return False
        holders = [node for node in _nodes(message) if isinstance(node, dict | list)]
        if not holders:
            return False
        held: Any = dice.choice(holders)
        keys: list[Any] = list(held) if isinstance(held, dict) else list(range(len(held)))
        if keys and dice.random() < 0.2:
            del held[dice.choice(keys)]
        elif isinstance(held, list):
            held.insert(dice.randint(0, len(held)), dice.choice(self._values))
        else:
            held[dice.choice(keys if keys and dice.random() < 0.6 else self._keys)] = dice.choice(self._values)
        lines[number] = json.dumps(message).encode()
        return True

    def _repeated(self, lines: list[bytes], number: int, dice: random.Random) -> bool:
        lines.insert(dice.randint(0, len(lines)), lines[number])
        return True

    def _dropped(self, lines: list[bytes], number: int, dice: random.Random) -> bool:
        del lines[number]
        return bool(lines)

    def _swapped(self, lines: list[bytes], number: int, dice: random.Random) -> bool:
        other = dice.randrange(len(lines))
        lines[number], lines[other] = lines[other], lines[number]
        return other != number

    def _added(self, lines: list[bytes], number: int, dice: random.Random) -> bool:
        lines.insert(number, json.dumps(dice.choice(self._messages)).encode())
        return True


def _nodes(value: Any) -> Iterator[Any]:
    """Yield a JSON value and all values inside it."""
    yield value
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _nodes(each)


def mutator(mutation: Mutation, bytewise: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Return the callback with which libFuzzer computes the next input from an input.

    For every fifth seed, and if no message can be changed, the callback calls ``bytewise``, which changes single bytes.
    """

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        changed = mutation(data, most, seed) if seed % 5 else None
        return bytewise(data, most) if changed is None else changed

    return mutate
