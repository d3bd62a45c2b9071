"""Tests for the playback order and the start buffer (playlist.js, player.js)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.js.conftest import Node


def module(node: Node, body: str, **given: Any) -> Any:
    return node.evaluate(f"async (given) => {{ {body} }}", given)


def test_playlist_plays_in_order_from_any_position(node: Node) -> None:
    """Takes and silences play without a gap or a repeated sample, even during generation."""
    handed = module(
        node,
        """
        const { Playlist } = await import('/js/player/playlist.js');
        const { Take } = await import('/js/player/take.js');
        const take = (first) => Object.assign(new Take({ config: {}, text: '' }), { first });
        const ramp = (from, count) => Int16Array.from({ length: count }, (_, i) => from + i);
        const [one, two] = [take(), take()];
        one.append(ramp(0, 100));
        one.append(ramp(100, 50));
        one.enter('done', 'done');
        async function* items() { yield one; yield { silence: 0.01 }; yield two; }
        const playlist = new Playlist(items());
        const read = async (from) => {
          const all = [];
          for await (const pcm of playlist.pieces(from)) all.push(...pcm);
          return all;
        };
        const whole = read();
        two.append(ramp(1000, 30));
        two.notify('progress');
        await new Promise((resolve) => setTimeout(resolve));
        two.append(ramp(1030, 30));
        two.notify('progress');
        two.enter('done', 'done');
        const louder = new Playlist([one], { gainDb: 20 * Math.log10(2) });
        const loud = [];
        for await (const pcm of louder.pieces()) loud.push(...pcm);
        return {
          whole: await whole,
          place: [0, 149, 150, 389, 390, 449].map((at) => playlist.locate(at)).map(({ span, at }) => [span.index, at]),
          again: await read({ index: 2, at: 40 }),
          loud,
        };
        """,
    )
    first, second = list(range(150)), list(range(1000, 1060))
    assert handed["whole"] == first + [0] * 240 + second
    assert handed["place"] == [[0, 0], [0, 149], [1, 0], [1, 239], [2, 0], [2, 59]]
    assert handed["again"] == second[40:]
    assert handed["loud"] == [2 * sample for sample in first]


FRAME_SAMPLES = 1920


@pytest.mark.parametrize(
    ("arrivals_ms", "frames"),
    [
        ([0, 40, 80, 120], 1),  # Generation is twice as fast as playback.
        ([0, 80, 160, 240], 1),  # Generation is exactly as fast as playback.
        ([0, 300, 310, 320], 2),  # Generation stalls after the first chunk, so the buffer must be larger.
        ([0, 100, 200, 300, 400], 2),  # Generation is slower than playback, so the buffer must last until the end.
        ([0, 160, 320, 480], 3),  # Generation is half as fast as playback.
        ([0, 10, 20, 500], 4),  # Generation stalls, so all audio must be buffered before the start.
    ],
)
def test_start_buffer_is_as_large_as_the_last_take_required(node: Node, arrivals_ms: list[int], frames: int) -> None:
    needed = module(
        node,
        """
        const { neededStart } = await import('/js/player/player.js');
        return neededStart(given.arrivals.map((arrivedAt) => ({ arrivedAt, samples: 1920 })));
        """,
        arrivals=arrivals_ms,
    )
    assert needed == frames * FRAME_SAMPLES
    # Simulate playback: with this buffer there is no underrun, but with one chunk less there is one.
    at = np.array(arrivals_ms) / 1000
    dry = [bool(np.any(at[k:] > at[k - 1] + np.arange(k, len(at)) * 0.08 + 1e-9)) for k in range(1, len(at) + 1)]
    assert dry.index(False) + 1 == frames


@pytest.mark.parametrize(
    ("arrivals_ms", "hold_ms"),
    [
        ([0, 40, 80, 120], 0),
        ([0, 80, 160, 240], 0),
        ([0, 85, 90, 100], 5),  # One chunk arrives 5 ms late.
        ([0, 100, 200, 300, 400], 80),
        ([0, 10, 20, 500], 260),
    ],
)
def test_start_delay_equals_the_largest_chunk_delay_of_the_last_take(
    node: Node, arrivals_ms: list[int], hold_ms: int
) -> None:
    hold = module(
        node,
        """
        const { neededHold } = await import('/js/player/player.js');
        return neededHold(given.arrivals.map((arrivedAt) => ({ arrivedAt, samples: 1920 })));
        """,
        arrivals=arrivals_ms,
    )
    assert hold == pytest.approx(24 * hold_ms)
    # Simulate playback: with this delay there is no underrun, but with one millisecond less there is one.
    played_until = hold_ms + 80 * np.arange(len(arrivals_ms))
    assert not np.any(np.array(arrivals_ms) > played_until)
    assert hold_ms == 0 or np.any(np.array(arrivals_ms) > played_until - 1)


FAST, SLOW, LATE = [0, 10, 20, 30], [0, 160, 320, 480], [0, 40, 500, 540]  # Arrival times of chunks of 80 ms, in ms.


@pytest.mark.parametrize(
    ("takes", "holds_ms"),
    [
        # If generation was as slow as in SLOW in one of the last five takes, the buffer is larger.
        ([SLOW, FAST, FAST, FAST, FAST, FAST], [240, 240, 240, 240, 240, 0]),
        # One take with a late chunk does not change the buffer, but a second such take does.
        ([FAST, LATE, FAST, FAST, LATE, FAST], [0, 0, 0, 0, 340, 340]),
        ([LATE, FAST, FAST, FAST, FAST, LATE, FAST], [0, 0, 0, 0, 0, 0, 0]),
        ([[0, 400]], [0]),
        ([[0, 400], [0, 400]], [0, 320]),
        ([[0], []], [0, 0]),
        ([[0, 9000, 18000]], [1500]),  # The delay has a maximum.
    ],
)
def test_single_late_chunk_affects_the_buffer_less_than_slow_generation(
    node: Node, takes: list[list[int]], holds_ms: list[int]
) -> None:
    learnt = module(
        node,
        """
        const { Pace } = await import('/js/player/player.js');
        const pace = new Pace();
        return given.takes.map((times) => {
          pace.learn(times.map((arrivedAt) => ({ arrivedAt, samples: 1920 })));
          const { hold, target } = pace.startCondition();
          return [hold / 24, target];
        });
        """,
        takes=takes,
    )
    assert [round(hold) for hold, _ in learnt] == holds_ms
    # At least one frame must be buffered before playback starts.
    assert all((target > 1920) == (hold > 0) for hold, target in learnt)


@pytest.mark.parametrize(
    ("learnt", "frames", "hold_ms"),
    [
        (SLOW, 0, 240),  # The length of the take is unknown.
        (SLOW, 2, 160),  # For a single word, chunks after 125 % of the expected length are ignored.
        (SLOW, 8, 600),  # Generation is half as fast as playback, and the longer take needs twice the buffer.
        (SLOW, 800, 1500),  # The delay has a maximum.
        (FAST, 800, 0),
        ([0, 500, 510, 520, 530], 3, 420),  # The stall has the same effect on short and on long takes.
        ([0, 500, 510, 520, 530], 800, 420),
    ],
)
def test_start_delay_scales_with_the_length_of_the_take(
    node: Node, learnt: list[int], frames: int, hold_ms: int
) -> None:
    hold = module(
        node,
        """
        const { Pace } = await import('/js/player/player.js');
        const pace = new Pace();
        for (let i = 0; i < 2; i++) pace.learn(given.learnt.map((arrivedAt) => ({ arrivedAt, samples: 1920 })));
        return pace.startCondition({ planned: given.planned }).hold / 24;
        """,
        learnt=learnt,
        planned=frames * FRAME_SAMPLES,
    )
    assert round(hold) == hold_ms


def test_single_take_waits_less_than_three_concurrent_takes(node: Node) -> None:
    holds = module(
        node,
        """
        const { Pace } = await import('/js/player/player.js');
        const pace = new Pace();
        const came = (times) => times.map((arrivedAt) => ({ arrivedAt, samples: 1920 }));
        pace.learn(came(given.slow), 3);
        const unknown = pace.startCondition({ parallel: 1 });
        pace.learn(came(given.fast), 1);
        const known = [1, 2, 3].map((parallel) => pace.startCondition({ parallel }));
        return [unknown, ...known].map(({ hold }) => hold / 24);
        """,
        slow=SLOW,
        fast=FAST,
    )
    assert holds == [0, 0, 0, pytest.approx(240)]


@pytest.mark.parametrize(("samples", "expected"), [(120_000, 0.5), (236_000, 236 / 240), (241_000, None)])
def test_progress_is_not_shown_beyond_the_estimated_length(node: Node, samples: int, expected: float | None) -> None:
    take = {"state": "streaming", "planned": 240_000, "samples": samples, "arrivals": [{"arrivedAt": 0}]}
    progress = node.call("player/stage_panel", "progressOf", take, 5000)
    assert (progress and progress["share"]) == expected
