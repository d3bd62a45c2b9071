"""Tests for storage quotas, and for the removal of old data to free space."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from studio.errors import NotKept, StoreFull
from studio.store.records import PronunciationFields, read
from tests.support.keeping import post, save, serving, visitor_client
from tests.support.take_writers import OWNER, fields
from tests.unit.studio.test_durability import add, files, ids, opened
from tests.unit.studio.test_takes import refused


def test_full_take_store_refuses_new_takes_and_frees_the_oldest_on_request(folder: Path) -> None:
    with opened(folder, max_takes=3) as store:
        favourite = add(store, favourite=True)
        old, new = add(store), add(store)
        with pytest.raises(StoreFull, match="3 takes outside scripts"):
            add(store)
        assert ids(store) == [new, old, favourite]
        add(store, "visitor:other")  # The maximum number of takes applies to each owner separately.
        space = store.takes.space(OWNER)
        assert (space["takes"], space["max_takes"], space["removable"]["takes"]) == (3, 3, 2)
        assert space["removable"]["from"] == pytest.approx(store.takes.find(OWNER, old)["created_at"], abs=0.001)
        assert store.takes.free(OWNER, 1) == [old]
        newest = add(store)
        assert ids(store) == [newest, new, favourite]
        assert store.takes.move(OWNER, [old, "0" * 32, new], into_bin=False) == [old]
        assert store.takes.space(OWNER)["takes"] == 4  # A deleted take can be restored even above the maximum.
        assert store.takes.free(OWNER, 9) == [old, new, newest]
        assert store.takes.space(OWNER)["removable"] == {"takes": 0, "bytes": 0, "from": None, "until": None}
        assert f"takes/{old}.flac" in files(folder)


def test_takes_are_moved_to_the_recycle_bin_in_one_request(folder: Path) -> None:
    with serving(folder, max_takes=4) as address, visitor_client(address) as client:
        takes = [save(client)["id"] for _ in range(3)]
        space = client.get("/studio/takes/space").json()
        assert (space["takes"], space["max_takes"], space["restorable_s"]) == (3, 4, 86400)
        assert 0 < space["removable"]["bytes"] <= space["bytes"] < space["max_bytes"]
        answer = client.post("/studio/takes/free", json={"takes": 2}).json()
        assert answer == {"takes": takes[:2], "restorable_s": 86400}
        assert client.post("/studio/takes/restore", json={"takes": takes}).json()["takes"] == takes[:2]
        assert client.post("/studio/takes/delete", json={"takes": takes[1:]}).json()["takes"] == takes[1:]
        assert [take["id"] for take in client.get("/studio/takes").json()["takes"]] == takes[:1]
        assert client.get("/studio/takes/space").json()["in_bin"] == 2
        assert sorted(client.post("/studio/takes/bin/restore").json()["takes"]) == sorted(takes[1:])
        client.post("/studio/takes/delete", json={"takes": takes[:1]})
        assert client.delete("/studio/takes/bin").json() == {"takes": takes[:1]}
        assert client.post("/studio/takes/restore", json={"takes": takes}).json()["takes"] == []
        assert client.get("/studio/takes/space").json()["in_bin"] == 0
        assert not (folder / f"takes/{takes[0]}.flac").exists()
        refused(client.post("/studio/takes/free", json={"takes": 0}), 400, "invalid_config", "takes")
        refused(client.post("/studio/takes/delete", json={"takes": ["../x"]}), 400, "invalid_config", "takes.0")
        refused(client.post("/studio/takes/delete", json={}), 400, "invalid_config", "takes")


def test_total_size_of_takes_is_limited(folder: Path) -> None:
    noise = random.Random(1).randbytes(400_000)
    with opened(folder, max_store_bytes=2**20) as store:
        first, second = add(store, pcm=noise), add(store, pcm=noise)
        for owner in (OWNER, "visitor:other"):
            with pytest.raises(StoreFull, match="1 MB"):
                add(store, owner, pcm=noise)
        assert ids(store) == [second, first]
        store.takes.delete(OWNER, second)
        third = add(store, pcm=noise)  # Takes in the bin are removed if a new take needs the space.
        assert ids(store) == [third, first]
        assert store.bytes() <= 2**20
        with pytest.raises(NotKept):
            store.takes.restore(OWNER, second)
    assert f"takes/{second}.flac" not in files(folder)


def test_store_size_per_visitor_is_limited(folder: Path) -> None:
    noise = random.Random(1).randbytes(400_000)
    with opened(folder, max_store_bytes=2**22, visitor_store_bytes=2**20) as store:
        for _ in range(2):
            add(store, "visitor:one", pcm=noise)
        with pytest.raises(StoreFull, match="1 MB"):
            add(store, "visitor:one", pcm=noise)
        space = store.takes.space("visitor:one")
        assert 2**19 < space["bytes"] < space["max_bytes"] == 2**20
        with pytest.raises(StoreFull, match="1 MB"):
            add(store, "visitor:two", pcm=random.Random(2).randbytes(1_200_000))
        add(store, "visitor:two", pcm=noise)


def test_every_kind_of_stored_data_counts_towards_the_visitor_limit(folder: Path) -> None:
    long = "ä" * 2000
    script = json.dumps({"name": "s", "lines": [{"id": f"l{n}", "text": long} for n in range(100)]}).encode()
    words = read(PronunciationFields, {"words": [{"word": "a", "said": "b"}], "updated_at": None})
    with opened(folder, visitor_store_bytes=2**20) as store:
        for number in range(2):
            store.scripts.put("visitor:one", f"s{number}", script)
        with pytest.raises(StoreFull, match="1 MB"):
            store.scripts.put("visitor:one", "s2", script)
        store.scripts.put("visitor:one", "s1", script)  # Storing an unchanged script needs no additional space.
        store.scripts.delete("visitor:one", "s1")
        # Scripts in the bin are removed if a new script needs the space.
        store.scripts.put("visitor:one", "s2", script)
        with pytest.raises(StoreFull):
            add(store, "visitor:one", reference=random.Random(1).randbytes(300_000))
        add(store, "visitor:two", reference=random.Random(1).randbytes(300_000))
        before = store.bytes()
        store.pronunciations.put("visitor:one", words)
        store.prefer("visitor:one", {"theme": "dark"})
        assert store.bytes() > before + 40


def test_shared_reference_counts_once_and_is_deleted_with_its_last_take(folder: Path) -> None:
    reference, other = (random.Random(seed).randbytes(400_000) for seed in (1, 2))
    with opened(folder, visitor_store_bytes=2**20) as store:
        takes = [add(store, "visitor:one", reference=reference) for _ in range(4)]
        assert len(ids(store, "visitor:one")) == 4
        newest = add(store, "visitor:one", reference=other)
        for take_id in takes[:3]:
            store.takes.delete("visitor:one", take_id)
        with pytest.raises(StoreFull):  # The file of the reference is kept until its last take is deleted.
            add(store, "visitor:one", reference=random.Random(3).randbytes(400_000))
        store.takes.delete("visitor:one", takes[3])
        third = add(store, "visitor:one", reference=random.Random(3).randbytes(400_000))
        assert ids(store, "visitor:one") == [third, newest]


def test_store_size_per_address_is_limited_regardless_of_cookies(folder: Path) -> None:
    noise = random.Random(1).randbytes(400_000)
    with opened(folder, address_store_bytes=2**20) as store:
        for owner in ("visitor:one", "visitor:two"):
            store.takes.store_take(owner, fields(), noise, address="here")
        with pytest.raises(StoreFull, match="address"):
            store.takes.store_take("visitor:three", fields(), noise, address="here")
    with opened(folder, address_store_bytes=2**20) as store:  # The limit also applies after a restart.
        with pytest.raises(StoreFull, match="address"):
            store.takes.store_take("visitor:four", fields(), noise, address="here")
        there = store.takes.store_take("visitor:one", fields(), noise, address="there")["id"]
        here = ids(store, "visitor:one")[1]
        store.takes.delete("visitor:one", there)
        with pytest.raises(StoreFull, match="address"):
            store.takes.store_take("visitor:one", fields(), noise, address="here")
        # A deleted take from this address is removed for the new take, but the take from another address is kept.
        store.takes.delete("visitor:one", here)
        last = store.takes.store_take("visitor:one", fields(), noise, address="here")["id"]
        assert ids(store, "visitor:one") == [last]
        assert store.takes.restore("visitor:one", there)["id"] == there


def test_full_store_is_reported_over_http(folder: Path) -> None:
    with serving(folder, max_takes=1) as address, visitor_client(address) as client:
        save(client)
        assert "1 takes" in refused(post(client), 507, "store_full")


def test_script_in_the_recycle_bin_is_kept_if_its_deletion_frees_too_little(folder: Path) -> None:
    long = json.dumps({"lines": [{"id": f"l{n}", "text": "a" * 2000} for n in range(200)]}).encode()
    with opened(folder, visitor_store_bytes=2**20) as store:
        for name in ("old", "new"):
            store.scripts.put("visitor:one", name, long)
        for name in ("old", "new"):
            store.scripts.delete("visitor:one", name)
        with pytest.raises(StoreFull):
            add(store, "visitor:one", reference=random.Random(1).randbytes(1_100_000))
        store.scripts.restore("visitor:one", "new")
        store.scripts.delete("visitor:one", "new")
        store.scripts.put("visitor:one", "third", long)  # The new script needs the space of the oldest script only.
        assert store.scripts.restore("visitor:one", "new")
        with pytest.raises(NotKept):
            store.scripts.restore("visitor:one", "old")


def test_number_of_storing_visitors_per_address_is_limited(folder: Path) -> None:
    with opened(folder) as store:
        for owner in ("visitor:one", "visitor:two", "visitor:one"):
            store.runtime_owners.admit(owner, "here", 2)
    with opened(folder) as store:  # The limit also applies after a restart.
        with pytest.raises(StoreFull, match="2 visitors from your address"):
            store.runtime_owners.admit("visitor:three", "here", 2)
        store.runtime_owners.admit("visitor:three", "there", 2)
        store.runtime_owners.admit("visitor:four", "here", 0)
        store.runtime_owners.forget("visitor:one")
        store.runtime_owners.forget("visitor:two")
        store.runtime_owners.admit("visitor:five", "here", 2)
