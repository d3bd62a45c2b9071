"""Tests for the list of stored takes if responses are delayed or arrive in another order."""

from __future__ import annotations

from typing import Any

from tests.js.conftest import Node

# Start of a script with a fake server. The tests choose the order of the responses. `asked` contains the method and
# path of each request.
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
    STEPS
    const notes = history.list.map((take) => take.notes ?? '');
    return { asked, notes, ids: history.list.map(({ id }) => id), next: history.next };
  } finally {
    [globalThis.document, globalThis.fetch] = before;
  }
}"""


def after(node: Node, steps: str) -> dict[str, Any]:
    return dict(node.evaluate(HISTORY.replace("STEPS", steps)))


def test_second_change_of_a_take_is_sent_after_the_first_response(node: Node) -> None:
    seen = after(
        node,
        """
          history.show(page(['a']).takes);
          const both = [history.change('a', { notes: 'one' }), history.change('a', { notes: 'two' })];
          await answer(0, { id: 'a', notes: 'one' });
          await answer(1, { id: 'a', notes: 'two' });
          await Promise.all(both);
        """,
    )
    assert seen["asked"] == ["PATCH /studio/takes/a", "PATCH /studio/takes/a"]
    assert seen["notes"] == ["two"]
    late = after(
        node,
        """
          history.show(page(['a']).takes);
          for (const notes of ['one', 'two']) history.change('a', { notes });
          await turn();
        """,
    )
    assert len(late["asked"]) == 1  # Two concurrent requests could arrive in any order.


def test_refused_change_of_a_take_does_not_block_the_next_change(node: Node) -> None:
    seen = after(
        node,
        """
          history.show(page(['a']).takes);
          const send = globalThis.fetch;
          globalThis.fetch = () => Promise.reject(new TypeError('no network'));
          const refused = await history.change('a', { notes: 'one' }).catch((error) => error.code);
          globalThis.fetch = send;
          const second = history.change('a', { notes: refused });
          await answer(0, { id: 'a', notes: refused });
          await second;
        """,
    )
    assert seen["notes"] == ["studio_unreachable"]


def test_takes_of_an_earlier_search_are_not_appended_to_the_list(node: Node) -> None:
    seen = after(
        node,
        """
          const first = history.refresh({ search: 'old' });
          await answer(0, page(['a', 'b'], 'b'));
          await first;
          const rest = [history.more(), history.refresh({ search: 'new' })];
          await answer(2, page(['x'], 'x'));
          await answer(1, page(['c']));
          await Promise.all(rest);
        """,
    )
    assert (seen["ids"], seen["next"]) == (["x"], "x")


def test_page_of_takes_that_is_requested_twice_is_appended_once(node: Node) -> None:
    seen = after(
        node,
        """
          const first = history.refresh({});
          await answer(0, page(['a'], 'a'));
          await first;
          const twice = [history.more(), history.more()];
          await answer(1, page(['b'], 'b'));
          await answer(2, page(['b'], 'b'));
          await Promise.all(twice);
        """,
    )
    assert (seen["ids"], seen["next"]) == (["a", "b"], "b")


def test_late_response_to_an_earlier_request_is_ignored(node: Node) -> None:
    seen = after(
        node,
        """
          const both = [history.refresh(), history.refresh()];
          await answer(1, page(['new', 'old']));
          await answer(0, page(['old']));
          await Promise.all(both);
        """,
    )
    assert seen["ids"] == ["new", "old"]


def test_take_saved_while_the_list_loads_is_included(node: Node) -> None:
    seen = after(
        node,
        """
          const listed = history.refresh({});
          history.add({ id: 'new', room: 'custom_voice' });
          await answer(0, page(['old']));
          await answer(1, page(['new', 'old']));
          await listed;
        """,
    )
    assert seen["ids"] == ["new", "old"]
