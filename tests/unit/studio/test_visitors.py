"""Tests that no visitor can read, change or guess another visitor's data."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from studio.store.database import FILE
from studio.store_service import KEY_FILE as FILE_OF_KEY
from studio.store_service import cookie_key
from studio.visitors.visitors import COOKIE, Visitors
from tests.support.keeping import pcm_of, post, save, serving, visitor_client
from tests.support.visiting import VISITORS, header_of
from tests.unit.studio.test_takes import refused

SOUND = pcm_of(0.2)


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with serving(folder, visitors="each") as address:
        yield address


def test_data_of_one_visitor_is_unreachable_for_another_visitor(address: str) -> None:
    with visitor_client(address) as anna, visitor_client(address) as ben:
        record = save(anna, SOUND, reference=b"RIFF secret")
        anna.put("/studio/scripts/s", json={"name": "Secret"}).raise_for_status()
        anna.patch("/studio/me", json={"language": "zh"}).raise_for_status()
        path = f"/studio/takes/{record['id']}"
        for answer in (
            ben.get(path),
            ben.get(f"{path}/audio"),
            ben.get(f"{path}/outline"),
            ben.get(f"{path}/reference"),
            ben.patch(path, json={"name": "Mine"}),
            ben.delete(path),
            ben.post(f"{path}/restore"),
            ben.post("/studio/exports", json={"clips": [{"take": record["id"]}]}),
            ben.get("/studio/scripts/s"),
            ben.delete("/studio/scripts/s"),
        ):
            refused(answer, 404, "not_found")
        assert ben.get("/studio/takes").json() == {"takes": [], "next": None}
        assert ben.get("/studio/scripts").json() == {"scripts": []}
        assert ben.get("/studio/me").json()["preferences"] == {"language": None, "theme": None}
        ben.put("/studio/scripts/s", json={"name": "Ben's own"}).raise_for_status()
        assert anna.get("/studio/scripts/s").json()["name"] == "Secret"
        assert anna.get(path).json() == record
        # Two visitors with the same recording share one file, and each can access it only through their own takes.
        same = save(ben, SOUND, reference=b"RIFF secret")
        anna.delete(path).raise_for_status()
        assert ben.get(f"/studio/takes/{same['id']}/reference").content == b"RIFF secret"


def test_visitor_is_identified_by_a_cookie_that_the_database_does_not_store(address: str, folder: Path) -> None:
    with visitor_client(address) as anna:
        record = save(anna, SOUND)
        token = anna.cookies[COOKIE]
        assert len(token) == 87
        with httpx.Client(base_url=address, cookies={COOKIE: token}, trust_env=False) as again:
            assert again.get("/studio/takes").json()["takes"] == [record]
            assert token in again.get("/").headers["set-cookie"], "a visit renews it"
            assert "set-cookie" not in again.get("/studio/takes").headers
    rows = sqlite3.connect(folder / FILE).execute("SELECT owner FROM takes").fetchall()
    assert rows[0][0].startswith("visitor:")
    for path in folder.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path


def test_cookie_works_in_an_https_frame_and_over_plain_http(address: str) -> None:
    with httpx.Client(base_url=address, trust_env=False) as client:
        plain = client.get("/").headers["set-cookie"]
        client.cookies.clear()
        framed = client.get("/", headers={"x-forwarded-proto": "https"}).headers["set-cookie"]
    assert "HttpOnly; SameSite=Lax" in plain
    assert "Secure" not in plain
    assert "HttpOnly; SameSite=None; Secure; Partitioned" in framed


def test_client_without_a_page_gets_a_visitor_cookie_with_its_first_request(address: str) -> None:
    with httpx.Client(base_url=address, trust_env=False) as client:
        assert client.get("/studio/me").json()["visitor"]["kind"] == "visitor"
        record = save(client, SOUND)
        assert client.get(f"/studio/takes/{record['id']}").json() == record


def test_browser_without_cookies_shows_why_nothing_is_stored(address: str) -> None:
    with httpx.Client(base_url=address, trust_env=False) as client:
        assert client.get("/studio/takes").json()["takes"] == []
        assert "cookie" in refused(post(client, SOUND), 401, "visitor_unknown")
        refused(client.put("/studio/scripts/s", json={}), 401, "visitor_unknown")
        refused(client.patch("/studio/me", json={"theme": "dark"}), 401, "visitor_unknown")


@pytest.mark.parametrize("held", ["", "x", "a" * 43, "a" * 42 + "%", "../" + "a" * 40, '"', f"{'a' * 43}.{'a' * 43}"])
def test_foreign_cookie_is_ignored(held: str) -> None:
    assert VISITORS.token_of(Headers({"cookie": f"{COOKIE}={held}"})) is None
    ours = header_of("a")["cookie"]
    assert VISITORS.token_of(Headers({"cookie": f"other=1; {ours}"})) == "a" * 43
    assert VISITORS.token_of(Headers({"cookie": ours.replace("a", "b", 1)})) is None
    assert Visitors(has_separate_histories=True, key=b"another studio's").token_of(Headers({"cookie": ours})) is None


def test_forged_cookie_is_replaced_with_a_new_visitor_id(address: str) -> None:
    invented = {"cookie": f"{COOKIE}={'a' * 43}"}
    with httpx.Client(base_url=address, trust_env=False) as client:
        refused(client.put("/studio/scripts/s", json={}, headers=invented), 401, "visitor_unknown")
        kwargs = client.get("/", headers=invented).headers["set-cookie"]
        assert invented["cookie"] not in kwargs
        assert save(client, SOUND)["id"]


def test_cookie_key_is_created_once_and_private(folder: Path) -> None:
    folder.mkdir()
    key = cookie_key(folder)
    assert (cookie_key(folder), len(key)) == (key, 32)
    assert (folder / FILE_OF_KEY).stat().st_mode & 0o077 == 0
    (folder / FILE_OF_KEY).write_bytes(key[:16])  # A truncated key file is invalid.
    assert len(cookie_key(folder)) == 32


def test_store_contains_keyed_hashes_and_no_addresses(folder: Path) -> None:
    def hashed(key: bytes, client: str) -> str | None:
        scope = {"type": "http", "headers": [], "client": (client, 5), "path": "/", "method": "GET"}
        return Visitors(has_separate_histories=True, key=key).identify(HTTPConnection(scope)).address

    here = hashed(b"key", "192.0.2.7")
    assert here is not None
    assert "192" not in here
    assert here == hashed(b"key", "::ffff:192.0.2.7")
    assert here not in {hashed(b"key", "192.0.2.8"), hashed(b"other", "192.0.2.7")}
    assert hashed(b"key", "2a00:1450:4001:81b::1") == hashed(b"key", "2a00:1450:4001:81b:ffff::2")
    with serving(folder, visitors="each") as address, visitor_client(address) as client:
        save(client)
        client.put("/studio/scripts/s", json={"name": "s", "lines": []})
    with sqlite3.connect(folder / FILE) as connection:
        places = set(connection.execute("SELECT address FROM kept"))
    connection.close()
    assert len(places) == 1
    assert all(place and "127" not in place for (place,) in places)


def test_shared_studio_sets_no_cookie(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "shared", visitors="one") as address,
        visitor_client(address) as anna,
        visitor_client(address) as ben,
    ):
        assert not anna.cookies
        record = save(anna, SOUND)
        assert ben.get(f"/studio/takes/{record['id']}").json() == record
        assert ben.get("/studio/me").json()["visitor"] == {"kind": "host", "name": None}


def test_preferences_are_limited_in_size_and_number(address: str) -> None:
    with visitor_client(address) as anna:
        chosen = anna.patch("/studio/me", json={"theme": "dark", "seen_tour": True}).json()["preferences"]
        assert chosen == {"language": None, "theme": "dark", "seen_tour": True}
        assert anna.patch("/studio/me", json={"seen_tour": None}).json()["preferences"]["theme"] == "dark"
        for bad in ({"theme": "pink"}, {"language": "<script>"}, {"Bad name": 1}, {"list": [1]}, {"long": "x" * 1001}):
            refused(anna.patch("/studio/me", json=bad), 400, "invalid_config", next(iter(bad)))
        many = {f"key_{number}": number for number in range(65)}
        refused(anna.patch("/studio/me", json=many), 400, "invalid_config", "preferences")
