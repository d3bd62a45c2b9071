"""Tests for the HTTP routes that describe the whole cluster: responses and access."""

from __future__ import annotations

import socket

import httpx
import pytest

from runtime.cluster.balance import Load, Replica, ReplicaState
from runtime.cluster.view import ClusterView
from runtime.settings import Settings


class ClusterState:
    """State of a cluster with one replica that refuses connections."""

    def __init__(self, state: ReplicaState) -> None:
        # The port is closed again, so connections to it are refused.
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        replica = Replica(name="secret-name", host="127.0.0.1", port=port, pool="speech", modes=("base",), state=state)
        self.replicas = {replica.name: replica}
        self.loads: dict[str, Load] = {}
        self.ready = [replica] if state is ReplicaState.READY else []


@pytest.mark.parametrize("state", list(ReplicaState))
async def test_cluster_view_denies_access_if_no_replica_reports_its_keys(state: ReplicaState) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        view = ClusterView(ClusterState(state), http, Settings())
        port = await view.start()
        try:
            answer = await http.get(f"http://127.0.0.1:{port}/cluster", headers={"x-api-key": "guess"})
        finally:
            await view.stop()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_replica")
    assert "secret-name" not in answer.text


async def test_kuberay_health_check_needs_no_key() -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        view = ClusterView(ClusterState(ReplicaState.READY), http, Settings())
        port = await view.start()
        try:
            answer = await http.get(f"http://127.0.0.1:{port}/-/healthz")
        finally:
            await view.stop()
    assert (answer.status_code, answer.text) == (200, "success")
