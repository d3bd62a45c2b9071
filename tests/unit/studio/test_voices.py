"""Tests for stored voices of the host and of separate visitors.

The tests use a real runtime.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection
from starlette.routing import Route, WebSocketRoute
from websockets.asyncio.client import connect

from runtime.errors import OriginRefused, StorageFailed, VoiceNotFound
from runtime.server.native.messages import PROTOCOL
from runtime.settings import EngineSettings
from studio.relay.relay import HTTP_METHODS, Relay
from studio.runtimes.given_runtime import GivenRuntime
from studio.settings import StoreSettings
from studio.store.database import FILE
from studio.store.voice_bin import MAX_FILES, VoiceBin
from studio.store_service import StoreService
from studio.visitors.visitors import COOKIE, Visitors
from studio.visitors.voice_owners import voice_owner_lookup
from tests.conftest import FolderOf
from tests.support.keeping import create_take, pcm_of
from tests.support.runtime_server import RunningServer, running_server
from tests.support.visiting import VISITORS, header_of
from tests.unit.studio.serving import served
from tests.wire.test_voices import CONSENT, VOICES, recording


@pytest.fixture(scope="module")
def running(folder_of: FolderOf) -> Iterator[RunningServer]:
    with running_server(folder_of("brief", "base"), engine=EngineSettings(threads=1, max_slots=2)) as server:
        yield server


@asynccontextmanager
async def studio(
    running: RunningServer, folder: Path, owner_of: Callable[[HTTPConnection], str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Run a studio for a runtime, yield an HTTP client of the studio, and delete all voices."""
    relay = Relay(GivenRuntime(running.http), owner_of=owner_of)
    stores = StoreService(StoreSettings(data=str(folder / "data"), bin_s=60))
    routes = [
        *stores.routes(),
        *stores.voice_routes(relay),
        Route("/v1/{path:path}", relay.http, methods=HTTP_METHODS),
    ]
    async with (
        stores.running(),
        served(routes) as place,
        httpx.AsyncClient(base_url=f"http://{place}", timeout=30) as client,
    ):
        yield client
    await relay.aclose()
    async with httpx.AsyncClient(base_url=running.http) as client:
        for voice in (await client.get(VOICES)).json()["data"]:
            await client.delete(f"{VOICES}/{voice['id']}")


@pytest.fixture
async def client(running: RunningServer, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with studio(running, tmp_path) as client:
        yield client


async def kept(client: httpx.AsyncClient, name: str = "Clara", **headers: str) -> Any:
    files = {"audio_sample": recording()}
    answer = await client.post(
        VOICES, data={"name": name, "consent": CONSENT, "tags": "a,b"}, files=files, headers=headers
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_deleted_voice_is_restored_unchanged(client: httpx.AsyncClient, tmp_path: Path) -> None:
    made = await kept(client)
    before = (await client.get(f"{VOICES}/{made['id']}/audio")).content
    gone = await client.delete("/studio/voices/CLARA")
    assert (gone.status_code, gone.json()["deleted"], gone.json()["restorable_s"]) == (200, True, 60)
    assert (await client.get(VOICES)).json()["data"] == []
    back = await client.post(f"/studio/voices/{made['id']}/restore")
    assert back.status_code == 200
    assert {name: back.json()[name] for name in ("id", "name", "tags", "consent", "created_at")} == {
        name: made[name] for name in ("id", "name", "tags", "consent", "created_at")
    }
    assert (await client.get(f"{VOICES}/{made['id']}/audio")).content == before
    assert binned(tmp_path) == []


async def test_voice_restored_twice_is_returned_twice(client: httpx.AsyncClient, tmp_path: Path) -> None:
    made = await kept(client)
    await client.delete(f"/studio/voices/{made['id']}")
    restore = f"/studio/voices/{made['id']}/restore"
    responses = [*await asyncio.gather(client.post(restore), client.post(restore)), await client.post(restore)]
    assert [(response.status_code, response.json()["id"]) for response in responses] == [(200, made["id"])] * 3
    assert len((await client.get(VOICES)).json()["data"]) == 1
    assert binned(tmp_path) == []


def binned(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "data" / "deleted-voices").glob("*/*"))


async def spoken(client: httpx.AsyncClient, **fields: Any) -> str:
    """Store a take with these fields, and return the ID of the take."""
    files = {"pcm": ("take.pcm", pcm_of(0.1))}
    answer = await client.post("/studio/takes", data={"take": json.dumps(create_take(**fields))}, files=files)
    return str(answer.json()["id"])


async def test_voice_is_deleted_permanently_with_its_takes(client: httpx.AsyncClient, tmp_path: Path) -> None:
    made, other = await kept(client), await kept(client, "Other")
    by_id = await spoken(client, mode="base", config={"voice": made["id"]})
    by_name = await spoken(client, mode="base", config={"voice": "CLARA"})
    speaker = await spoken(client, mode="custom_voice", config={"voice": "clara"})
    others = await spoken(client, mode="base", config={"voice": other["id"]})
    await client.delete(f"/studio/takes/{by_id}")
    summary = (await client.get("/studio/voices/clara")).json()
    assert summary == {"id": made["id"], "in_bin": False, "takes": 2, "restorable_s": 60}
    assert code(await client.delete("/studio/voices/clara?takes=1")) == (400, "invalid_config")
    gone = (await client.delete("/studio/voices/clara?now=1&takes=1")).json()
    assert (gone["id"], gone["deleted"], gone["restorable_s"]) == (made["id"], True, 0)
    assert (gone["takes"], gone["takes_deleted"]) == (0, 2)
    assert binned(tmp_path) == []
    assert {path.stem for path in (tmp_path / "data" / "takes").iterdir()} == {speaker, others}
    assert code(await client.post(f"/studio/takes/{by_id}/restore")) == (404, "not_found")
    assert (await client.get(f"/studio/takes/{by_name}")).status_code == 404
    assert code(await client.post(f"/studio/voices/{made['id']}/restore")) == (404, "voice_not_found")


async def test_voice_in_the_recycle_bin_can_be_deleted_permanently(client: httpx.AsyncClient, tmp_path: Path) -> None:
    made = await kept(client)
    take = await spoken(client, mode="base", config={"voice": made["id"]})
    address = f"/studio/voices/{made['id']}"
    assert (await client.delete(address)).json()["takes"] == 1
    assert len(binned(tmp_path)) == 1
    assert (await client.get(address)).json()["in_bin"] is True
    assert code(await client.delete(address)) == (404, "voice_not_found")
    gone = (await client.delete(f"{address}?now=1")).json()
    assert gone == {"id": made["id"], "deleted": True, "restorable_s": 0, "takes": 1}
    assert binned(tmp_path) == []
    assert (await client.get(f"/studio/takes/{take}")).status_code == 200
    assert code(await client.get(address)) == (404, "voice_not_found")


async def in_bin(client: httpx.AsyncClient, **headers: str) -> Any:
    return (await client.get("/studio/deleted-voices", headers=headers)).json()["voices"]


async def test_deleted_voices_are_listed_until_they_are_restored_or_deleted_permanently(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    made = [await kept(client, name) for name in ("Clara", "Zoë", "Peter")]
    assert await in_bin(client) == []
    for voice in made:
        await client.delete(f"/studio/voices/{voice['id']}")
    binned(tmp_path)[0].with_name("damaged.voice").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    listed = await in_bin(client)
    assert [(voice["id"], voice["name"]) for voice in listed] == [(voice["id"], voice["name"]) for voice in made[::-1]]
    assert all(40 < voice["restorable_s"] <= 60 for voice in listed)
    await client.post(f"/studio/voices/{made[0]['id']}/restore")
    await client.delete(f"/studio/voices/{made[1]['id']}?now=1")
    assert [voice["name"] for voice in await in_bin(client)] == ["Peter"]


async def test_voice_whose_name_was_reused_stays_in_the_recycle_bin(client: httpx.AsyncClient) -> None:
    made = await kept(client)
    await client.delete(f"/studio/voices/{made['id']}")
    other = await kept(client)
    restore = f"/studio/voices/{made['id']}/restore"
    assert code(await client.post(restore)) == (409, "voice_name_taken")
    await client.delete(f"{VOICES}/{other['id']}")
    assert (await client.post(restore)).status_code == 200


async def test_missing_voice_is_reported(client: httpx.AsyncClient) -> None:
    for name in ("nobody", "0" * 32, "a%3Fsearch=x"):
        assert code(await client.delete(f"/studio/voices/{name}")) == (404, "voice_not_found"), name
        assert code(await client.post(f"/studio/voices/{name}/restore")) == (404, "voice_not_found"), name
    made = await kept(client)
    foreign = {"origin": "https://elsewhere.example"}
    answer = await client.delete(f"/studio/voices/{made['id']}", headers=foreign)
    assert code(answer) == (403, OriginRefused.code)
    assert (await client.get(f"{VOICES}/{made['id']}")).status_code == 200


def by_cookie(connection: HTTPConnection) -> str:
    return connection.cookies.get("who", "")


async def test_visitors_cannot_see_change_or_delete_voices_of_other_visitors(
    running: RunningServer, tmp_path: Path
) -> None:
    async with studio(running, tmp_path, by_cookie) as client:
        house = await kept(client, "House")
        anna, bert = {"cookie": "who=anna"}, {"cookie": "who=bert"}
        annas = await kept(client, "Clara", **anna)
        listed = (await client.get(VOICES, headers=bert)).json()["data"]
        assert [voice["id"] for voice in listed] == [house["id"]]
        # The studio ignores an owner header that the client sends.
        lying = {**bert, "X-Voice-Owner": "anna"}
        for headers in (bert, lying, {"X-Voice-Owner": "anna"}):
            assert (await client.get(f"{VOICES}/{annas['id']}", headers=headers)).status_code == 404
            assert code(await client.delete(f"/studio/voices/{annas['id']}", headers=headers)) == (
                404,
                "voice_not_found",
            )
        assert code(await client.delete(f"/studio/voices/{house['id']}", headers=bert)) == (403, "voice_not_yours")
        assert (await client.delete(f"/studio/voices/{annas['id']}", headers=anna)).status_code == 200
        assert [voice["name"] for voice in await in_bin(client, **anna)] == ["Clara"]
        for headers in (bert, lying, {"X-Voice-Owner": "anna"}, {}):
            assert await in_bin(client, **headers) == []
        restore = f"/studio/voices/{annas['id']}/restore"
        assert code(await client.post(restore, headers=bert)) == (404, "voice_not_found")
        assert code(await client.post(restore)) == (404, "voice_not_found")
        assert (await client.post(restore, headers=anna)).json()["id"] == annas["id"]


async def test_visitor_is_identified_by_the_studio_cookie_and_stores_nothing_without_it(
    running: RunningServer, tmp_path: Path
) -> None:
    async with studio(running, tmp_path, voice_owner_lookup(VISITORS)) as client:
        anna, bert = header_of("a"), header_of("b")
        made = await kept(client, **anna)
        assert [voice["id"] for voice in (await client.get(VOICES, headers=anna)).json()["data"]] == [made["id"]]
        for headers in (bert, {}, {"cookie": f"{COOKIE}=forged"}):
            assert (await client.get(VOICES, headers=headers)).json()["data"] == []
        files = {"audio_sample": recording()}
        refusal = await client.post(VOICES, data={"name": "x", "consent": CONSENT}, files=files)
        assert code(refusal) == (401, "visitor_unknown")
        assert code(await client.delete(f"/studio/voices/{made['id']}")) == (401, "visitor_unknown")
        assert code(await client.patch(f"{VOICES}/{made['id']}", json={"name": "x"})) == (401, "visitor_unknown")
        assert (await client.post(f"{VOICES}/check", files=files)).status_code == 200  # A check stores nothing.
        assert (await client.delete(f"/studio/voices/{made['id']}", headers=anna)).status_code == 200

        assert code(await client.post("/v1/audio/pronunciations", json={"name": "x"})) == (401, "visitor_unknown")
        theirs = await client.post("/v1/pronunciation-dictionaries/add-from-rules", json={"name": "x"})
        # The error has the format of ElevenLabs' API.
        assert (theirs.status_code, theirs.json()["detail"]["status"]) == (401, "visitor_unknown")
        # A server that joins the host and the path into one URL would parse this host as part of the path.
        crafted = {"host": f"{client.base_url.netloc.decode()}/x"}
        assert code(await client.post("/v1/audio/pronunciations", headers=crafted)) == (401, "visitor_unknown")
    assert voice_owner_lookup(Visitors(has_separate_histories=False)) is None


async def test_socket_of_a_visitor_uses_its_own_voices(running: RunningServer) -> None:
    relay = Relay(GivenRuntime(running.http), owner_of=by_cookie)
    routes: list[Any] = [Route("/v1/{path:path}", relay.http, methods=HTTP_METHODS)]
    routes.append(WebSocketRoute("/v1/{path:path}", relay.websocket))
    async with served(routes) as place, httpx.AsyncClient(base_url=f"http://{place}", timeout=30) as client:
        await kept(client, "Anna's", cookie="who=anna")
        for headers, ending in [
            ({"cookie": "who=anna"}, "audio.done"),
            ({"cookie": "who=bert"}, "unknown_voice"),
            ({"X-Voice-Owner": "anna"}, "unknown_voice"),
        ]:
            url = f"ws://{place}/v1/audio/speech/stream"
            async with connect(url, subprotocols=[PROTOCOL], additional_headers=headers) as socket:  # type: ignore[list-item]
                await socket.send('{"type":"session.config","task_type":"base","voice":"anna\'s","max_frames":4}')
                await socket.send('{"type":"input.text","text":"Hi."}')
                await socket.send('{"type":"input.done"}')
                while True:
                    said = await asyncio.wait_for(socket.recv(), 30)
                    if isinstance(said, str) and ('"audio.done"' in said or '"error"' in said.split(",")[0]):
                        break
                assert ending in said, headers
    await relay.aclose()


# --- Tests of the bin, which contains deleted voices.


def test_voices_in_the_recycle_bin_expire(tmp_path: Path) -> None:
    bin_ = VoiceBin(tmp_path, keep_s=60)
    bin_.put("", "a", b"old")
    bin_.put("", "b", b"new")
    (old,) = [path for path in tmp_path.glob("*/*") if path.read_bytes() == b"old"]
    os.utime(old, (time.time() - 61, time.time() - 61))
    with pytest.raises(VoiceNotFound):
        bin_.get("", "a")
    assert VoiceBin(tmp_path, keep_s=60).get("", "b") == b"new"


def test_deleted_voices_of_an_owner_are_limited_in_size(tmp_path: Path) -> None:
    bin_ = VoiceBin(tmp_path, keep_s=60)
    bin_.put("other", "a", b"x")
    for number in range(MAX_FILES + 1):
        bin_.put("", str(number), b"x")
    assert bin_.get("", str(MAX_FILES)) == bin_.get("", "1") == bin_.get("other", "a") == b"x"
    with pytest.raises(VoiceNotFound):
        bin_.get("", "0")


def test_recycle_bin_separates_owners_and_ids_never_become_paths(tmp_path: Path) -> None:
    bin_ = VoiceBin(tmp_path / "bin", keep_s=60)
    for owner in ("", "anna", "../../x"):
        bin_.put(owner, "../../y", owner.encode())
    assert bin_.get("anna", "../../y") == b"anna"
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
    assert len(list((tmp_path / "bin").glob("*/*.voice"))) == 3


def test_full_disk_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of the folder")
    with pytest.raises(StorageFailed):
        VoiceBin(tmp_path / "file" / "bin", keep_s=60).put("", "a", b"x")


async def test_visitor_voices_expire_in_the_runtime(running: RunningServer, tmp_path: Path) -> None:
    keeping = StoreService(StoreSettings(data=str(tmp_path / "data"), visitors="each"))
    relay = Relay(GivenRuntime(running.http), owner_of=voice_owner_lookup(keeping.visitors))
    routes = [*keeping.routes(), Route("/v1/{path:path}", relay.http, methods=HTTP_METHODS)]
    anna, ben = header_of("a", keeping.visitors), header_of("b", keeping.visitors)
    async with (
        keeping.running(),
        served(routes) as place,
        httpx.AsyncClient(base_url=f"http://{place}", timeout=30) as client,
    ):

        async def count(headers: dict[str, str]) -> list[int]:
            paths = (VOICES, "/v1/audio/pronunciations")
            return [len((await client.get(path, headers=headers)).json()["data"]) for path in paths]

        for headers in (anna, ben):
            await kept(client, **headers)
            words = {"name": "Names", "pronunciations": [{"word": "a", "say_as": "b"}]}
            (await client.post("/v1/audio/pronunciations", json=words, headers=headers)).raise_for_status()
            visitor = keeping.visitors.identify(HTTPConnection({"type": "http", "headers": raw(headers)}))
            await keeping.admit_to_runtime(visitor, 0)
        with sqlite3.connect(tmp_path / "data" / FILE) as connection:
            connection.execute("UPDATE runtime_owners SET seen_at = seen_at - 31 * 86400")
        connection.close()
        (await client.get("/studio/me", headers=ben)).raise_for_status()
        await keeping.purge_runtime(relay)
        assert [await count(anna), await count(ben)] == [[0, 0], [1, 1]]
        assert keeping.store.left_owners() == []
        await client.delete(f"{VOICES}/Clara", headers=ben)
    await relay.aclose()


def raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
