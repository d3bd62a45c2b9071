"""Tests of live Markdown: the codes equal those of its plain text."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.runtime_server import RunningServer
from tests.support.speech_client import same_sound, spoken, talk
from voicewright import say

pytestmark = pytest.mark.slow

MARKDOWN = "The **kettle** is [on](http://a.b/c) `now`.\n- *Tea*\n- milk\n"
PLAIN = "The kettle is on now.\n\nTea.\nmilk."
CAST: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 40}
LIVE = {**CAST, "split_granularity": "sentence"}  # The limits between messages do not split the text.


async def in_pieces(server: RunningServer, text: str, size: int, **config: Any) -> bytes:
    async with talk(server.socket, **config) as session:
        for start in range(0, len(text), size):
            await session.send("input.text", text=text[start : start + size])
        await session.send("input.done")
        return (await session.take()).pcm


@pytest.mark.parametrize("layout", [False, True])
@pytest.mark.parametrize("size", [1, 4, 100])
async def test_streamed_markdown_sounds_like_plain_text(server: RunningServer, layout: bool, size: int) -> None:
    config = {**LIVE, "non_streaming_mode": layout}
    plain = (await spoken(server.socket, PLAIN, **config, text_filter="none")).pcm
    assert same_sound(await in_pieces(server, MARKDOWN, size, **config), plain)
    assert await in_pieces(server, MARKDOWN, size, **config, text_filter="none") != plain


def test_filtered_http_text_sounds_like_plain_text(server: RunningServer) -> None:
    def posted(text: str, **fields: Any) -> bytes:
        body = {"input": text, "response_format": "pcm", **CAST, **fields}
        return httpx.post(server.http + "/v1/audio/speech", json=body, timeout=60).raise_for_status().content

    plain = posted(PLAIN)
    assert same_sound(posted(MARKDOWN, text_filter="markdown"), plain)
    assert posted(MARKDOWN) != plain


async def test_client_speaks_whole_text_unfiltered(server: RunningServer) -> None:
    as_it_is = (await spoken(server.socket, MARKDOWN, **CAST, text_filter="none")).pcm
    filtered = (await spoken(server.socket, MARKDOWN, **CAST)).pcm
    assert as_it_is != filtered
    assert same_sound(say(server.http, MARKDOWN, **CAST), as_it_is)
    assert same_sound(say(server.http, MARKDOWN, **CAST, text_filter="markdown"), filtered)
