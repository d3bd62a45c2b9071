"""Pytest configuration and fixtures for all tests: random checkpoints and a data folder."""

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

from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.settings import DEMO_CHECKPOINT
from tests.support.checkpoints import SPECS, write_checkpoint
from tests.support.thorough import GROUP_COUNT, ROOT, group_of, is_thorough, is_thorough_file
from tests.support.timeouts import exclude_stopped_time

# Exclude the time in which the process is stopped from timeouts, so that no test fails on a busy machine.
exclude_stopped_time()

# Matrices in the tests have a few dozen rows, so a second thread does not make them faster.
torch.set_num_threads(1)

# Without a GPU, kernels run in Triton's interpreter. It must be selected before Triton is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Hypothesis uses the same examples on all machines and in all runs, and does not fail on a slow machine.
# `make test` uses the profile "quick", which has a tenth of the examples.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("same"), max_examples=10)
settings.register_profile("proof", settings.get_profile("same"), derandomize=False, max_examples=5_000)
settings.load_profile("same")

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

FolderOf = Callable[..., Path]
Loaded = Callable[..., Checkpoint]

SEED = 1
# Groups of files that share slow servers. All files of one group run in the same process.
TOGETHER = (("tests/clients/",),)
# Additional groups of `make test`: its few browser tests run in one process, with one browser and one studio.
QUICK_GROUPS = (("tests/browser/",),)
# Slow folders, which run first, so that they do not delay the end of the test run.
FIRST = ("tests/browser/", "tests/clients/", "tests/wire/", "tests/chaos/", "tests/speech/", "tests/unit/benchmarks/")
END_OF_CERTIFICATE = "-----END CERTIFICATE-----\n"
NO_CHROMIUM = "Chromium was not found"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Return the scheduler that distributes test files to processes.

    All tests of a file run in one process. Files with shared slow servers run in the same process. Other browser tests
    are distributed file by file, because each process has its own Chromium and studio.
    """
    from xdist.scheduler import LoadFileScheduling

    rows = (*QUICK_GROUPS, *TOGETHER) if config.getoption("markexpr") == "not thorough" else TOGETHER

    class Folders(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((row[0] for row in rows if nodeid.startswith(row)), super()._split_scope(nodeid))

    return Folders(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--group", type=int, choices=range(GROUP_COUNT), help="run a quarter of the files only")
    parser.addoption("--page-latency", type=float, default=0, help="ms that a page's HTTP answers take longer")
    parser.addoption("--page-pause", type=float, default=0, help="milliseconds before each action of a browser test")
    parser.addoption("--page-processor", type=float, default=1, help="how many times slower a page's scripts run")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip test files in which no test is selected.

    This saves time, because every process imports all other test files.
    """
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    group = config.getoption("--group")
    is_left_out = (
        config.getoption("markexpr") == "not thorough"
        and collection_path.name.startswith("test_")
        and is_thorough_file(path, collection_path.read_text("utf-8"))
    )
    return True if is_left_out or (group is not None and group_of(path) != group) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add markers to tests, and move tests in slow folders to the front.

    Tests of `make test-all` get the marker `thorough`, and Hypothesis tests get `examples`.
    """
    for item in items:
        if is_thorough(item):
            item.add_marker("thorough")
        elif getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("examples")
    items.sort(key=lambda item: next((n for n, room in enumerate(FIRST) if item.nodeid.startswith(room)), len(FIRST)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a warning if browser tests were skipped because there is no Chromium."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_CHROMIUM in str(report.longrepr)]
    if skipped:
        terminalreporter.write_sep("-", "not tested")
        terminalreporter.write_line(f"{len(skipped)} tests of the page were skipped: {NO_CHROMIUM}.")
        terminalreporter.write_line("apt-get install chromium    # or set CHROMIUM to its path")


@pytest.fixture(scope="session", autouse=True)
def voices_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a folder for the user data of this test session and its child processes.

    Tests must not use the real user's data.
    """
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("user")
        patch.setenv("XDG_DATA_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make all HTTP clients of the tests trust a bundle with only one CA certificate.

    httpx reads the usual 150 certificates for every client, which is slow. Child processes get the path of the bundle
    in an environment variable. Clients that ignore the variable call `certifi.where`.
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
    """Return the name of the event loop library for `async def` tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_fails_unseen(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail the test if the code under test logs an error.

    Tests with the marker ``logs_errors`` may log errors. Engine and servers continue after many faults, so a test could
    otherwise pass in spite of an error.
    """
    yield
    if request.node.get_closest_marker("logs_errors") is None:
        errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
        assert not [f"{record.name}: {record.getMessage()}" for record in errors]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> FolderOf:
    """Return a function that creates a checkpoint and returns its folder.

    The arguments of the function are the specification's name, the mode and the seed. Tests must not change the files.
    """

    @cache
    def written(name: str, mode: str, seed: int = SEED) -> Path:
        folder = tmp_path_factory.mktemp("checkpoints") / f"{name}-{mode}-{seed}"
        write_checkpoint(folder, SPECS[name], mode, seed)
        return folder

    return written


@pytest.fixture(scope="session")
def loaded(folder_of: FolderOf) -> Loaded:
    """Return a function that loads a checkpoint in float32 on the CPU.

    The arguments of the function are the specification's name, the mode and the seed. All tests share the loaded
    checkpoint.
    """

    @cache
    def load(name: str, mode: str, seed: int = SEED) -> Checkpoint:
        return load_checkpoint(str(folder_of(name, mode, seed)), torch.device("cpu"), torch.float32)

    return load


@pytest.fixture(scope="session")
def speaker(loaded: Loaded) -> Checkpoint:
    """Return a tiny CustomVoice checkpoint with random weights."""
    return loaded("tiny", "custom_voice")


@pytest.fixture(scope="session")
def quick(loaded: Loaded) -> Checkpoint:
    """Return a CustomVoice checkpoint whose frames are computed quickly.

    With greedy sampling, its speech never ends with EOS.
    """
    return loaded("quick", "custom_voice")


@pytest.fixture(scope="session")
def designer(loaded: Loaded) -> Checkpoint:
    """Return a tiny VoiceDesign checkpoint with random weights."""
    return loaded("tiny", "voice_design")


@pytest.fixture(scope="session")
def demo() -> Checkpoint:
    """Return the checkpoint of the embedded voice, loaded on the CPU."""
    return load_checkpoint(str(DEMO_CHECKPOINT), torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def cloner(loaded: Loaded) -> Checkpoint:
    """Return a tiny Base checkpoint with random weights."""
    return loaded("tiny", "base")


@pytest.fixture
def bounds_of_loops() -> Iterator[None]:
    """Fix bugs of Triton's interpreter for kernel tests on machines without a GPU."""
    from tests.support.interpreting import patch_interpreter

    with patch_interpreter():
        yield
