"""Tests for a replica's environment: Ray does not change the number of threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from runtime.cluster.replica import runtime_environment

Started = Callable[[dict[str, str]], int]


@pytest.fixture
def started() -> Iterator[Started]:
    """Yield a function that starts a process with an environment and returns its process ID.

    The process takes the place of Ray's raylet.
    """
    with ExitStack() as stack:

        def start(environment: dict[str, str]) -> int:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-IS", "-c", "print(flush=True); input()"],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            assert process.stdout is not None
            process.stdout.readline()
            stack.callback(process.kill)
            return process.pid

        yield start


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the environment of a process")
@pytest.mark.parametrize(
    ("said", "processors", "stays"),
    [
        ({}, 0.0, False),
        ({"OMP_NUM_THREADS": "1"}, 0.0, True),
        ({}, 1.0, True),
        ({"NOT_OMP_NUM_THREADS": "1"}, 0.0, False),
    ],
    ids=["Ray's own word", "the user's", "its processors", "another name"],
)
def test_omp_num_threads_set_by_ray_is_removed(
    started: Started, said: dict[str, str], processors: float, stays: bool
) -> None:
    own = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1"}
    found = runtime_environment({**own, "OMP_NUM_THREADS": "1"}, processors=processors, parent=started(said))
    assert found == own | ({"OMP_NUM_THREADS": "1"} if stays else {})


def test_replica_environment_is_unchanged_if_the_parent_environment_is_unreadable() -> None:
    assert runtime_environment({"OMP_NUM_THREADS": "1"}, processors=0.0, parent=-1) == {"OMP_NUM_THREADS": "1"}
