"""Tests for the installation of torch by `make run`."""

from __future__ import annotations

import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.thorough import ROOT
from tools import install

PIN = "torch==0.1"  # Version that no real index has, so that only the fake index can serve it.


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Serve a package index with one wheel, torch 0.1+cpu, and yield its URL."""
    folder = tmp_path / "whl" / "cpu" / "torch"
    folder.mkdir(parents=True)
    wheel = "torch-0.1+cpu-py3-none-any.whl"
    (folder / "index.html").write_text(f'<a href="{wheel.replace("+", "%2B")}">{wheel}</a>')
    with ZipFile(folder / wheel, "w") as archive:
        archive.writestr("torch.py", "")
        archive.writestr("torch-0.1+cpu.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 0.1+cpu\n")
        archive.writestr("torch-0.1+cpu.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("torch-0.1+cpu.dist-info/RECORD", "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/whl/cpu"
    server.shutdown()
    server.server_close()


LOCK = Path("others.lock")
CONSTRAINT = ("--constraint", "others.lock")


class Pip:
    """Recorder of all calls of pip.

    Calls with an index URL install into a folder. All other calls succeed without an effect.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.calls: list[tuple[str, ...]] = []
        self._real = install.pip

    def __call__(self, *arguments: str) -> bool:
        self.calls.append(arguments)
        return "--index-url" not in arguments or self._real("--quiet", "--target", str(self.target), *arguments)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    made = Pip(tmp_path / "installed")
    monkeypatch.setattr(install, "pip", made)
    monkeypatch.setattr(install, "has_nvidia_card", lambda: False)
    monkeypatch.setattr(install, "INDEX_TIMEOUT_S", 0.2)
    monkeypatch.setattr(sys, "platform", "linux")
    return made


def test_linux_without_a_gpu_gets_the_cpu_build(index: str, pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    assert install.install_torch(PIN, LOCK, index)
    assert [path.name for path in pip.target.glob("*.dist-info")] == ["torch-0.1+cpu.dist-info"]
    assert len(pip.calls) == 1
    assert "for CPUs" in capsys.readouterr().out


def test_version_missing_from_the_index_is_taken_from_the_default_index(index: str, pip: Pip) -> None:
    assert install.install_torch("torch==0.2", LOCK, index)
    assert pip.calls[1:] == [("torch==0.2", *CONSTRAINT)]


def test_unresponsive_index_times_out_with_one_sentence(pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert install.install_torch(PIN, LOCK, index)
    assert pip.calls == [(PIN, *CONSTRAINT)]
    assert capsys.readouterr().out.count(f"{index} does not serve it: your default index does") == 1


@pytest.mark.parametrize(("platform", "has_card"), [("linux", True), ("darwin", False), ("win32", False)])
def test_gpu_and_other_systems_get_the_default_build(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, platform: str, has_card: bool
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(install, "has_nvidia_card", lambda: has_card)
    monkeypatch.setattr(urllib.request, "urlopen", None)
    assert install.install_torch(PIN, LOCK)
    assert pip.calls == [(PIN, *CONSTRAINT)]


def test_installed_build_of_the_pinned_version_is_kept(pip: Pip) -> None:
    pinned = next(line for line in (ROOT / install.LOCK).read_text("utf-8").splitlines() if line.startswith("torch=="))
    assert install.install_torch(pinned, LOCK)
    assert pip.calls == []


@pytest.mark.parametrize(
    ("torch", "index", "call"),
    [
        ("torch==2.11.0", "", ("torch==2.11.0",)),
        ("torch==2.11.0 torch_npu", "URL", ("torch==2.11.0", "torch_npu", "--index-url", "URL")),
        ("", "URL", ("torch==2.13.0", "--index-url", "URL")),
    ],
)
def test_torch_and_its_index_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, torch: str, index: str, call: tuple[str, ...]
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(install, "pip", lambda *arguments: calls.append(arguments) or True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(install, "LOCK", tmp_path / "a.lock")
    install.LOCK.write_text("# Made by hand.\ntorch==2.13.0\nnumpy==2.4.6\n")
    assert install.main(torch, index) == 0
    assert calls[0] == call
    assert (tmp_path / "without-torch.txt").read_text() == "numpy==2.4.6\n"
