"""Tests for shared page elements, such as notices that do not expire while they are used."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

pytestmark = [pytest.mark.quick, pytest.mark.browser]


def test_error_about_a_missing_element_contains_its_selector_and_class(blank: Page) -> None:
    found = blank.evaluate("""async () => {
      const { copyOf, getElement, getElements } = await import('/js/common/elements.js');
      document.body.innerHTML = `<input id="a"><button id="b"></button>
        <template id="c"></template><template id="d"><p>in it</p></template>`;
      const said = (action) => { try { return action(); } catch (error) { return error.message; } };
      const [empty, full] = getElements(document, 'template', HTMLTemplateElement);
      return [
        getElement(document, '#a', HTMLInputElement).id,
        said(() => getElement(document, '#gone')),
        said(() => getElement(document, '#b', HTMLInputElement)),
        getElements(document, '#a, #b', HTMLButtonElement).map(({ id }) => id),
        copyOf(full).textContent,
        said(() => copyOf(empty)),
      ];
    }""")
    assert found == [
        "a",
        "The page has no HTMLElement that is #gone",
        "The page has no HTMLInputElement that is #b",
        ["b"],
        "in it",
        "The template #c is empty",
    ]


def test_repeated_notices_are_merged(blank: Page) -> None:
    said = blank.evaluate("""async () => {
      const { Toasts } = await import('/js/app/messages.js');
      document.body.replaceChildren();
      const toasts = new Toasts(document.body);
      for (let n = 1; n <= 6; n++) toasts.show(String(n));
      return [...document.querySelectorAll('.vw-toast')].map(({ textContent }) => textContent);
    }""")
    assert said == ["5", "6"]


def test_persistent_notice_does_not_expire_and_is_not_replaced(blank: Page) -> None:
    said, counts = blank.evaluate("""async () => {
      const { Toasts } = await import('/js/app/messages.js');
      const timers = [];
      window.setTimeout = (callback) => timers.push(callback);
      document.body.replaceChildren();
      const toasts = new Toasts(document.body);
      const asked = [];
      toasts.show('Speak it again?', { action: 'Again', onAction: () => asked.push(1), dismiss: 'Dismiss' });
      const counts = [timers.length];
      for (let n = 1; n <= 3; n++) toasts.show(String(n));
      const said = [...document.querySelectorAll('.vw-toast span')].map(({ textContent }) => textContent);
      const [again, dismiss] = document.querySelectorAll('.vw-stays button');
      for (const button of [again, dismiss]) {
        button.click();
        counts.push(document.querySelectorAll('.vw-stays').length);
      }
      return [said, [...counts, asked.length]];
    }""")
    assert said == ["Speak it again?", "3"], "there is room for two"
    assert counts == [0, 1, 0, 1]


def test_notice_disappears_when_its_room_is_left_unless_it_is_page_wide(blank: Page) -> None:
    said = blank.evaluate("""async () => {
      const { Toasts } = await import('/js/app/messages.js');
      document.body.replaceChildren();
      const toasts = new Toasts(document.body);
      toasts.show('The voices are here.', { isOfPage: true });
      toasts.show('Kept.');
      toasts.leaveRoom();
      return [...document.querySelectorAll('.vw-toast')].map(({ textContent }) => textContent);
    }""")
    assert said == ["The voices are here."]


def test_notice_does_not_expire_while_its_button_has_focus(blank: Page) -> None:
    waiting = blank.evaluate("""async () => {
      const { Toasts } = await import('/js/app/messages.js');
      const timers = new Set();
      window.setTimeout = () => { timers.add(timers.size + 1); return timers.size; };
      window.clearTimeout = (timer) => timers.delete(timer);
      new Toasts(document.body).show('Gone.', { action: 'Undo' });
      const counts = [timers.size];
      const button = document.querySelector('.vw-toast button');
      for (const action of ['focus', 'blur']) {
        button[action]();
        counts.push(timers.size);
      }
      return counts;
    }""")
    assert waiting == [1, 0, 1]
