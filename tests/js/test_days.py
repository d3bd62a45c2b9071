"""Tests for day names relative to today, in the language of the page."""

from __future__ import annotations

import pytest

from tests.js.conftest import Node

NAMED = """async ({ at, now, language }) => {
  const { dayOf, nameOfDay } = await import('/js/common/dates.js');
  return nameOfDay(dayOf(new Date(...at).getTime()), new Date(...now).getTime(), language);
}"""
NOW = (2026, 10, 24, 0, 30)  # Half past midnight on 24 November, because JavaScript counts months from 0.


@pytest.mark.parametrize(
    ("at", "en", "zh"),
    [
        ((2026, 10, 24, 0, 5), "Today", "今天"),
        ((2026, 10, 23, 23, 59), "Yesterday", "昨天"),
        ((2026, 10, 22, 12), "Sunday, November 22", "11月22日星期日"),
        ((2025, 11, 31, 12), "December 31, 2025", "2025年12月31日"),
    ],
)
def test_dates_are_named_relative_to_today(node: Node, at: tuple[int, ...], en: str, zh: str) -> None:
    for language, name in (("en", en), ("zh", zh)):
        assert node.evaluate(NAMED, {"at": at, "now": NOW, "language": language}) == name
