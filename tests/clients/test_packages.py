"""Tests that build the client packages and use them outside of the repository."""

from __future__ import annotations

import email
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support import node
from tests.support.runtime_server import RunningServer
from voicewright import say

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PYTHON_CLIENT = ROOT / "clients" / "python"
MODULES = {path.name for path in (PYTHON_CLIENT / "voicewright").iterdir() if path.suffix == ".py"} | {"py.typed"}
STEP_S = 240
TEXT = "The kettle is on."
CONFIG = {"voice": "clara", "seed": 7}
SPEAK = """
import hashlib, json, sys
import voicewright
sound = voicewright.say(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
with voicewright.sync.connect(sys.argv[1]) as client:
    modes = [mode for model in client.models() for mode in model["modes"]]
print(json.dumps([voicewright.__file__, hashlib.sha256(sound).hexdigest(), modes]))
"""
SPEAK_JS = """
import { createHash } from 'node:crypto';
import { SpeechSocket } from 'voicewright';
import { SpeechRoutes } from 'voicewright/routes';
const [, , url, text, config] = process.argv;
const hash = createHash('sha256');
const socket = new SpeechSocket(url);
await new Promise((resolve, reject) => {
  const onAudio = (pcm) => hash.update(new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength));
  socket.speak(JSON.parse(config), text, { onAudio, onDone: resolve, onError: reject });
});
socket.close();
const modes = (await new SpeechRoutes(url).models()).flatMap((model) => model.modes);
console.log(JSON.stringify([import.meta.resolve('voicewright'), hash.digest('hex'), modes]));
"""


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Run a command that cannot import modules of the repository, and return its output."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=own | {"NO_PROXY": "127.0.0.1,localhost"} | environment,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.strip()


@pytest.fixture(scope="module")
def expected(server: RunningServer) -> str:
    """Return the SHA-256 of the audio that the repository's own client receives for `TEXT`."""
    return hashlib.sha256(say(server.http, TEXT, **CONFIG)).hexdigest()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the Python client package, and return the folder with the files.

    The build uses `uv build` and the locked build backend.
    """
    folder = tmp_path_factory.mktemp("dist")
    options = ("--no-build-isolation", "--offline", "--no-config", "--python", sys.executable, "--out-dir", folder)
    run(BIN / "uv", "build", *options, cwd=PYTHON_CLIENT)
    return folder


def test_python_package_contains_the_client_and_its_metadata(built: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name) for name in names if name.endswith(".dist-info/METADATA"))
    assert {name for name in names if ".dist-info/" not in name} == {f"voicewright/{module}" for module in MODULES}
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    said = email.message_from_bytes(metadata)
    assert (said["Name"], said["License-Expression"], said["Requires-Python"]) == (
        "voicewright-client",
        "Apache-2.0",
        ">=3.11",
    )
    assert said["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in (said.get_all("Classifier") or [])
    assert str(said.get_payload()).startswith("# voicewright-client")
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    own = {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert inside == own | {f"voicewright/{module}" for module in MODULES}


def test_python_package_speaks_in_a_clean_environment(
    built: Path, server: RunningServer, expected: str, tmp_path: Path
) -> None:
    venv.create(tmp_path / "alone", with_pip=True)
    python = tmp_path / "alone" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    said = run(python, "-I", "-c", SPEAK, server.http, TEXT, json.dumps(CONFIG), cwd=tmp_path)
    file, digest, modes = json.loads(said)
    assert Path(file).is_relative_to(tmp_path)
    assert digest == expected
    assert "custom_voice" in modes


def test_installed_javascript_package_speaks(server: RunningServer, expected: str, tmp_path: Path) -> None:
    npm, path = BIN / "npm", os.pathsep.join([str(BIN), os.environ["PATH"]])
    if not npm.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("npm was not found; get it with: make check")
    (packed,) = json.loads(
        run(npm, "pack", "--json", "--silent", "--pack-destination", tmp_path, cwd=node.CLIENT, PATH=path)
    )
    files = {file["path"] for file in packed["files"]}
    modules = {"voicewright.js", "voicewright.d.ts", "routes.js", "routes.d.ts"}
    assert files == {"package.json", "README.md", "LICENSE", *modules}
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    options = ("--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")
    run(npm, "install", *options, tmp_path / packed["filename"], cwd=tmp_path, PATH=path)
    (tmp_path / "speak.js").write_text(SPEAK_JS)
    said = run(*node.command(), "speak.js", server.socket, TEXT, json.dumps(CONFIG), cwd=tmp_path)
    file, digest, modes = json.loads(said)
    assert file == (tmp_path / "node_modules" / "voicewright" / "voicewright.js").resolve().as_uri()
    assert digest == expected
    assert "custom_voice" in modes


def test_both_packages_contain_the_licence() -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    assert all((folder / "LICENSE").read_bytes() == licence for folder in (PYTHON_CLIENT, node.CLIENT))
