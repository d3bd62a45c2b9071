"""Tests that the lock files can be installed from wheels on each supported platform."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.lock import LOCK, PLATFORMS, PYTHONS, not_locked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


# Environment variables of the machine. They are saved here, because the test session replaces them.
CERTIFICATES = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}


@pytest.fixture(autouse=True)
def _as_a_developer_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, value in CERTIFICATES.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_lock_file_contains_wheels_of_all_requirements_per_platform(platform: str, python: str) -> None:
    assert not_locked(LOCK, platform, python) == []


def test_unlocked_package_or_missing_wheel_is_reported(tmp_path: Path) -> None:
    whole, less = LOCK.read_text(encoding="utf-8"), tmp_path / "less.lock"
    (pandas,) = (line for line in whole.splitlines() if line.startswith("pandas=="))
    less.write_text(whole.replace(f"{pandas}\n", ""), encoding="utf-8")
    assert [pin.partition("==")[0] for pin in not_locked(less, PLATFORMS[0], PYTHONS[0])] == ["pandas"]
    less.write_text(whole.replace(pandas, "pandas==0.1"), encoding="utf-8")
    with pytest.raises(ValueError, match="pandas"):
        not_locked(less, PLATFORMS[0], PYTHONS[0])
