"""Tests for estimated sentence times, with audio whose sentence times are known."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.shared.text.sentence_ends import NUMBERED, TITLE
from tests.js.conftest import Node

TEXT = (
    "The boat came back in the evening. Nobody had seen where it had been, and nobody asked! "
    "Is it late? 10.5 miles, he said. Then they all went home along the river, slowly, and slept."
)
SENTENCES = [
    "The boat came back in the evening. ",
    "Nobody had seen where it had been, and nobody asked! ",
    "Is it late? ",
    "10.5 miles, he said. ",
    "Then they all went home along the river, slowly, and slept.",
]
# Simulated peaks of 10 ms. Each clause has its own pace and is followed by a pause, which is longer after a sentence.
FOUND = """async ({ text, paces }) => {
  const { sentencesOf, clausesOf, pausesOf, startTimesOf } = await import('/js/speak/sounding_text.js');
  const { expectedSeconds } = await import('/js/common/text.js');
  const sentences = sentencesOf(text).map(({ from, to }) => text.slice(from, to));
  const high = [];
  const begun = [];
  const first = [];
  const lengths = [];
  const sound = (seconds, value) => { for (let i = 0; i < Math.round(100 * seconds); i++) high.push(value); };
  for (const [i, sentence] of sentences.entries()) {
    first.push(lengths.length);
    begun.push(high.length / 100);
    for (const clause of clausesOf(sentence)) {
      lengths.push(expectedSeconds(clause));
      sound(lengths.at(-1) * paces[i], 0.5);
      sound(0.15, 0.005);
    }
    if (i < sentences.length - 1) sound(0.3, 0.004);
  }
  const low = high.map((value) => -value);
  const all = startTimesOf(lengths, pausesOf({ low, high }), high.length / 100);
  // As it grows: what is said of a sentence at the moment when it begins.
  const live = begun.map((at, i) => {
    const so_far = { low: low.slice(0, 100 * at + 5), high: high.slice(0, 100 * at + 5) };
    return startTimesOf(lengths, pausesOf(so_far), null)[first[i]];
  });
  return { sentences, begun, all: first.map((i) => all[i]), live };
}"""


@pytest.mark.parametrize("paces", [[1, 1, 1, 1, 1], [0.8, 0.8, 0.8, 0.8, 0.8], [1.3, 1, 1.2, 1.1, 1.3]], ids=str)
def test_sentence_times_are_estimated_from_complete_audio(node: Node, paces: list[float]) -> None:
    found = node.evaluate(FOUND, {"text": TEXT, "paces": paces})
    assert found["sentences"] == SENTENCES
    assert np.array(found["all"]) == pytest.approx(np.array(found["begun"]), abs=0.15)


@pytest.mark.parametrize("paces", [[1, 1, 1, 1, 1], [0.85, 0.9, 0.85, 0.8, 0.9], [1.2, 1.2, 1.1, 1.2, 1.2]], ids=str)
def test_sentence_times_are_estimated_while_audio_is_streaming(node: Node, paces: list[float]) -> None:
    found = node.evaluate(FOUND, {"text": TEXT, "paces": paces})
    assert np.array(found["live"]) == pytest.approx(np.array(found["begun"]), abs=0.25)


@pytest.mark.parametrize(
    "sentences",
    [
        ["We met Dr. Smith and (Mrs. Jones. ", "They left."],
        ["J. R. R. Tolkien wrote it. ", "See no. 5 and Fig. 312. ", "No. ", "Not now."],
        ["Am 3. Mai kam z.B. Anna. ", "Nobody."],
        ["Call the dr.\n\n", "Smith came."],
    ],
)
def test_abbreviation_does_not_end_a_sentence(node: Node, sentences: list[str]) -> None:
    assert node.call("common/text", "sentencesIn", "".join(sentences)) == sentences


def test_abbreviations_equal_the_list_of_the_runtime(node: Node) -> None:
    for pattern, following in ((TITLE, "Xyz"), (NUMBERED, "5")):
        for word in pattern.pattern.replace("?", "").split("|"):
            text = f"Before {word.strip()}. {following} is there."
            assert node.call("common/text", "sentencesIn", text) == [text]


def test_punctuation_and_emoji_belong_to_the_preceding_sentence(node: Node) -> None:
    body = """async (text) => {
      const { sentencesOf } = await import('/js/speak/sounding_text.js');
      return sentencesOf(text).map(({ from, to }) => text.slice(from, to));
    }"""
    assert node.evaluate(body, "Hello! 🎉\n水开了。坐下吧。") == ["Hello! 🎉\n", "水开了。", "坐下吧。"]
    assert node.evaluate(body, "") == []
