"""Tests for load balancing: HAProxy selects the replica with the most free slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.autoscaling import replicas_needed
from runtime.cluster.balance import MAX_WEIGHT, Load, weights


def chosen(weight_by_name: dict[str, int], connections: dict[str, int]) -> str:
    """Return the name of the server that HAProxy's algorithm leastconn would select.

    It selects the server with the smallest (connections + 1) / weight.
    """
    return min(weight_by_name, key=lambda name: (connections[name] + 1) * MAX_WEIGHT / weight_by_name[name])


def test_idle_sockets_do_not_count_as_load() -> None:
    loads = {"many sockets": Load(slots=8, active=1, waiting=0), "few": Load(slots=8, active=6, waiting=0)}
    connections = {"many sockets": 40, "few": 6}
    assert chosen(weights(loads, connections), connections) == "many sockets"


def test_burst_between_two_load_reports_is_spread_evenly() -> None:
    loads = {name: Load(slots=4, active=0, waiting=0) for name in "ab"}
    connections = {"a": 0, "b": 0}
    weight_by_name = weights(loads, connections)
    for _ in range(8):
        connections[chosen(weight_by_name, connections)] += 1
    assert connections == {"a": 4, "b": 4}


def test_full_replica_with_the_shortest_queue_is_chosen() -> None:
    loads = {"long": Load(slots=4, active=4, waiting=9), "short": Load(slots=4, active=4, waiting=2)}
    connections = {"long": 13, "short": 6}
    assert chosen(weights(loads, connections), connections) == "short"


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 64), st.integers(0, 100)), min_size=2, max_size=6))
def test_weights_fit_haproxy_and_prefer_free_slots(replicas: list[tuple[int, int, int]]) -> None:
    loads = {
        str(n): Load(slots=slots, active=min(slots, busy), waiting=0) for n, (slots, busy, _) in enumerate(replicas)
    }
    connections = {str(n): others for n, (_, _, others) in enumerate(replicas)}
    weight_by_name = weights(loads, connections)
    assert all(1 <= weight <= MAX_WEIGHT for weight in weight_by_name.values())
    taken = chosen(weight_by_name, connections)
    # Weights are integers, so the selected replica may have slightly fewer free slots than the least busy replica.
    if min(weight_by_name.values()) > 8:
        assert loads[taken].free >= max(load.free for load in loads.values()) * 0.85


def test_pool_grows_only_above_its_target_utilisation() -> None:
    assert [replicas_needed(in_use, 8, 0.7) for in_use in (0, 5, 5.6, 6, 11.2, 12)] == [1, 1, 1, 2, 2, 3]
