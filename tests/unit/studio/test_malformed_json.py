"""Tests for malicious JSON in requests: no 5xx response, and all lists still work."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from runtime.errors import InvalidMessage
from studio.routes.responses import read_body
from studio.store.database import FILE
from tests.support.examples import examples
from tests.support.keeping import create_take, pcm_of, save, serving, visitor_client

DEEP = "[" * 960 + "]" * 960
BOTTOMLESS = "[" * 100_000 + "]" * 100_000
LONG = "9" * 4000

# JSON values as text, because some of them differ from ordinary values only in their notation.
WRITTEN = [
    *(r'"\ud800"', r'"\udfff\ud800"', r'"\u0000"', '"\U0001f600"', f'"{"a" * 5000}"', '""'),
    *(LONG, "18446744073709551616", "1e999", "-0.0", "1e-400", "NaN", "-Infinity", "null", "true"),
    *(DEEP, BOTTOMLESS, "{}", "[]", "["),
]
KNOWN = [
    *("text", "name", "config", "metrics", "model", "lines", "id", "take", "tags", "language", "theme"),
    *("updated_at", "clips", "silence_s", "line", "instruct", "voice", "seed", "favourite", "notes"),
]
LEAVES = st.sampled_from(WRITTEN) | st.text(st.characters(codec="utf-8")).map(json.dumps)
NAMES = st.sampled_from([*map(json.dumps, KNOWN), r'"\ud800"', '""', r'"\u0000"'])
NASTY = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(st.tuples(NAMES, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
        )
    ),
    max_leaves=6,
)
LISTS = ("/studio/me", "/studio/takes", "/studio/takes?search=a", "/studio/scripts")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("store")) as address, visitor_client(address) as client:
        yield client


@pytest.fixture(scope="module")
def take(client: httpx.Client) -> str:
    return str(save(client)["id"])


def under(name: str, value: str) -> str:
    """Return a JSON object with one field, whose value has the notation `value`."""
    return f'{{"{name}": {value}}}'


def with_field(name: str, value: str) -> str:
    """Return the JSON of a take in which the value of one field has the notation `value`."""
    return json.dumps(create_take(**{name: "HERE"})).replace('"HERE"', value)


def send(client: httpx.Client, take: str, route: str, body: str) -> httpx.Response:
    data = body.encode("utf-8", "surrogatepass")
    if route == "takes":
        files = {"take": (None, data), "pcm": ("take.pcm", pcm_of(0.1), "application/octet-stream")}
        return client.post("/studio/takes", files=files)
    method, path = {
        "me": ("PATCH", "/studio/me"),
        "take": ("PATCH", f"/studio/takes/{take}"),
        "script": ("PUT", "/studio/scripts/nasty"),
        "exports": ("POST", "/studio/exports"),
    }[route]
    return client.request(method, path, content=data, headers={"content-type": "application/json"})


@pytest.mark.slow
@given(
    route=st.sampled_from(["me", "takes", "take", "script", "exports"]),
    body=NASTY
    | st.tuples(st.sampled_from(["config", "metrics", "model", "text"]), NASTY).map(lambda it: with_field(*it)),
)
@example("takes", with_field("config", DEEP))
@example("takes", with_field("config", r'{"instruct": "\ud800"}'))
@example("takes", with_field("metrics", under("a", DEEP)))
@example("takes", with_field("metrics", under("a", LONG)))
@example("me", r'{"language": "\ud800"}')
@example("me", r'{"a": "\ud800"}')
@example("me", under("a", LONG))
@example("script", r'{"name": "a", "lines": [{"id": "1", "more": "\ud800"}]}')
@example("script", under("more", DEEP))
@example("script", BOTTOMLESS)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_malformed_json_values_are_not_stored_and_do_not_break_lists(
    client: httpx.Client, take: str, route: str, body: str
) -> None:
    answer = send(client, take, route, body)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.json()["error"]["code"]
    for path in LISTS:
        listed = client.get(path)
        assert listed.status_code == 200, (path, listed.text)
    client.patch("/studio/me", json={name: None for name in client.get("/studio/me").json()["preferences"]})


INVALID_JSON = {
    "half a character": r'"\ud800"',
    "too deep": under("a", DEEP),
    "no JSON": '{"name": ',
    "a long number": under("a", "9" * 5000),
}


@pytest.mark.slow("a long number", "half a character", "too deep")
@pytest.mark.parametrize("invalid_json", INVALID_JSON.values(), ids=INVALID_JSON.keys())
def test_unreadable_row_is_skipped_and_other_rows_are_listed(tmp_path: Path, invalid_json: str) -> None:
    with serving(tmp_path) as address, visitor_client(address) as client:
        good, bad = save(client, text="good")["id"], save(client, text="bad")["id"]
        for name in ("good", "bad"):
            client.put(f"/studio/scripts/{name}", json={"name": name, "lines": []}).raise_for_status()
        client.patch("/studio/me", json={"theme": "dark"}).raise_for_status()

    connection = sqlite3.connect(tmp_path / FILE)
    with connection:
        connection.execute("UPDATE takes SET record = ? WHERE id = ?", (invalid_json, bad))
        connection.execute("UPDATE scripts SET script = ? WHERE id = 'bad'", (invalid_json,))
        connection.execute("UPDATE preferences SET chosen = ?", (invalid_json,))

    with serving(tmp_path) as address, visitor_client(address) as client:
        assert client.get("/studio/me").json()["preferences"] == {"language": None, "theme": None}
        takes: list[dict[str, Any]] = client.get("/studio/takes").json()["takes"]
        assert [take["id"] for take in takes] == [good]
        assert [script["id"] for script in client.get("/studio/scripts").json()["scripts"]] == ["good"]
        assert client.get(f"/studio/takes/{bad}").status_code == 404
        assert "set aside" in client.get("/studio/me").json()["notice"]
        client.patch("/studio/me", json={"theme": "light"}).raise_for_status()
    held = connection.execute("SELECT kind, held FROM set_aside ORDER BY kind").fetchall()
    assert held == [("preferences", invalid_json), ("scripts", invalid_json), ("takes", invalid_json)]

    # The file is complete, so the studio recovers the take.
    with serving(tmp_path) as address, visitor_client(address) as client:
        assert {take["id"] for take in client.get("/studio/takes").json()["takes"]} == {good, bad}


async def test_body_with_too_many_values_is_refused_before_it_is_parsed() -> None:
    body = b'{"text": "Hello.", "pronunciations": [' + b"1," * 2**17 + b"1]}"

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    with pytest.raises(InvalidMessage, match="more than 131072 values"):
        await read_body(Request({"type": "http", "headers": []}, receive))
