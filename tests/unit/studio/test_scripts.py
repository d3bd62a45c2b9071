"""Tests for scripts over HTTP: stored unchanged, and protected from conflicting edits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.keeping import pcm_of, post, save, serving, visitor_client
from tests.unit.studio.test_takes import refused

LINES = [
    {
        "id": "a1",
        "text": "Hello.",
        "voice": {"mode": "base", "voice": "x"},
        "instruct": "",
        "seed": None,
        "locked": True,
    },
    {"id": "a2", "text": "你好", "voice": None, "takes": [{"key": "k", "take": "t", "samples": 5}]},
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(tmp_path / "data", max_scripts=2) as address, visitor_client(address) as client:
        yield client


def test_stored_script_is_returned_with_all_page_fields(client: httpx.Client) -> None:
    sent = {"id": "other", "name": "Play", "gap_s": 0.4, "lines": LINES, "updated_at": None}
    kept_ = client.put("/studio/scripts/s-1", json=sent).json()
    assert kept_ == {**sent, "id": "s-1", "updated_at": kept_["updated_at"]}
    assert client.get("/studio/scripts/s-1").json() == kept_
    (listed,) = client.get("/studio/scripts").json()["scripts"]
    assert listed == {**kept_, "lines": 2, "begins": "Hello."}


def test_most_recently_changed_script_is_listed_first(client: httpx.Client) -> None:
    for name in ("one", "two", "one"):
        client.put(f"/studio/scripts/{name}", json={"name": name}).raise_for_status()
    assert [script["id"] for script in client.get("/studio/scripts").json()["scripts"]] == ["one", "two"]


def test_script_search_matches_text_speaker_and_style(client: httpx.Client) -> None:
    lines: list[dict[str, object]] = [
        {"id": "a", "name": "TOM", "text": "The kettle is on.", "instruct": "warmly"},
        {"id": "b", "text": "你好", "voice": {"mode": "voice_design", "description": "An old sailor"}},
        {"id": "c", "text": "Odd.", "voice": "no voice", "name": 7},
    ]
    client.put("/studio/scripts/s", json={"name": "Morning", "lines": lines}).raise_for_status()
    client.put("/studio/scripts/other", json={"name": "Evening"}).raise_for_status()

    def found(words: str) -> list[str]:
        return [script["id"] for script in client.get("/studio/scripts", params={"search": words}).json()["scripts"]]

    for words in ("morning", "KETTLE tom", "warmly", "你好", "sailor", "odd"):
        assert found(words) == ["s"], words
    assert found("kettle evening") == []
    assert sorted(found(" ")) == ["other", "s"]


def test_concurrent_edit_of_another_tab_is_not_overwritten(client: httpx.Client) -> None:
    first = client.put("/studio/scripts/s", json={"name": "first", "updated_at": None}).json()
    second = client.put("/studio/scripts/s", json={"name": "second", "updated_at": first["updated_at"]}).json()
    assert second["updated_at"] > first["updated_at"]
    refused(
        client.put("/studio/scripts/s", json={"name": "late", **{"updated_at": first["updated_at"]}}),
        409,
        "changed_meanwhile",
    )
    assert client.get("/studio/scripts/s").json() == second
    client.put("/studio/scripts/s", json={"name": "mine", "updated_at": second["updated_at"]}).raise_for_status()


def test_new_script_does_not_overwrite_an_existing_script(client: httpx.Client) -> None:
    first = client.put("/studio/scripts/s", json={"name": "first", "updated_at": 0}).json()
    refused(client.put("/studio/scripts/s", json={"name": "second", "updated_at": 0}), 409, "changed_meanwhile")
    assert client.get("/studio/scripts/s").json() == first
    client.delete("/studio/scripts/s").raise_for_status()
    client.put("/studio/scripts/s", json={"name": "second", "updated_at": 0}).raise_for_status()


def test_deletion_of_a_script_can_be_undone(client: httpx.Client) -> None:
    script = client.put("/studio/scripts/s", json={"name": "Play", "lines": LINES}).json()
    assert client.delete("/studio/scripts/s").json() == {"id": "s", "deleted": True}
    refused(client.get("/studio/scripts/s"), 404, "not_found")
    refused(client.delete("/studio/scripts/s"), 404, "not_found")
    assert client.get("/studio/scripts").json() == {"scripts": []}
    (deleted,) = client.get("/studio/scripts?deleted=1").json()["scripts"]
    assert (deleted["id"], deleted["name"], deleted["lines"]) == ("s", "Play", len(LINES))
    assert client.post("/studio/scripts/s/restore").json() == script
    assert client.get("/studio/scripts?deleted=1").json() == {"scripts": []}


def test_invalid_script_is_refused(client: httpx.Client) -> None:
    refused(client.put("/studio/scripts/a.b", json={}), 400, "invalid_config", "id")
    refused(client.put("/studio/scripts/s", json={"lines": "x"}), 400, "invalid_config", "lines")
    refused(client.put("/studio/scripts/s", json={"lines": [{"text": "x"}]}), 400, "invalid_config", "lines.0.id")
    refused(client.put("/studio/scripts/s", content=b"{"), 400, "invalid_json")
    refused(client.put("/studio/scripts/s", content=b" " * (2**24 + 1)), 413, "message_too_large")
    long = [{"id": f"l{number}", "text": "x" * 90_000} for number in range(95)]
    refused(client.put("/studio/scripts/s", json={"lines": long}), 400, "invalid_config", "lines")
    for name in ("one", "two"):
        client.put(f"/studio/scripts/{name}", json={}).raise_for_status()
    assert "2 scripts" in refused(client.put("/studio/scripts/three", json={}), 507, "store_full")
    client.put("/studio/scripts/one", json={"name": "again"}).raise_for_status()


def test_script_takes_are_excluded_from_the_take_limit_and_never_removed(tmp_path: Path) -> None:
    with serving(tmp_path / "other", max_takes=2) as address, visitor_client(address) as client:
        first, second = (save(client, pcm_of(0.1))["id"] for _ in range(2))
        lines = [{"id": "a", "takes": [{"key": "k", "take": first}]}]
        client.put("/studio/scripts/s", json={"lines": lines}).raise_for_status()
        third = save(client, pcm_of(0.1))["id"]
        assert "2 takes outside scripts" in refused(post(client, pcm_of(0.1)), 507, "store_full")
        assert client.post("/studio/takes/free", json={"takes": 9}).json()["takes"] == [second, third]
        assert [take["id"] for take in client.get("/studio/takes").json()["takes"]] == [first]


def test_operations_on_a_long_script_do_not_block_the_event_loop(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 0

    def measured(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(value: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal largest
            result = call(value, *args, **kwargs)
            largest = max(largest, *(len(text) for text in (value, result) if isinstance(text, str | bytes)))
            return result

        return wrapped

    lines = [{"id": f"l{number}", "text": f"Line {number}.", "take": f"t{number}"} for number in range(6000)]
    body = json.dumps({"name": "novel", "lines": lines})
    with monkeypatch.context() as patched:
        for name in ("loads", "dumps"):
            patched.setattr(json, name, measured(getattr(json, name)))
        put = client.put("/studio/scripts/s", content=body).raise_for_status()
        got = client.get("/studio/scripts/s").raise_for_status()
        listed = client.get("/studio/scripts", params={"search": "novel 5999"}).raise_for_status()
    assert 0 < largest < 1000  # Size of the largest piece that Python parsed or wrote at once.
    assert put.content == got.content
    assert got.json()["lines"] == lines
    assert listed.json()["scripts"][0]["lines"] == 6000


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b'{"lines": [], "lines": []}', "invalid_json", None),
        (b'{"lines": [], "lin\\u0065s": []}', "invalid_json", None),
        (b'{"lines": [{"id": "a", "id": "b"}]}', "invalid_json", None),
        (b'{"lines": [{"id": "a", "text": "\xff"}]}', "invalid_json", None),
        (b'{"lines": [{"id": "a", "more": 1e999}]}', "invalid_json", None),
        (b"{'lines': [],}", "invalid_json", None),
        (b'["lines"]', "invalid_json", None),
        (b'{"lines": null}', "invalid_config", "lines"),
        (b'{"lines": {"0": {"id": "a"}}}', "invalid_config", "lines"),
        (b'{"lines": [{"id": "a"}, "b"]}', "invalid_config", "lines.1"),
        (b'{"lines": [{"id": "a"}, {"id": "b", "text": 1}]}', "invalid_config", "lines.1.text"),
        (b'{"lines": [{"id": "a", "more": "' + b"x" * 2**20 + b'"}]}', "invalid_config", "lines.0"),
        (b'{"lines": [' + b",".join([b'{"id": "a"}'] * 10_001) + b"]}", "invalid_config", "lines"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_line_is_validated_like_all_json(client: httpx.Client, body: bytes, code: str, param: str | None) -> None:
    refused(client.put("/studio/scripts/s", content=body), 400, code, param)


def test_byte_order_mark_is_stripped_from_a_script(client: httpx.Client) -> None:
    body = b'\xef\xbb\xbf{"name": "\xc3\x84"}'
    assert client.put("/studio/scripts/s", content=body).raise_for_status().json()["name"] == "Ä"
    (listed,) = client.get("/studio/scripts").json()["scripts"]
    assert (listed["lines"], listed["begins"]) == (0, "")
