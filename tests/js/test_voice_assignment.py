"""Tests for the automatic assignment of voices to the lines of a script."""

from __future__ import annotations

from typing import Any

from tests.js.conftest import Node

ASSIGN = """async ([lines, before, narrator]) => {
  const { VoiceAssignment } = await import('/js/script/voice_assignment.js');
  const cards = new Map([['custom_voice', { speakers: ['angus', 'clara', 'nora', 'reed'] }]]);
  const casting = new VoiceAssignment({ cards, voices: { list: [] }, catalogue: {}, t: (key) => key });
  const voiced = (line) => ({ ...line, voice: line.voice && { mode: 'custom_voice', voice: line.voice } });
  const read = lines.map((name) => ({ name, voice: null }));
  casting.assign(read, before.map(voiced), narrator ? { mode: 'custom_voice', voice: narrator } : undefined);
  return read.map(({ name, voice }) => [name, voice.voice]);
}"""


def assigned(
    node: Node, lines: list[str | None], before: list[dict[str, str | None]], narrator: str | None = None
) -> Any:
    return node.evaluate(ASSIGN, [lines, before, narrator])


def test_unnamed_line_uses_the_narrator_and_not_the_last_role(node: Node) -> None:
    before: list[dict[str, str | None]] = [{"name": None, "voice": "reed"}, {"name": "ANNA", "voice": "clara"}]
    assert assigned(node, [None, None], before) == [[None, "reed"], [None, "reed"]]
    assert assigned(node, [None], [{"name": "ANNA", "voice": "clara"}]) == [[None, "angus"]]
    assert assigned(node, ["TOM", None, "ANNA"], before) == [["TOM", "angus"], [None, "reed"], ["ANNA", "clara"]]


def test_text_pasted_into_a_line_keeps_the_voice_of_the_line(node: Node) -> None:
    before: list[dict[str, str | None]] = [{"name": None, "voice": "reed"}, {"name": None, "voice": "nora"}]
    assert assigned(node, [None], before, "nora") == [[None, "nora"]]


def test_role_named_like_a_voice_gets_that_voice(node: Node) -> None:
    assert assigned(node, ["Nora", None, "TOM"], []) == [[None, "nora"], [None, "angus"], ["TOM", "clara"]]


REASSIGN = """async () => {
  const { newLine, Script } = await import('/js/script/document.js');
  const voiced = (name, voice) => newLine({ name, voice: { mode: 'custom_voice', voice } });
  const script = new Script({ lines: [voiced('TOM', 'angus'), voiced('ANNA', 'clara'), voiced('TOM', 'reed')] });
  const voices = () => script.lines.map(({ voice }) => voice.voice);
  const undo = script.assignVoice(script.lines[0].id, { mode: 'custom_voice', voice: 'nora' });
  const changed = voices();
  undo();
  return [changed, voices()];
}"""


def test_undo_restores_the_voices_of_all_lines_of_a_role(node: Node) -> None:
    assert node.evaluate(REASSIGN, None) == [["nora", "clara", "nora"], ["angus", "clara", "reed"]]
