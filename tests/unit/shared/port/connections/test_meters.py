"""Test of the limit of open connections."""

from __future__ import annotations

import resource

import pytest

from runtime.shared.port.connections.meters import max_open


@pytest.mark.parametrize(("files", "most"), [(1024, 512), (256, 128), (resource.RLIM_INFINITY, 512), (1, 1)])
def test_connection_limit_leaves_file_descriptors_for_other_uses(
    monkeypatch: pytest.MonkeyPatch, files: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert max_open(256) == most
