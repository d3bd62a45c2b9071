"""Tests for the engine's next step at the end of a segment, with a table of all states."""

from __future__ import annotations

from itertools import product

import pytest

from runtime.engine.scheduling.segment_runner import NextAction, choose_next_action

FLAGS = ("is_too_short", "has_all_frames", "is_segment_open", "has_next", "is_text_closed")

# Lines with the values of FLAGS and the resulting step. A dash stands for either value. The first matching line
# applies.
TABLE = """
1 - - - -  REPEAT
0 1 - - -  DRAIN
0 0 1 - -  DRAIN
0 0 0 1 -  START
0 0 0 0 1  DRAIN
0 0 0 0 0  WAIT_FOR_TEXT
"""


def expected_step(values: tuple[bool, ...]) -> NextAction:
    for line in TABLE.strip().splitlines():
        *wanted, step = line.split()
        if all(flag in ("-", str(int(value))) for flag, value in zip(wanted, values, strict=True)):
            return NextAction[step]
    raise AssertionError(values)


@pytest.mark.parametrize("values", list(product((False, True), repeat=len(FLAGS))))
def test_next_action_after_a_segment_is_defined_for_every_state(values: tuple[bool, ...]) -> None:
    assert choose_next_action(**dict(zip(FLAGS, values, strict=True))) is expected_step(values)
