"""Tests for schedule.js, which computes the start times of a script's lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.js.conftest import Node

RATE = 24000

LAY_OUT = """async ([script, sounds]) => {
  const { Script } = await import('/js/script/document.js');
  const { clipsOf } = await import('/js/script/schedule.js');
  const { readParts } = await import('/js/script/line_text.js');
  const maker = {
    segmentsOf: ({ text }) => readParts(text).parts.map((part) => ({ ...part, key: part.text })),
    takeOf: ({ key }) => sounds[key] ?? null,
    state: () => ({ state: '' }),
  };
  const clips = clipsOf(new Script(script), maker);
  return clips.map(({ start, end, parts }) => [start, end, parts.map((part) => part.start)]);
}"""


def laid_out(node: Node, lines: list[dict[str, Any]], **sounds: dict[str, Any]) -> list[list[Any]]:
    script = {"gap_s": 0.5, "lines": lines}
    placed: list[list[Any]] = node.evaluate(LAY_OUT, [script, sounds])
    return placed


def test_timeline_clips_follow_each_other_with_their_gaps(node: Node) -> None:
    lines: list[dict[str, Any]] = [
        {"text": "One. [pause 1s]"},
        {"text": "…"},
        {"text": "Two.", "gap": 2},
        {"text": "Three."},
        {"text": "[pause 2s]"},
    ]
    sounds = {"One.": {"samples": 1000}, "Two.": {"samples": 2000}, "Three.": {"samples": 3000}}
    first = 1000 + RATE
    second = first + RATE // 2  # A line without text is not followed by silence.
    third = second + 2000 + 2 * RATE
    last = third + 3000 + RATE // 2
    assert laid_out(node, lines, **sounds) == [
        [0, first, [0, 1000]],
        [second, second + 2000, [second]],
        [third, third + 3000, [third]],
        [last, last + 2 * RATE, [last]],
    ]


def test_script_line_without_a_take_has_its_estimated_duration(node: Node) -> None:
    text = "A sentence of some length, which takes a few seconds."
    expected = round(node.call("common/text", "expectedSeconds", text) * RATE)
    coming = {"samples": 5, "isReceiving": True}
    long = {"samples": 10 * expected, "isReceiving": True}
    ends = [laid_out(node, [{"text": text}], **sounds)[0][1] for sounds in ({}, {text: coming}, {text: long})]
    assert ends == [expected, expected, 10 * expected]
    assert laid_out(node, [{"text": text}], **{text: {"samples": 5}})[0][1] == 5


def test_estimated_duration_of_a_script_line_follows_the_pace_of_complete_lines(node: Node) -> None:
    texts = [f"Sentence {number} has some length, and it takes a few seconds." for number in range(9)]
    expected = [round(node.call("common/text", "expectedSeconds", text) * RATE) for text in texts]
    fast = {text: {"samples": round(0.8 * usual)} for text, usual in zip(texts[:7], expected, strict=False)}
    lines = [{"text": text} for text in texts]
    clips = laid_out(node, lines, **fast, **{texts[7]: {"samples": 30 * expected[7]}})
    start, end, _ = clips[-1]
    assert end - start == pytest.approx(0.8 * expected[-1], rel=0.05)


def test_schedule_reads_each_script_line_once(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const { clipsOf } = await import('/js/script/schedule.js');
      const read = [];
      const segmentsOf = ({ text }) => (read.push(text), [{ text, key: text }]);
      const lines = ['One.', 'Two.', 'Three.'].map((text) => ({ text }));
      clipsOf(new Script({ lines }), { segmentsOf, takeOf: () => null, state: () => ({ state: '' }) });
      return read;
    }"""
    assert node.evaluate(body) == ["One.", "Two.", "Three."]


# Steps of an export run in a function with these names. `makerOf` makes a script with one line for each text.
EXPORT = """async () => {
  const { collectClips } = await import('/js/script/export.js');
  const { Maker } = await import('/js/script/making.js');
  const makerOf = (texts, t = (key) => key) => {
    const maker = new Maker({ t, api: {}, speech: {} }, { uniqueNameOf: () => '' });
    const lines = texts.map((text, at) => ({ id: String(at), text }));
    maker.script = { lines, indexOf: (id) => Number(id), gapAfter: () => 0 };
    maker.segmentsOf = ({ text }) => (text ? [{ text, key: text }] : []);
    return maker;
  };
  STEPS
}"""


def exported(node: Node, steps: str) -> Any:
    return node.evaluate(EXPORT.replace("STEPS", steps))


@pytest.mark.parametrize("text", ["", "…"])
def test_script_without_speakable_text_has_no_clips(node: Node, text: str) -> None:
    assert laid_out(node, [{"text": text}]) == []


def test_export_error_contains_the_line_number(node: Node) -> None:
    steps = """
      const maker = makerOf(['One.', '', 'Three.'], (key, values) => `${key} ${JSON.stringify(values)}`);
      maker.make = async ({ text }) => {
        if (text === 'Three.') throw new Error('Nothing can be said of it.');
        return [{ take: 'a' }];
      };
      return collectClips(maker, () => {}).catch(({ message }) => message);
    """
    assert exported(node, steps) == 'script.line_failed {"n":3,"why":"Nothing can be said of it."}'


def test_export_waits_while_the_studio_restarts_and_shows_the_time_left(node: Node) -> None:
    steps = """
      let now = 0;
      performance.now = () => now;
      const wait = globalThis.setTimeout;
      globalThis.setTimeout = (then, ms) => wait(then, 0, (now += ms));
      const maker = makerOf(['One.', 'Two.', 'Six.']);
      const failures = [{ retryable: true }, { unreachable: true }, 'lost'];
      maker.make = async ({ text }) => {
        now += 2000;
        const failure = text === 'Two.' && failures.shift();
        if (failure === 'lost') throw new TypeError('network error');
        if (failure) throw Object.assign(new Error('away'), failure);
        maker.storedTakes.set(text, { take: text, samples: 1 });
        maker.takes.set(text, { isShort: text === 'Six.' });
        return [{ take: text }];
      };
      const progress = [];
      const away = () => progress.push('away');
      const onProgress = (made, of, left) => progress.push(left === null ? null : Math.round(left));
      const { clips } = await collectClips(maker, onProgress, false, away);
      return [clips.map(({ take }) => take), progress, [...maker.takes.keys()]];
    """
    clips, progress, held = exported(node, steps)
    assert clips == ["One.", "Two.", "Six."]
    assert progress.count("away") == 3
    assert [left for left in progress if left != "away"] == [None, 16, 9, None], (
        "18 s after the beginning, two of three are made"
    )
    assert held == ["Six."], "takes that the studio has are released, except one that lacks words"


def test_time_left_of_an_export_is_estimated_from_the_audio_of_unfinished_lines(node: Node) -> None:
    steps = """
      const { expectedSeconds } = await import('/js/common/text.js');
      let now = 0;
      performance.now = () => now;
      const text = 'A long line, whose audio takes a few seconds.';
      const maker = makerOf([text]);
      let finish;
      maker.make = () => new Promise((resolve) => (finish = () => resolve([])));
      const progress = [];
      const collected = collectClips(maker, (made, of, left, share) => progress.push([left, share]));
      maker.storedTakes.set(text, { samples: expectedSeconds(text) * 24000 * 0.25 });
      now = 3000;
      maker.changed();
      finish();
      await collected;
      maker.changed();
      return progress;
    """
    first, second, last = exported(node, steps)
    assert (first, last) == ([None, 0], [None, 1])
    assert second == pytest.approx([9, 0.25], rel=0.01)  # A quarter of the audio is received after 3 s.


def test_message_about_an_unavailable_studio_stays_until_more_audio_arrives(node: Node) -> None:
    steps = """
      const wait = globalThis.setTimeout;
      globalThis.setTimeout = (then) => wait(then, 0);
      const text = 'A long line, whose audio takes a few seconds.';
      const maker = makerOf([text]);
      const progress = [];
      let isLost = true;
      let finish;
      maker.make = () => {
        if (!isLost) return new Promise((resolve) => (finish = () => resolve([])));
        isLost = false;
        maker.storedTakes.set(text, { samples: 24000 });
        maker.changed();
        throw new TypeError('network error');
      };
      const onProgress = (made, of, left, share) => progress.push(share > 0 ? 'more' : 'none');
      const collected = collectClips(maker, onProgress, false, () => progress.push('away'));
      await new Promise((resolve) => wait(resolve, 50));
      for (const samples of [24000, 0, 12000]) {
        maker.storedTakes.set(text, { samples });
        maker.changed();
        progress.push(samples);
      }
      finish();
      await collected;
      return progress;
    """
    assert exported(node, steps) == ["none", "more", "away", 24000, 0, "more", 12000, "more"]


def test_export_makes_four_lines_at_a_time_and_keeps_their_order(node: Node) -> None:
    steps = """
      const maker = makerOf([...'abcdefgh']);
      const inFlight = new Map();
      maker.make = ({ text }) => new Promise((resolve) => inFlight.set(text, () => resolve([{ take: text }])));
      const collected = collectClips(maker, () => {});
      const seen = [];
      while (inFlight.size) {
        seen.push([...inFlight.keys()].join(''));
        const [last] = [...inFlight.keys()].slice(-1); // The last one is complete first.
        inFlight.get(last)();
        inFlight.delete(last);
        await new Promise((resolve) => setTimeout(resolve));
      }
      return [(await collected).clips.map(({ take }) => take).join(''), seen];
    """
    clips, seen = exported(node, steps)
    assert clips == "abcdefgh"
    assert max(map(len, seen)) == 4


def test_script_is_saved_while_it_changes_without_a_pause(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const { ScriptList } = await import('/js/script/script_list.js');
      let now = 0;
      const timers = new Map();
      performance.now = () => now;
      globalThis.addEventListener ??= () => {};
      globalThis.setTimeout = (then, ms) => timers.set(timers.size + 1, { then, at: now + ms }) && timers.size;
      globalThis.clearTimeout = (timer) => timers.get(timer) && (timers.get(timer).at = Infinity);
      const puts = [];
      const put = async () => puts.push(now) && { updated_at: now };
      const list = new ScriptList({ put });
      const script = new Script({ lines: [] });
      list.open(script, 'saved');
      for (; now < 45_000; now += 500) {
        script.notify(false);
        for (const timer of timers.values()) {
          if (timer.at > now) continue;
          timer.at = Infinity;
          await timer.then();
        }
      }
      return puts;
    }"""
    assert node.evaluate(body) == [20_500, 41_000]


def test_export_has_the_chapters_that_an_import_marked(node: Node) -> None:
    steps = """
      const { markChapters, Script } = await import('/js/script/document.js');
      const lines = ['Cover.', 'One', 'It rains.', 'Two', ''].map((text, at) => ({ id: String(at), text }));
      const script = new Script({ lines, author: 'Ann', cover: 'data:,' });
      markChapters(script.lines, [
        { title: '', paragraphs: ['Cover.'] },
        { title: 'Chapter one', paragraphs: ['One', 'It  rains.'] },
        { title: 'Gone', paragraphs: ['Nowhere'] },
        { title: 'Chapter two', paragraphs: ['Two'] },
      ]);
      const maker = Object.assign(makerOf([]), { script });
      maker.make = async ({ text }) => [{ take: text }];
      const { author, cover, lines: stored } = JSON.parse(JSON.stringify(script));
      const { chapters, clips } = await collectClips(maker, () => {});
      const named = chapters.map(({ title, first_clip }) => [title, clips[first_clip].take]);
      return [named, author, cover, stored[1].chapter];
    """
    chapters, author, cover, stored = exported(node, steps)
    assert chapters == [["Cover.", "Cover."], ["Chapter one", "One"], ["Chapter two", "Two"]]
    assert (author, cover, stored) == ("Ann", "data:,", "Chapter one")
