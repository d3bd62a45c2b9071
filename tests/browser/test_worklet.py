"""Tests for worklet.js in an OfflineAudioContext, with given arrival times of the audio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

RATE = 24000
FRAME_SAMPLES = 1920
QUANTUM = 128
RAMP = 120  # Number of samples of a fade (5 ms).
TARGET = FRAME_SAMPLES
Message = tuple[float, dict[str, Any]]


@dataclass(frozen=True)
class Played:
    samples: NDArray[np.float64]
    reports: list[dict[str, Any]]

    @property
    def last(self) -> dict[str, Any]:
        return self.reports[-1]

    @property
    def sounding(self) -> NDArray[np.float64]:
        """Return the played samples without silence at the start and the end."""
        (loud,) = np.nonzero(self.samples)
        return self.samples[loud[0] : loud[-1] + 1]


@pytest.fixture
def play(blank: Page, modules: str) -> Any:
    blank.add_script_tag(path=Path(__file__).with_name("offline.js"))

    def run(seconds: float, schedule: list[Message]) -> Played:
        call = "([url, seconds, schedule]) => playSchedule(url, seconds, schedule)"
        result = blank.evaluate(call, [f"{modules}/js/player/worklet.js", seconds, schedule])
        return Played(np.array(result["samples"]), result["reports"])

    return run


def sound(frames: int, seed: int = 0) -> NDArray[np.int16]:
    """Return loud noise that is never zero.

    Lost, repeated and truncated samples are detected in this noise.
    """
    stream = np.random.default_rng(seed)
    pcm = stream.integers(1000, 32768, frames * FRAME_SAMPLES) * stream.choice([-1, 1], frames * FRAME_SAMPLES)
    return pcm.astype(np.int16)


def begin(take: int = 1, target: int = TARGET, at: float = 0.0) -> Message:
    return at, {"type": "begin", "take": take, "target": target}


def push(at: float, pcm: NDArray[np.int16], take: int = 1) -> Message:
    return at, {"type": "push", "take": take, "pcm": pcm.tolist()}


def end(at: float, take: int = 1) -> Message:
    return at, {"type": "end", "take": take}


def exact(pcm: NDArray[np.int16]) -> NDArray[np.float64]:
    return pcm.astype(np.float32).astype(np.float64) / 32768


@pytest.mark.quick("[1, 2, 4, 3]")
@pytest.mark.parametrize("sizes", [[1] * 10, [1, 2, 4, 3], [10]], ids=str)
def test_audio_received_in_time_is_output_bit_for_bit(play: Any, sizes: list[int]) -> None:
    pcm = sound(10)
    schedule, at = [begin()], 0
    for size in sizes:
        # Each chunk arrives when half of the previous audio has been played.
        schedule.append(push(at / 2 / RATE, pcm[at : at + size * FRAME_SAMPLES]))
        at += size * FRAME_SAMPLES
    schedule.append(end(at / 2 / RATE))
    played = play(1.2, schedule)
    assert np.array_equal(played.sounding, exact(pcm))
    assert (played.last["underruns"], played.last["underrunSamples"]) == (0, 0)
    assert played.last["played"] == pcm.size
    assert played.last["finished"]
    assert played.last["state"] == "idle"
    assert played.reports[0]["state"] == "buffering"


def test_chunks_of_any_size_join_without_a_seam(play: Any) -> None:
    pcm = sound(6)
    cuts = np.sort(np.random.default_rng(5).integers(1, pcm.size, 40))
    parts = [part for part in np.split(pcm, cuts) if part.size]
    played = play(0.8, [begin(), *(push(0, part) for part in parts), end(0)])
    assert np.array_equal(played.sounding, exact(pcm))


def test_playback_starts_as_soon_as_the_target_buffer_is_full(play: Any) -> None:
    pcm = sound(4)
    schedule = [
        begin(target=2 * FRAME_SAMPLES),
        push(0.1, pcm[:FRAME_SAMPLES]),
        push(0.3, pcm[FRAME_SAMPLES:]),
        end(0.3),
    ]
    played = play(0.8, schedule)
    (first,) = np.nonzero(played.samples)
    assert 0.3 * RATE <= first[0] < 0.3 * RATE + 2 * QUANTUM
    assert played.last["firstTime"] == pytest.approx(first[0] / RATE)
    assert played.last["underruns"] == 0


@pytest.mark.quick
@pytest.mark.parametrize("hold_ms", [0, 20, 50])
def test_playback_starts_after_the_start_delay_even_if_the_buffer_is_not_full(play: Any, hold_ms: int) -> None:
    pcm = sound(2)
    at, message = begin(target=20 * FRAME_SAMPLES)
    message["hold"] = RATE * hold_ms // 1000
    played = play(0.4, [(at, message), push(0.1, pcm[:FRAME_SAMPLES]), push(0.15, pcm[FRAME_SAMPLES:]), end(0.16)])
    assert np.array_equal(played.sounding, exact(pcm))
    started = float(played.last["firstTime"])
    assert 0 <= started - 0.1 - hold_ms / 1000 <= 2 * QUANTUM / RATE


@pytest.mark.quick
def test_playback_waits_for_the_target_buffer_after_a_stall(play: Any) -> None:
    """The time that has passed before a stall must not count as waiting time."""
    pcm = sound(4)
    at, message = begin()
    message["hold"] = 0
    schedule = [
        (at, message),
        push(0, pcm[:FRAME_SAMPLES]),
        push(0.2, pcm[FRAME_SAMPLES : 2 * FRAME_SAMPLES]),
        push(0.3, pcm[2 * FRAME_SAMPLES :]),
    ]
    played = play(0.8, [*schedule, end(0.31)])
    assert played.last["underruns"] == 1
    silent = played.last["underrunSamples"] / RATE
    assert silent == pytest.approx(0.3 - 0.08, abs=0.015), "the second frame alone was not enough"


def test_short_take_plays_without_reaching_the_target_buffer(play: Any) -> None:
    pcm = sound(1)[:500]
    played = play(0.4, [begin(target=FRAME_SAMPLES), push(0, pcm), end(0.1)])
    assert np.array_equal(played.sounding, exact(pcm))
    assert played.last["underruns"] == 0


@pytest.mark.quick
def test_stall_is_counted_and_faded_out_and_loses_no_samples(play: Any) -> None:
    pcm = sound(6)
    schedule = [begin(), push(0, pcm[: 2 * FRAME_SAMPLES]), push(0.4, pcm[2 * FRAME_SAMPLES :]), end(0.4)]
    played = play(1.2, schedule)
    before, after = exact(pcm[: 2 * FRAME_SAMPLES]), exact(pcm[2 * FRAME_SAMPLES :])
    start = np.nonzero(played.samples)[0][0]
    gap = start + before.size
    assert np.array_equal(played.samples[start:gap], before)
    silence = played.last["underrunSamples"]
    resumed = gap + silence
    assert played.last["underruns"] == 1
    assert resumed == pytest.approx(0.4 * RATE, abs=2 * QUANTUM)
    # The last sample fades out within 5 ms. Silence and a fade-in of 5 ms follow.
    tail = before[-1] * np.arange(RAMP - 1, -1, -1) / RAMP
    assert played.samples[gap : gap + RAMP] == pytest.approx(tail, abs=1e-6)
    assert not played.samples[gap + RAMP : resumed].any()
    gain = np.arange(RAMP) / RAMP
    assert played.samples[resumed : resumed + RAMP] == pytest.approx(after[:RAMP] * gain, abs=1e-6)
    rest = played.samples[resumed + RAMP : resumed + after.size]
    assert np.array_equal(rest, after[RAMP:])
    assert not played.samples[resumed + after.size :].any()
    assert played.last["played"] == pcm.size


@pytest.mark.parametrize("rested", [0.05, 0.3])  # The pause is announced before the queue becomes empty, or after it.
def test_announced_pause_is_not_an_underrun_and_playback_then_restarts_like_a_new_take(
    play: Any, rested: float
) -> None:
    pcm = sound(4)
    at, message = begin(target=4 * FRAME_SAMPLES)
    message["hold"] = 0
    schedule = [
        (at, message),
        push(0, pcm[: 2 * FRAME_SAMPLES]),
        (rested, {"type": "rest"}),
        push(0.4, pcm[2 * FRAME_SAMPLES : 3 * FRAME_SAMPLES]),
    ]
    played = play(0.8, [*schedule, push(0.47, pcm[3 * FRAME_SAMPLES :]), end(0.5)])
    assert (played.last["underruns"], played.last["target"]) == (0, 4 * FRAME_SAMPLES)
    after = np.nonzero(played.samples[round(0.35 * RATE) :])[0][0] + 0.35 * RATE
    assert after == pytest.approx(0.4 * RATE, abs=2 * QUANTUM)
    assert played.last["played"] == pcm.size


def test_audio_after_a_stall_plays_without_the_target_buffer_if_no_more_arrives(play: Any) -> None:
    before, after = sound(2), sound(1, seed=1)  # A clause that was typed ends here, and the take continues later.
    played = play(2, [begin(), push(0, before), push(0.4, after)])
    assert played.last["played"] == before.size + after.size
    assert played.last["target"] > after.size
    (loud,) = np.nonzero(played.samples)
    assert (loud[-1] + 1 - after.size) / RATE == pytest.approx(0.4 + 0.6, abs=0.02)


def test_each_stall_doubles_the_target_buffer_up_to_its_limit(play: Any) -> None:
    pcm = sound(40)
    schedule, at, targets = [begin()], 0, []
    for stall in range(4):
        # After a stall, one frame is not enough to restart playback, because the required buffer has grown. The end of
        # the take releases all frames.
        take = FRAME_SAMPLES * 2**stall
        schedule.append(push(stall * 0.8, pcm[at : at + take]))
        at += take
    schedule.append(end(3.6))
    played = play(6.0, schedule)
    targets = sorted({report["target"] for report in played.reports if report["take"] == 1})
    assert targets == [FRAME_SAMPLES, 2 * FRAME_SAMPLES, 4 * FRAME_SAMPLES, int(0.6 * RATE)]
    assert played.last["underruns"] == 3
    assert played.last["played"] == at


@pytest.mark.quick
def test_late_end_message_is_not_an_underrun(play: Any) -> None:
    pcm = sound(1)
    played = play(0.6, [begin(), push(0, pcm), end(0.3)])
    assert (played.last["underruns"], played.last["underrunSamples"]) == (0, 0)
    assert played.last["finished"]


@pytest.mark.quick
def test_stop_silences_the_audio_within_five_milliseconds(play: Any) -> None:
    pcm = sound(10)
    played = play(0.8, [begin(), push(0, pcm), (0.2, {"type": "stop"}), push(0.3, pcm), end(0.3)])
    start = np.nonzero(played.samples)[0][0]
    stopped = int(np.ceil(0.2 * RATE / QUANTUM)) * QUANTUM
    assert np.array_equal(played.samples[start:stopped], exact(pcm[: stopped - start]))
    tail = played.samples[stopped - 1] * np.arange(RAMP - 1, -1, -1) / RAMP
    assert played.samples[stopped : stopped + RAMP] == pytest.approx(tail, abs=1e-6)
    assert not played.samples[stopped + RAMP :].any()
    assert played.last["finished"]
    assert played.last["played"] == stopped - start


@pytest.mark.quick
def test_new_take_plays_no_samples_of_the_previous_take(play: Any) -> None:
    old, new = sound(10, seed=1), sound(3, seed=2)
    schedule = [begin(), push(0, old), begin(take=2, at=0.2), push(0.25, old, take=1), push(0.3, new, take=2)]
    played = play(0.8, [*schedule, end(0.3, take=1), end(0.3, take=2)])
    at = int(np.ceil(0.3 * RATE / QUANTUM)) * QUANTUM
    assert np.array_equal(played.samples[at : at + new.size], exact(new))
    assert not played.samples[at + new.size :].any()
    assert (played.last["take"], played.last["played"]) == (2, new.size)


@pytest.mark.parametrize("fault", ["lost", "doubled", "swapped", "halved"])
def test_comparison_of_played_samples_detects_every_planted_fault(play: Any, fault: str) -> None:
    """Test that the comparison of the other tests would detect each of these faults."""
    pcm = sound(4)
    parts = list(np.split(pcm, 4))
    if fault == "lost":
        del parts[2]
    elif fault == "doubled":
        parts.insert(2, parts[2])
    elif fault == "swapped":
        parts[1], parts[2] = parts[2], parts[1]
    else:
        parts[2] = parts[2] // 2
    played = play(0.8, [begin(), *(push(0, part) for part in parts), end(0)])
    assert not np.array_equal(played.sounding, exact(pcm))


def speed(rate: float, at: float = 0.0) -> Message:
    return at, {"type": "rate", "rate": rate}


def tone(seconds: float) -> NDArray[np.int16]:
    return (8000 * np.sin(2 * np.pi * 150 * np.arange(int(seconds * RATE)) / RATE) + 1).astype(np.int16)


@pytest.mark.parametrize("rate", [0.75, 1.5, 2.0])
def test_playback_rate_sets_the_duration_and_all_samples_are_counted(play: Any, rate: float) -> None:
    pcm = tone(3)
    played = play(3 / rate + 0.3, [speed(rate), begin(), push(0, pcm), end(0)])
    assert played.sounding.size * rate == pytest.approx(pcm.size, rel=0.01)
    assert (played.last["played"], played.last["buffered"], played.last["underruns"]) == (pcm.size, 0, 0)
    assert played.last["finished"]
    steps = np.diff([report["played"] for report in played.reports])
    assert (steps >= 0).all()


def test_stream_slower_than_the_playback_speed_causes_no_underrun(play: Any) -> None:
    """Audio arrives at 1.2 times real time and is played at twice real time.

    Without a lower speed, the buffer would become empty.
    """
    pcm = tone(4)
    parts = [
        (0.08 * at / 1.2, pcm[at * FRAME_SAMPLES : (at + 1) * FRAME_SAMPLES]) for at in range(pcm.size // FRAME_SAMPLES)
    ]
    schedule = [speed(2), begin(), *(push(at, part) for at, part in parts), end(parts[-1][0] + 0.01)]
    played = play(4.5, schedule)
    assert played.last["underruns"] == 0
    assert played.last["played"] == len(parts) * FRAME_SAMPLES
    assert played.sounding.size / RATE < 3.7


def test_returning_to_normal_speed_outputs_exact_samples(play: Any) -> None:
    pcm = sound(50)
    played = play(3.5, [speed(2), begin(), push(0, pcm), end(0), speed(1, 1.0)])
    assert np.array_equal(played.sounding[-20 * FRAME_SAMPLES :], exact(pcm)[-20 * FRAME_SAMPLES :])
    assert played.last["played"] == pcm.size


# Script with a fake number of underruns of the device, because a test cannot cause underruns of a real device.
COUNTED = """
async () => {
  let events = 0;
  const stats = { get: () => ({ underrunEvents: events }), configurable: true };
  Object.defineProperty(AudioContext.prototype, 'playbackStats', stats);
  const { Player } = await import('/js/player/player.js');
  const player = new Player();
  await player.start();
  const play = async () => {
    const { context } = player;
    const take = player.begin();
    player.push(take, new Int16Array(2400).fill(1000));
    player.end(take);
    await new Promise((done) => player.addEventListener('finished', done, { once: true }));
    return { context, buffer: context.baseLatency, played: player.counters.played };
  };
  const first = await play();
  events = 1; // in the next one
  const torn = await play();
  const whole = await play(); // begun while the other context is still being opened
  await player.context.resume();
  for (let i = 0; i < 100 && torn.context.state !== 'closed'; i++) await new Promise((later) => setTimeout(later, 20));
  const last = await play();
  const of = ({ context, ...figures }) => ({ ...figures, state: context.state });
  const last_is_new = whole.context !== torn.context && last.context === player.context;
  const same = { first: first.context === torn.context, last: last_is_new };
  return { same, states: [torn.context.state, last.context.state], takes: [first, torn, whole, last].map(of) };
}
"""


def test_device_underrun_enlarges_the_device_buffer_of_the_next_take(blank: Page) -> None:
    outcome = blank.evaluate(COUNTED)
    assert outcome["same"] == {"first": True, "last": True}
    assert outcome["states"] == ["closed", "running"]
    assert [take["played"] for take in outcome["takes"]] == [2400] * 4
    first, _, _, last = (take["buffer"] for take in outcome["takes"])
    assert first < last


# Script in which no second audio context is available, as in a browser that has reached its limit.
NONE_LEFT = """
async () => {
  const stats = { get: () => ({ underrunEvents: 1 }), configurable: true };
  Object.defineProperty(AudioContext.prototype, 'playbackStats', stats);
  const { Player } = await import('/js/player/player.js');
  const player = new Player();
  await player.start();
  const { context } = player;
  const before = globalThis.AudioContext;
  let refused = 0;
  globalThis.AudioContext = class { constructor() { refused += 1; throw new Error('no more contexts'); } };
  try {
    const played = [];
    for (let i = 0; i < 2; i++) {
      const take = player.begin();
      player.push(take, new Int16Array(2400).fill(1000));
      player.end(take);
      const finished = new Promise((done) => player.addEventListener('finished', done, { once: true }));
      await Promise.race([finished, new Promise((later) => setTimeout(later, 15000))]);
      played.push(player.counters?.played ?? null);
    }
    await player.start();
    return { refused, played, same: player.context === context, state: context.state };
  } finally {
    globalThis.AudioContext = before;
  }
}
"""


def test_playback_continues_after_a_device_underrun_without_a_new_audio_context(blank: Page) -> None:
    outcome = blank.evaluate(NONE_LEFT)
    assert outcome.pop("refused") == 2, "it was tried once: at our rate, then at the device's"
    assert outcome == {"played": [2400, 2400], "same": True, "state": "running"}


# Script in which the module of the audio thread fails to load once, as without a network.
FAILED = """
async () => {
  const { Player } = await import('/js/player/player.js');
  const unhandled = [];
  globalThis.addEventListener('unhandledrejection', (event) => unhandled.push(String(event.reason)));
  const player = new Player();
  globalThis.outcome = { player, unhandled };
  const { addModule } = AudioWorklet.prototype;
  AudioWorklet.prototype.addModule = async () => {
    AudioWorklet.prototype.addModule = addModule;
    throw new Error('no network');
  };
  const opening = player.start();
  player.push(player.begin(), new Int16Array(2400));
  player.stop();
  const outcome = await opening.then(() => 'armed', () => 'failed');
  await new Promise((later) => setTimeout(later, 100));
  return outcome;
}
"""
TRIED_AGAIN = """
async () => {
  const { player, unhandled } = globalThis.outcome;
  const finished = new Promise((done) => player.addEventListener('finished', done, { once: true }));
  await player.start();
  const take = player.begin();
  player.push(take, new Int16Array(2400).fill(1000));
  player.end(take);
  await finished;
  return { played: player.counters.played, unhandled };
}
"""


def test_failed_audio_output_is_reopened_by_the_next_click(blank: Page) -> None:
    assert blank.evaluate(FAILED) == "failed"
    assert blank.evaluate(TRIED_AGAIN) == {"played": 2400, "unhandled": []}
