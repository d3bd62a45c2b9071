"""Tests for exported chats of several apps: senders, system messages and missing media."""

from __future__ import annotations

import pytest

from tests.js.conftest import Node

MARK = "\u200e"  # Character that iOS writes before system messages.

ANDROID = """12/31/25, 10:30 PM - Messages and calls are end-to-end encrypted. Only people in this chat can read them.
12/31/25, 10:30 PM - Mary: Hello
12/31/25, 10:31 PM - +49 170 1234567: <Media omitted>
12/31/25, 10:31 PM - +49 170 1234567: Hi: it is me
and bye
12/31/25, 10:32 PM - Mary added Tom
12/31/25, 10:33\u202fPM - Mom \u2764\ufe0f: IMG-20251231-WA0001.jpg (file attached)
The lake
12/31/25, 10:34 PM - Mary: This message was deleted
12/31/25, 10:35 PM - Mary: Good night <This message was edited>"""

IOS = f"""[31.12.25, 22:30:15] Family: {MARK}Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.
[31.12.25, 22:30:20] Mary: Hallo
{MARK}[31.12.25, 22:31:02] \u202a+49 170 1234567\u202c: {MARK}Bild weggelassen
[31.12.25, 22:31:05] ~\u00a0Tom: Na? {MARK}<Diese Nachricht wurde bearbeitet.>"""


@pytest.mark.parametrize(
    ("text", "said", "left_out"),
    [
        (
            ANDROID,
            [
                ("Mary", "Hello"),
                ("+49 170 1234567", "Hi: it is me"),
                ("+49 170 1234567", "and bye"),
                ("Mom ❤️", "The lake"),
                ("Mary", "Good night"),
            ],
            5,
        ),
        (IOS, [("Mary", "Hallo"), ("Tom", "Na?")], 2),
        (
            "31/12/2025, 22:30 - João: Oi\n31/12/2025, 22:31 - Ana: <Mídia oculta>\n31/12/2025, 22:31 - Ana: Tchau",
            [("João", "Oi"), ("Ana", "Tchau")],
            1,
        ),
        (
            "31/12/25, 10:30 p. m. - María: Hola\n31/12/25, 10:31 p. m. - Juan: Adiós",
            [("María", "Hola"), ("Juan", "Adiós")],
            0,
        ),
        (
            "31/12/2025 à 22:30 - Marie : Salut\n31/12/2025 à 22:31 - Tom : Ça va",
            [("Marie", "Salut"), ("Tom", "Ça va")],
            0,
        ),
        ("31.12.2025 klo 22.30 - Mari: Moi\n31.12.2025 22.31 - Tom: Hej", [("Mari", "Moi"), ("Tom", "Hej")], 0),
        (
            "[31-12-2025, 22:30:15] Piet: Hoi\n[31-12-2025, 22:31:15] Jan: Dag",
            [("Piet", "Hoi"), ("Jan", "Dag")],
            0,
        ),
        (
            "2025/12/31 下午10:30 - 玛丽: 你好\n2025/12/31 下午10:31 - 汤姆\uff1a再见",
            [("玛丽", "你好"), ("汤姆", "再见")],
            0,
        ),
        (
            "2025. 12. 31. 오후 10:30, 메리 : 안녕\n2025. 12. 31. 오후 10:31, 톰 : 잘 가",
            [("메리", "안녕"), ("톰", "잘 가")],
            0,
        ),
        ("10:30 Mary: Hello\n10:31 John: Hi\nand bye", [("Mary", "Hello"), ("John", "Hi"), ("John", "and bye")], 0),
    ],
)
def test_chat_is_parsed_by_sender_without_system_messages_and_media(
    node: Node, text: str, said: list[tuple[str, str]], left_out: int
) -> None:
    read = node.call("script/reading", "readText", text)
    assert [(line["name"], line["text"]) for line in read["lines"]] == said
    assert read["leftOut"] == left_out


@pytest.mark.parametrize(
    "text",
    ["10:30 The train leaves.\n11:00 It arrives.", "1/1/2020 was a day.\n2/2/2020, 12:30: noon.", "Mary: Hi\nTom: Hi"],
)
def test_text_with_only_timestamps_is_not_a_chat(node: Node, text: str) -> None:
    assert node.call("script/reading", "readChat", text) is None


def test_chat_parsing_time_is_linear_in_length(node: Node) -> None:
    body = """async () => {
      const { readChat } = await import('/js/script/reading.js');
      const times = [5_000, 20_000].map((rows) => {
        const text = `12/31/25, 10:30 PM - Mary: ${'<a '.repeat(15)}\n`.repeat(rows);
        const begun = performance.now();
        readChat(text);
        return performance.now() - begun;
      });
      return times;
    }"""
    short, long = node.evaluate(body)
    assert long < 10 * max(short, 20)
