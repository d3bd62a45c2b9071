"""HAProxy's leastconn, under our weights, takes the replica with most free slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.autoscaling import needed
from runtime.cluster.balance import MAX_WEIGHT, Room, weights


def chosen(heavy: dict[str, int], connections: dict[str, int]) -> str:
    """What leastconn takes: the smallest (connections + 1) / weight, as HAProxy computes it."""
    return min(heavy, key=lambda name: (connections[name] + 1) * MAX_WEIGHT / heavy[name])


def test_sockets_that_are_silent_do_not_count() -> None:
    rooms = {"many sockets": Room(slots=8, active=1, waiting=0), "few": Room(slots=8, active=6, waiting=0)}
    connections = {"many sockets": 40, "few": 6}
    assert chosen(weights(rooms, connections), connections) == "many sockets"


def test_between_two_looks_a_burst_is_spread() -> None:
    rooms = {name: Room(slots=4, active=0, waiting=0) for name in "ab"}
    connections = {"a": 0, "b": 0}
    heavy = weights(rooms, connections)
    for _ in range(8):
        connections[chosen(heavy, connections)] += 1
    assert connections == {"a": 4, "b": 4}


def test_of_full_replicas_the_one_with_the_shortest_queue_is_taken() -> None:
    rooms = {"long": Room(slots=4, active=4, waiting=9), "short": Room(slots=4, active=4, waiting=2)}
    connections = {"long": 13, "short": 6}
    assert chosen(weights(rooms, connections), connections) == "short"


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 64), st.integers(0, 100)), min_size=2, max_size=6))
def test_weights_are_haproxys_and_prefer_room(replicas: list[tuple[int, int, int]]) -> None:
    rooms = {
        str(n): Room(slots=slots, active=min(slots, busy), waiting=0) for n, (slots, busy, _) in enumerate(replicas)
    }
    connections = {str(n): others for n, (_, _, others) in enumerate(replicas)}
    heavy = weights(rooms, connections)
    assert all(1 <= weight <= MAX_WEIGHT for weight in heavy.values())
    taken = chosen(heavy, connections)
    # Whole weights round: what is taken may have a little less room than the roomiest, never less than half of it.
    if min(heavy.values()) > 8:
        assert rooms[taken].free >= max(room.free for room in rooms.values()) * 0.85


def test_a_pool_grows_with_slots_in_use_and_not_before_its_share_is_spent() -> None:
    assert [needed(in_use, 8, 0.7) for in_use in (0, 5, 5.6, 6, 11.2, 12)] == [1, 1, 1, 2, 2, 3]
