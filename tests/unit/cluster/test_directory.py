"""Tests for the directory of replicas, which decides when a replica may stop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from runtime.cluster import directory as directories
from runtime.cluster.balance import Checkpoint, Replica, ReplicaState
from runtime.cluster.directory import Directory

REPLICA = Replica(name="a", host="127.0.0.1", port=80, pool="speech", modes=("base",))


async def test_drain_waits_until_every_ingress_confirms() -> None:
    directory = Directory()
    await directory.report(REPLICA)
    version, _ = await directory.replicas("one", -1)
    await directory.replicas("two", version)
    draining = asyncio.create_task(directory.drain("a"))
    await asyncio.sleep(0.05)
    heeded, replica_states = await directory.replicas("one", version)
    assert [replica.state for replica in replica_states] == [ReplicaState.DRAINING]
    await directory.replicas("one", heeded)
    await asyncio.sleep(0.05)
    assert not draining.done(), "the other ingress has not heard of it"
    await directory.replicas("two", heeded)
    await asyncio.wait_for(draining, 60.0)
    await directory.report(REPLICA)  # A draining replica continues to report.
    assert (await directory.replicas("one", heeded))[1] == [replace(REPLICA, state=ReplicaState.DRAINING)]
    await directory.leave("a")
    assert (await directory.replicas("one", heeded))[1] == []


async def test_replica_that_stops_reporting_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "REPORT_TIMEOUT_S", 0.01)
    directory = Directory()
    await directory.report(REPLICA)
    await asyncio.sleep(0.02)
    assert (await directory.replicas("one", 0))[1] == []


async def test_drain_of_an_unknown_or_unused_replica_returns_at_once() -> None:
    directory = Directory()
    await asyncio.wait_for(directory.drain("nobody"), directories.DRAIN_TIMEOUT_S - 1)
    await directory.report(REPLICA)
    await asyncio.wait_for(directory.drain("a"), directories.DRAIN_TIMEOUT_S - 1)


async def test_report_returns_the_checkpoints_of_all_replicas() -> None:
    speakers, clones = (
        Checkpoint(id=name, created=1, modes=(mode,), speakers=(), languages=())
        for name, mode in (("a", "custom_voice"), ("b", "base"))
    )

    directory = Directory()
    assert await directory.report(replace(REPLICA, checkpoints=(speakers,))) == [speakers]
    assert await directory.report(replace(REPLICA, name="b", checkpoints=(clones, speakers))) == [speakers, clones]
    await directory.leave("b")
    assert await directory.report(replace(REPLICA, checkpoints=(speakers,))) == [speakers]
