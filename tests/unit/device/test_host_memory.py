"""Tests for the memory of the machine or of its container."""

from __future__ import annotations

import os
import sys

import pytest

from runtime.device import host_memory
from runtime.device.cpu import CpuDevice
from runtime.device.host_memory import memory_bytes, reclaimable_bytes


def test_free_memory_is_at_most_the_memory_of_the_machine() -> None:
    total, free = memory_bytes()
    assert 0 < free <= total
    if sys.platform != "win32":
        assert total <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform == "win32", reason="its containers have no such files")
def test_cpu_has_the_memory_of_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"memory.max": ["1000"], "memory.current": ["600"], "memory.stat": ["file 300", "shmem 100"]}
    monkeypatch.setattr(host_memory, "_lines", lambda path: files.get(path.rpartition("/")[2], []))
    assert (CpuDevice().total_bytes(), CpuDevice().free_bytes()) == (1000, 600)


def test_shared_memory_in_a_container_is_not_counted_as_file_cache() -> None:
    """memory.stat counts Ray's objects in /dev/shm as file cache.

    The kernel cannot reclaim these objects.
    """
    lines = ["anon 1000", "file 900", "kernel 50", "shmem 700", "file_mapped 10"]
    assert reclaimable_bytes(lines) == 200
    assert reclaimable_bytes([]) == 0
