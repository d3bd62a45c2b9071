"""The list of kept takes, where answers come late and in another order than they were asked for."""

from __future__ import annotations

from typing import Any

from tests.js.conftest import Node

# Answers are given by the tests, in the order that they choose; `asked` is what was sent, as method and path.
HISTORY = """async () => {
  const before = [globalThis.document, globalThis.fetch];
  const asked = [], waiting = [];
  globalThis.document = { baseURI: 'http://studio/' };
  globalThis.fetch = (url, { method = 'GET' } = {}) => new Promise((answer) => {
    asked.push(`${method} ${url.pathname}${url.search}`);
    waiting.push((body) => answer(new Response(JSON.stringify(body))));
  });
  const turn = () => new Promise((resume) => setTimeout(resume));
  const answer = async (index, body) => (await turn(), waiting[index](body), await turn());
  const page = (ids, next = null) => ({ takes: ids.map((id) => ({ id, room: 'custom_voice' })), next });
  try {
    const { TakeHistory } = await import('/js/library/history.js');
    const history = new TakeHistory({}, (key) => key);
    await (STEPS)({ history, answer, page, turn });
    const notes = history.list.map((take) => take.notes ?? '');
    return { asked, notes, ids: history.list.map(({ id }) => id), next: history.next };
  } finally {
    [globalThis.document, globalThis.fetch] = before;
  }
}"""


def after(node: Node, steps: str) -> dict[str, Any]:
    return dict(node.evaluate(HISTORY.replace("STEPS", steps)))


def test_of_two_changes_of_a_take_the_second_is_sent_when_the_first_was_answered(node: Node) -> None:
    seen = after(
        node,
        """async ({ history, answer, page, turn }) => {
          history.show(page(['a']).takes);
          const both = [history.change('a', { notes: 'one' }), history.change('a', { notes: 'two' })];
          await answer(0, { id: 'a', notes: 'one' });
          await answer(1, { id: 'a', notes: 'two' });
          await Promise.all(both);
        }""",
    )
    assert seen["asked"] == ["PATCH /studio/takes/a", "PATCH /studio/takes/a"]
    assert seen["notes"] == ["two"]
    late = after(
        node,
        """async ({ history, page, turn }) => {
          history.show(page(['a']).takes);
          for (const notes of ['one', 'two']) history.change('a', { notes });
          await turn();
        }""",
    )
    assert len(late["asked"]) == 1  # two under way could come to the studio, and back, in either order


def test_a_change_that_is_refused_does_not_keep_the_next_from_being_sent(node: Node) -> None:
    seen = after(
        node,
        """async ({ history, answer, page }) => {
          history.show(page(['a']).takes);
          const send = globalThis.fetch;
          globalThis.fetch = () => Promise.reject(new TypeError('no network'));
          const refused = await history.change('a', { notes: 'one' }).catch((error) => error.code);
          globalThis.fetch = send;
          const second = history.change('a', { notes: refused });
          await answer(0, { id: 'a', notes: refused });
          await second;
        }""",
    )
    assert seen["notes"] == ["studio_unreachable"]


def test_a_page_that_was_asked_for_before_another_search_is_not_added_to_it(node: Node) -> None:
    seen = after(
        node,
        """async ({ history, answer, page }) => {
          const first = history.refresh({ search: 'old' });
          await answer(0, page(['a', 'b'], 'b'));
          await first;
          const rest = [history.more(), history.refresh({ search: 'new' })];
          await answer(2, page(['x'], 'x'));
          await answer(1, page(['c']));
          await Promise.all(rest);
        }""",
    )
    assert (seen["ids"], seen["next"]) == (["x"], "x")


def test_a_page_that_is_asked_for_twice_is_added_once(node: Node) -> None:
    seen = after(
        node,
        """async ({ history, answer, page }) => {
          const first = history.refresh({});
          await answer(0, page(['a'], 'a'));
          await first;
          const twice = [history.more(), history.more()];
          await answer(1, page(['b'], 'b'));
          await answer(2, page(['b'], 'b'));
          await Promise.all(twice);
        }""",
    )
    assert (seen["ids"], seen["next"]) == (["a", "b"], "b")


def test_the_answer_that_comes_last_is_not_shown_where_it_was_asked_for_first(node: Node) -> None:
    seen = after(
        node,
        """async ({ history, answer, page }) => {
          const both = [history.refresh(), history.refresh()];
          await answer(1, page(['new', 'old']));
          await answer(0, page(['old']));
          await Promise.all(both);
        }""",
    )
    assert seen["ids"] == ["new", "old"]


def test_a_take_that_is_kept_while_the_list_is_asked_for_is_in_it(node: Node) -> None:
    seen = after(
        node,
        """async ({ history, answer, page }) => {
          const listed = history.refresh({});
          history.add({ id: 'new', room: 'custom_voice' });
          await answer(0, page(['old']));
          if (history.list.length && history.list[0].id === 'old') return; // shown without it
          await answer(1, page(['new', 'old']));
          await listed;
        }""",
    )
    assert seen["ids"] == ["new", "old"]
