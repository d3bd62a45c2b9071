"""The one loudspeaker: seek, pause, order, and how early it starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.steps import SHORT, await_end, await_sound, clock, play_through, speak_whole

pytestmark = pytest.mark.browser


def module(page: Page, body: str, **values: Any) -> Any:
    """Run a script that may import the page's modules."""
    return page.evaluate(f"async (given) => {{ {body} }}", values)


def test_the_waveform_is_a_slider_for_hand_and_keys(studio: Page) -> None:
    speak_whole(studio, "A sentence that is long enough to be walked through.")
    length = float(studio.get_attribute("#vw-seek", "aria-valuemax") or 0)
    assert length > 1
    assert clock(studio) == pytest.approx(length, abs=0.11), "it was played to its end"
    studio.focus("#vw-seek")
    studio.keyboard.press("Home")
    assert clock(studio) == 0
    studio.keyboard.press("ArrowRight")
    assert clock(studio) == 1.0
    studio.keyboard.press("ArrowLeft")
    assert clock(studio) == 0
    studio.keyboard.press("End")
    assert clock(studio) == pytest.approx(length, abs=0.11)
    box = studio.locator("#vw-wave").bounding_box()
    assert box is not None
    studio.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(studio.locator("#vw-stop")).to_be_enabled()
    shown = max(length, 4.0)  # what the width stands for
    assert clock(studio) == pytest.approx(shown / 2, abs=0.6), "it plays on from where it was clicked"
    await_end(studio)


def test_space_pauses_and_goes_on_where_it_was(studio: Page) -> None:
    speak_whole(studio, "One more sentence that takes its time.")
    length = float(studio.get_attribute("#vw-seek", "aria-valuemax") or 0)
    studio.evaluate("document.activeElement.blur()")
    studio.keyboard.press("Space")
    studio.wait_for_function("parseFloat(document.querySelector('#vw-time').textContent.slice(2)) > 0.3")
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Play")
    paused = clock(studio)
    assert 0.2 < paused < length
    assert studio.is_disabled("#vw-stop")
    studio.keyboard.press("Space")
    expect(studio.locator("#vw-play")).to_have_attribute("aria-label", "Pause")
    assert clock(studio) >= paused
    await_end(studio)
    assert clock(studio) == pytest.approx(length, abs=0.11)


def test_space_in_a_field_is_a_space(studio: Page) -> None:
    studio.fill("#vw-text", "one")
    studio.focus("#vw-text")
    studio.keyboard.press("End")
    studio.keyboard.press("Space")
    assert studio.input_value("#vw-text") == "one "
    assert studio.is_disabled("#vw-stop")


def test_what_streams_goes_on_while_it_is_paused(studio: Page) -> None:
    studio.fill("#vw-text", "A sentence that is still being made when it is paused, so that there is more to come.")
    studio.click("#vw-speak")
    await_sound(studio)
    studio.click("#vw-play")
    paused = clock(studio)
    studio.locator("#vw-download[href]").wait_for()
    assert clock(studio) == paused
    assert float(studio.get_attribute("#vw-seek", "aria-valuemax") or 0) > paused
    play_through(studio, "#vw-play")


def test_a_sequence_is_handed_out_in_order_from_wherever_it_is_begun(blank: Page) -> None:
    """Takes and silences, one of them still being made, without a gap and without a sample twice."""
    handed = module(
        blank,
        """
        const { Programme } = await import('/js/programme.js');
        const { Take } = await import('/js/take.js');
        const take = (first) => Object.assign(new Take({ config: {}, text: '' }), { first });
        const ramp = (from, count) => Int16Array.from({ length: count }, (_, i) => from + i);
        const [one, two] = [take(), take()];
        one.append(ramp(0, 100));
        one.append(ramp(100, 50));
        one.enter('done', 'done');
        async function* items() { yield one; yield { silence: 0.01 }; yield two; }
        const programme = new Programme(items());
        const read = async (from) => {
          const all = [];
          for await (const pcm of programme.pieces(from)) all.push(...pcm);
          return all;
        };
        const whole = read();
        two.append(ramp(1000, 30));
        two.tell('progress');
        await new Promise((resolve) => setTimeout(resolve));
        two.append(ramp(1030, 30));
        two.tell('progress');
        two.enter('done', 'done');
        const louder = new Programme([one], { gainDb: 20 * Math.log10(2) });
        const loud = [];
        for await (const pcm of louder.pieces()) loud.push(...pcm);
        return {
          whole: await whole,
          place: [0, 149, 150, 389, 390, 449].map((at) => programme.locate(at)).map(({ span, at }) => [span.index, at]),
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


FRAME = 1920


@pytest.mark.parametrize(
    ("arrivals_ms", "frames"),
    [
        ([0, 40, 80, 120], 1),  # twice as fast as it is heard
        ([0, 80, 160, 240], 1),  # just in time
        ([0, 300, 310, 320], 2),  # a stall behind the first chunk
        ([0, 100, 200, 300, 400], 2),  # a little too slow: what is behind must hold to the end
        ([0, 160, 320, 480], 3),  # half as fast as it is heard
        ([0, 10, 20, 500], 4),  # a stall that only the end can outwait
    ],
)
def test_the_start_waits_for_as_much_as_the_last_take_needed(blank: Page, arrivals_ms: list[int], frames: int) -> None:
    needed = module(
        blank,
        """
        const { neededStart } = await import('/js/pace.js');
        return neededStart(given.arrivals.map((at) => ({ at, samples: 1920 })));
        """,
        arrivals=arrivals_ms,
    )
    assert needed == frames * FRAME
    # By trial: begun with so much it never runs dry, begun with one chunk less it does.
    at = np.array(arrivals_ms) / 1000
    dry = [bool(np.any(at[k:] > at[k - 1] + np.arange(k, len(at)) * 0.08 + 1e-9)) for k in range(1, len(at) + 1)]
    assert dry.index(False) + 1 == frames


@pytest.mark.parametrize(
    ("arrivals_ms", "hold_ms"),
    [
        ([0, 40, 80, 120], 0),
        ([0, 80, 160, 240], 0),
        ([0, 85, 90, 100], 5),  # 5 ms late, once
        ([0, 100, 200, 300, 400], 80),
        ([0, 10, 20, 500], 260),
    ],
)
def test_the_start_is_held_for_as_long_as_the_last_take_was_late(
    blank: Page, arrivals_ms: list[int], hold_ms: int
) -> None:
    hold = module(
        blank,
        """
        const { neededHold } = await import('/js/pace.js');
        return neededHold(given.arrivals.map((at) => ({ at, samples: 1920 })));
        """,
        arrivals=arrivals_ms,
    )
    assert hold == pytest.approx(24 * hold_ms)
    # By trial: begun so late it never runs dry, begun a millisecond earlier it does.
    played_until = hold_ms + 80 * np.arange(len(arrivals_ms))
    assert not np.any(np.array(arrivals_ms) > played_until)
    assert hold_ms == 0 or np.any(np.array(arrivals_ms) > played_until - 1)


def test_the_start_rises_at_once_and_eases_slowly(blank: Page) -> None:
    targets = module(
        blank,
        """
        const { Pace } = await import('/js/pace.js');
        const pace = new Pace();
        const at = (times) => times.map((at) => ({ at, samples: 1920 }));
        const seen = [pace.target];
        for (const times of [[0, 160, 320, 480], [0, 10, 20], [0, 10, 20], [0, 9000, 18000]]) {
          pace.learn(at(times));
          seen.push(Math.round(pace.target));
        }
        return seen;
        """,
    )
    assert targets == [1920, 5760, 4608, 3686, 5760]


def test_a_short_take_is_replayed_from_its_beginning(studio: Page) -> None:
    speak_whole(studio, SHORT)
    studio.click("#vw-play")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    assert clock(studio) < 1
    await_end(studio)
