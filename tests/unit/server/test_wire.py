"""Text messages as JSON objects."""

from __future__ import annotations

from runtime.server.wire import decode


def test_a_byte_order_mark_before_a_message_is_passed_over() -> None:
    assert decode('\ufeff{"type": "ping"}') == {"type": "ping"}
