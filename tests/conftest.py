"""Fixtures of all tests: random checkpoints and a data folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest
import torch
from hypothesis import HealthCheck, settings

from runtime.model.checkpoint import Checkpoint, load_checkpoint
from runtime.settings import DEMO_CHECKPOINT
from tests.support.checkpoints import SPECS, write_checkpoint
from tests.support.thorough import ROOT, THIRDS, is_thorough, is_thorough_file, third_of
from tests.support.timeouts import exclude_stopped_time

# Exclude the time in which the process is stopped from timeouts, so that no test fails on a busy machine.
exclude_stopped_time()

# The matrices have a few dozen rows: a second thread gains nothing, and on a busy machine it waits.
torch.set_num_threads(1)

# Without a GPU, kernels run in Triton's interpreter, which must be chosen before Triton is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Hypothesis uses the same examples on every machine and in every run, and rejects none because the machine is slow.
# `make test` uses the second profile, with a tenth of the examples.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("same"), max_examples=10)
settings.register_profile("proof", settings.get_profile("same"), derandomize=False, max_examples=5_000)
settings.load_profile("same")

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

FolderOf = Callable[..., Path]
Loaded = Callable[..., Checkpoint]

SEED = 1
# Groups of files that share slow servers. The files of one row run in the same process.
TOGETHER = (("tests/clients/",), ("tests/browser/test_speaking.py", "tests/browser/test_whole_path.py"))
WITH_THE_QUICK = (("tests/browser/",),)  # `make test` runs too few browser tests to start two browsers and two studios.
# The slowest folders run first, so that no process still has one of them when the others have finished.
FIRST = ("tests/browser/", "tests/clients/", "tests/wire/", "tests/chaos/", "tests/speech/", "tests/unit/benchmarks/")
END_OF_CERTIFICATE = "-----END CERTIFICATE-----\n"
NO_CHROMIUM = "Chromium was not found"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Run whole files in each process, and files that share slow servers in the same process.

    Browser tests are distributed one file at a time, because each process has its own Chromium and studio.
    """
    from xdist.scheduler import LoadFileScheduling

    rows = (*WITH_THE_QUICK, *TOGETHER) if config.getoption("markexpr") == "not thorough" else TOGETHER

    class Folders(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((row[0] for row in rows if nodeid.startswith(row)), super()._split_scope(nodeid))

    return Folders(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--third", type=int, choices=range(THIRDS), help="run a third of the files only")
    parser.addoption("--page-latency", type=float, default=0, help="ms that a page's HTTP answers take longer")
    parser.addoption("--page-pause", type=float, default=0, help="ms before every deed of a test of the page")
    parser.addoption("--page-processor", type=float, default=1, help="how many times slower a page's scripts run")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without tests to run, because every process would import them."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    third = config.getoption("--third")
    is_left_out = (
        config.getoption("markexpr") == "not thorough"
        and collection_path.name.startswith("test_")
        and is_thorough_file(path, collection_path.read_text("utf-8"))
    )
    return True if is_left_out or (third is not None and third_of(path) != third) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests for `make test-all`, which repeats some tests with all examples.

    Tests of slow folders are first.
    """
    for item in items:
        if is_thorough(item):
            item.add_marker("thorough")
        elif getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("examples")
    items.sort(key=lambda item: next((n for n, room in enumerate(FIRST) if item.nodeid.startswith(room)), len(FIRST)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a warning if the browser tests were skipped."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_CHROMIUM in str(report.longrepr)]
    if skipped:
        terminalreporter.write_sep("-", "not tested")
        terminalreporter.write_line(f"{len(skipped)} tests of the page were skipped: {NO_CHROMIUM}.")
        terminalreporter.write_line("apt-get install chromium    # or set CHROMIUM to its path")


@pytest.fixture(scope="session", autouse=True)
def voices_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """User data folder for this session and its processes.

    No test may use the user's own folder.
    """
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("user")
        patch.setenv("XDG_DATA_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Bundle with one certificate.

    httpx reads the usual 150 certificates for every client. Child processes get the path by an environment variable.
    Clients that ignore it ask `certifi`.
    """
    with pytest.MonkeyPatch.context() as patch:
        bundle = tmp_path_factory.mktemp("certificates") / "one.pem"
        first, end, _ = Path(certifi.where()).read_text("utf-8").partition(END_OF_CERTIFICATE)
        bundle.write_text(first + end, "utf-8")
        patch.setattr(certifi, "where", lambda: str(bundle))
        patch.setenv("SSL_CERT_FILE", str(bundle))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Event loop of `async def` tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_fails_unseen(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test if the code under test logs an error.

    Tests marked with ``logs_errors`` may log errors. Engine and servers survive many faults, so a test could otherwise
    pass in spite of an error.
    """
    yield
    if request.node.get_closest_marker("logs_errors") is None:
        errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
        assert not [f"{record.name}: {record.getMessage()}" for record in errors]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> FolderOf:
    """Return a function (spec name, mode, seed) that returns a checkpoint's folder.

    Tests must not change its files.
    """

    @cache
    def written(name: str, mode: str, seed: int = SEED) -> Path:
        folder = tmp_path_factory.mktemp("checkpoints") / f"{name}-{mode}-{seed}"
        write_checkpoint(folder, SPECS[name], mode, seed)
        return folder

    return written


@pytest.fixture(scope="session")
def loaded(folder_of: FolderOf) -> Loaded:
    """Return a function (spec name, mode, seed) that returns a loaded checkpoint.

    It is in float32 on the CPU and shared by all tests.
    """

    @cache
    def load(name: str, mode: str, seed: int = SEED) -> Checkpoint:
        return load_checkpoint(str(folder_of(name, mode, seed)), torch.device("cpu"), torch.float32)

    return load


@pytest.fixture(scope="session")
def speaker(loaded: Loaded) -> Checkpoint:
    """The tiny CustomVoice checkpoint."""
    return loaded("tiny", "custom_voice")


@pytest.fixture(scope="session")
def quick(loaded: Loaded) -> Checkpoint:
    """CustomVoice checkpoint with fast frames, whose talker never ends greedy speech."""
    return loaded("quick", "custom_voice")


@pytest.fixture(scope="session")
def designer(loaded: Loaded) -> Checkpoint:
    """The tiny VoiceDesign checkpoint."""
    return loaded("tiny", "voice_design")


@pytest.fixture(scope="session")
def demo() -> Checkpoint:
    """The embedded voice."""
    return load_checkpoint(str(DEMO_CHECKPOINT), torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def cloner(loaded: Loaded) -> Checkpoint:
    """The tiny Base checkpoint."""
    return loaded("tiny", "base")


@pytest.fixture
def bounds_of_loops() -> Iterator[None]:
    """Fix faults of Triton's interpreter for tests of kernels without a GPU."""
    from tests.support.interpreting import repaired

    with repaired():
        yield
