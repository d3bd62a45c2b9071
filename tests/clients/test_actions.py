"""Tests for the page's Gradio API and MCP tools against a complete studio."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CallToolResult

from studio.actions.offering import ACTIONS, argument_descriptions
from tests.support.app import App

DESCRIPTION = "An old man with a deep, calm voice."
TEXT = "The kettle is on, and the bread is in the oven already."


@asynccontextmanager
async def session(app: App) -> AsyncIterator[ClientSession]:
    async with streamablehttp_client(f"{app.url}/mcp") as (read, write, _), ClientSession(read, write) as opened:
        await opened.initialize()
        yield opened


def content_of(result: CallToolResult) -> Any:
    """Return the JSON content of an MCP tool's result.

    The text and the structured content of the result must be equal.
    """
    assert not result.isError, result.content
    (content,) = result.content
    said = json.loads(content.text)  # type: ignore[union-attr]
    assert result.structuredContent == (said if isinstance(said, dict) else {"result": said})
    return said


async def test_mcp_tools_design_takes_save_a_voice_and_speak_with_it(app: App) -> None:
    async with session(app) as tools:

        async def call(tool: str, **arguments: Any) -> Any:
            return content_of(await tools.call_tool(tool, arguments))

        takes = await call("design", description=DESCRIPTION, text=TEXT, seeds=[1, 2, 3])
        assert [take["seed"] for take in takes] == [1, 2, 3]
        assert len({take["take"] for take in takes}) == 3
        assert "wav" not in str(takes)
        async with httpx.AsyncClient(trust_env=False) as client:
            heard = await client.get(takes[1]["audio"])  # The URL of the audio is absolute.
        samples, rate = soundfile.read(io.BytesIO(heard.content))
        assert (rate, len(samples) / rate) == (24_000, pytest.approx(takes[1]["seconds"], abs=1e-3))

        voice = await call("keep", take=takes[1]["take"], name="Grandfather")
        assert (voice["transcript"], voice["description"]) == (TEXT, DESCRIPTION)
        assert (voice["provenance"]["seed"], voice["provenance"]["take"]) == ("2", takes[1]["take"])
        spoken = await call("speak", text="It is me again.", voice="Grandfather", seed=4)
        record = (await call("list_takes", limit=1))[0]
        assert (record["id"], record["mode"], record["text"]) == (spoken["take"], "base", "It is me again.")
        assert (await call("reproduce", take=spoken["take"]))["identical"] is True

        script = await call(
            "script", lines=[{"text": "One.", "voice": "clara"}, {"text": "Two.", "voice": "Grandfather"}]
        )
        joined = await tools.call_tool(
            "export", {"takes": [take["take"] for take in script["takes"]], "format": "flac"}
        )
        (file,) = joined.content
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(file.data)))  # type: ignore[union-attr]
        assert len(samples) / rate > sum(take["seconds"] for take in script["takes"])

        assert (await call("delete_voice", voice="Grandfather"))["deleted"] is True
        assert (await call("list_voices"))["stored"] == []
        refused = await tools.call_tool("speak", {"text": TEXT, "voice": "Grandfather", "mode": "base"})
        assert refused.isError
        assert "[unknown_voice]" in str(refused.content) or "[voice_not_found]" in str(refused.content)


async def test_every_tool_and_argument_has_a_description(app: App) -> None:
    async with session(app) as tools:
        listed = {tool.name: tool for tool in (await tools.list_tools()).tools}
    assert set(listed) == {action.__name__ for action in ACTIONS}
    for action in ACTIONS:
        tool = listed[action.__name__]
        assert len(tool.description) > 20
        assert {
            name: schema["description"] for name, schema in tool.inputSchema["properties"].items()
        } == argument_descriptions(action)
    assert listed["delete_voice"].annotations.destructiveHint is True
    assert listed["list_takes"].annotations.readOnlyHint is True


def test_stored_voice_speaks_with_a_style_and_is_reproducible(app: App) -> None:
    """The stored take includes the mode of the checkpoint, so it can be reproduced."""
    page = Client(app.url, verbose=False)
    (take,) = page.predict(description=DESCRIPTION, text=TEXT, takes=1, api_name="/design")
    voice = page.predict(take=take["take"], name="Nephew", api_name="/keep")
    words = {"text": "It is me again.", "voice": "Nephew", "instruct": "Very slowly.", "seed": 4}
    try:
        styled = page.predict(**words, api_name="/speak")
        plain = page.predict(**{**words, "instruct": ""}, api_name="/speak")
        body = {"input": words["text"], "voice": voice["id"], "seed": 4, "response_format": "pcm"}
        heard = httpx.post(f"{app.url}/v1/audio/speech", json={**body, "instructions": "Very slowly."}, trust_env=False)
        samples, _ = soundfile.read(styled["wav"], dtype="int16")
        assert samples.tobytes() == heard.content
        assert Path(plain["wav"]).read_bytes() != Path(styled["wav"]).read_bytes()

        async def by_mcp() -> dict[str, Any]:
            async with session(app) as tools:
                spoken = content_of(await tools.call_tool("speak", words))
                again = content_of(await tools.call_tool("reproduce", {"take": spoken["take"]}))
                (newest,) = content_of(await tools.call_tool("list_takes", {"limit": 1}))
                return {"seconds": spoken["seconds"], "identical": again["identical"], "mode": newest["mode"]}

        assert asyncio.run(by_mcp()) == {"seconds": len(samples) / 24_000, "identical": True, "mode": "custom_voice"}
    finally:
        page.predict(voice="Nephew", api_name="/delete_voice")


def test_calls_accept_tags_and_pronunciations_and_takes_have_captions(app: App) -> None:
    page = Client(app.url, verbose=False)
    spoken = {"text": "Ask Win.", "voice": "clara", "instruct": "excited", "seed": 4}
    plain = Path(page.predict(**spoken, api_name="/speak")["wav"]).read_bytes()[44:]
    words = {"text": "[pause:250ms] [excited] Ask Nguyen.", "voice": "clara", "seed": 4, "tags": True}
    words["pronunciations"] = [{"word": "Nguyen", "say_as": "Win"}]
    tagged = page.predict(**words, api_name="/speak")
    assert Path(tagged["wav"]).read_bytes()[44:] == bytes(2 * 6000) + plain

    async def by_mcp() -> tuple[dict[str, Any], dict[str, Any]]:
        async with session(app) as tools:
            script = content_of(await tools.call_tool("script", {"lines": [words]}))
            (take,) = script["takes"]
            again = content_of(await tools.call_tool("reproduce", {"take": take["take"]}))
            return again, content_of(await tools.call_tool("take_words", {"take": take["take"]}))

    again, times = asyncio.run(by_mcp())
    assert again["identical"] is True
    assert [word["word"] for word in times["words"]] == ["Ask", "Nguyen."]
    assert times["estimated"] is (times["by"] is None)
    if times["by"] is not None:
        assert times["words"][0]["start_s"] > 0.2  # The first word starts after the pause.


async def test_invalid_tool_arguments_get_one_sentence_and_a_code(app: App) -> None:
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("speak", {}, "text is not valid: it is required and was not given. [invalid_config]"),
        ("speak", {"text": TEXT, "voyce": "clara"}, "An argument is not valid: speak takes only text, mode, voice, "),
        ("speak", {"text": TEXT, "seed": "many"}, "seed is not valid: "),
        ("speak", {"text": TEXT, "seed": [1, 2]}, "seed is not valid: "),
        ("export", {"takes": []}, "takes must contain the id of a take. [invalid_config]"),
    ]
    async with session(app) as tools:
        answers = [await tools.call_tool(tool, arguments) for tool, arguments, _ in asked]
    for (_, _, sentence), answer in zip(asked, answers, strict=True):
        (words,) = answer.content
        assert answer.isError
        assert sentence in words.text  # type: ignore[union-attr]
        assert words.text.endswith(". [invalid_config]")  # type: ignore[union-attr]
        assert "\n" not in words.text  # type: ignore[union-attr]


async def test_unknown_tool_is_refused_with_the_available_names(app: App) -> None:
    async with session(app) as tools:
        answer = await tools.call_tool("nope", {})
    (words,) = answer.content
    assert answer.isError
    said: str = words.text  # type: ignore[union-attr]
    assert said.startswith("There is no tool of that name; there are: ")
    assert "take_audio" in said
    assert said.endswith(". [unknown_tool]")


async def test_omitted_parts_of_speech_are_reported_in_the_result(app: App) -> None:
    spoken = Client(app.url, verbose=False).predict(text=TEXT, api_name="/speak")
    assert spoken["notes"] == ["No voice was named; the checkpoint's first speaker is used."]
    async with session(app) as tools:
        assert content_of(await tools.call_tool("speak", {"text": TEXT, "voice": "clara"}))["notes"] == []


def test_page_of_another_origin_cannot_call_mcp_tools(app: App) -> None:
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_takes", "arguments": {}}}
    headers = {"accept": "application/json, text/event-stream", "origin": "http://elsewhere.example"}
    answer = httpx.post(f"{app.url}/mcp", json=ask, headers=headers, trust_env=False)
    assert "origin_refused" in answer.text
    assert (
        "origin_refused"
        not in httpx.post(f"{app.url}/mcp", json=ask, headers={**headers, "origin": app.url}, trust_env=False).text
    )


def test_gradio_client_designs_takes_saves_a_voice_and_speaks(app: App) -> None:
    page = Client(app.url, verbose=False)
    takes = page.predict(description=DESCRIPTION, text=TEXT, takes=2, api_name="/design")
    sounds = [Path(take["wav"]).read_bytes() for take in takes]
    assert [len(sound) > 24_000 for sound in sounds] == [True, True]
    voice = page.predict(take=takes[0]["take"], name="Uncle", api_name="/keep")
    spoken = page.predict(text="Hello.", voice=voice["id"], api_name="/speak")
    assert spoken["stop_reason"] == "eos"
    (found,) = page.predict(search="uncle hello", api_name="/list_takes")
    assert (found["id"], found["label"], found["voice"]) == (spoken["take"], "Uncle", voice["id"])
    assert [voice["name"] for voice in page.predict(api_name="/list_voices")["stored"]] == ["Uncle"]
    cloned = page.predict(
        name="Copy",
        recording=base64.b64encode(sounds[1]).decode(),
        consent="It is nobody's.",
        transcript=TEXT,
        api_name="/clone",
    )
    assert cloned["transcript"] == TEXT
    for name in ("Uncle", "Copy"):
        page.predict(voice=name, api_name="/delete_voice")


@pytest.mark.parametrize(
    ("action", "asked", "sentence"),
    [
        ("design", {"description": DESCRIPTION, "text": TEXT, "takes": 9}, "takes must be from 1 to 6"),
        ("design", {"description": DESCRIPTION, "text": TEXT, "takes": 2, "seeds": [1]}, "as many seeds"),
        ("script", {"lines": []}, "from 1 to 100"),
        ("script", {"lines": [{"words": "One."}]}, "must be an object with text"),
        ("clone", {"name": "x", "recording": "no base64!", "consent": "yes"}, "a file in base64"),
        ("reproduce", {"take": "nothing"}, "take"),
        ("keep", {"take": "nothing", "name": "x"}, "take"),
    ],
)
def test_failed_gradio_call_returns_one_sentence(app: App, action: str, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AppError, match=sentence):
        Client(app.url, verbose=False).predict(**asked, api_name=f"/{action}")
