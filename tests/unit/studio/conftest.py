"""Fixtures of a studio that stores data, without the page and a runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.keeping import serving, visitor_client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with visitor_client(address) as client:
        yield client
