"""Tests with Schemathesis: valid and invalid requests from the OpenAPI document."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import PYTHON, ROOT
from voicewright import sync, wav

KEY = "a-key-of-this-test"
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"),
    *("response_headers_conformance", "ignored_auth"),
)
# Phases of the test: examples and bounds from the document. Random bodies are omitted, because they would double the
# duration.
PHASES = "examples,coverage"
BUDGET_S = 540  # Timeout, several times the duration on an idle machine.
READY = re.compile(r"Voicewright runtime ready at (http://\S+)")
STORED = "Grandmother"


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[str]:
    """Start a server with an API key, and yield its URL.

    The server has the embedded voice's checkpoint, but its engine generates audio instantly.
    """
    environment = {"VOICEWRIGHT_API_KEYS": KEY, "XDG_DATA_HOME": str(tmp_path / "data")}
    command = [sys.executable, "-m", "tests.support.instant_runtime", "runtime", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield next(said[1] for line in process.stdout if (said := READY.match(line)))
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.timeout(600)
def test_every_route_matches_the_openapi_document(runtime: str, tmp_path: Path) -> None:
    schemathesis = PYTHON.with_name("st")
    if not schemathesis.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("get it with: make .venv-clients/.ready")
    with sync.connect(runtime, api_key=KEY) as client:
        sound = client.speak("The old clock strikes nine, and then it is quiet.", voice="clara", seed=3).read()
        client.add_voice(STORED, wav(sound), consent="A test's own voice.")
    config = tmp_path / "schemathesis.toml"
    config.write_text(f"""
[parameters]
"path.voice_id" = "clara"

[[operations]]
include-path-regex = "/v1/audio/voices/"
include-method = ["GET", "PATCH"]

[operations.parameters]
"path.name" = "{STORED}"
""")
    ended = subprocess.run(
        [
            *(str(schemathesis), "--config-file", str(config), "run", f"{runtime}/openapi.json"),
            *("--header", f"Authorization: Bearer {KEY}", "--checks", ",".join(CHECKS)),
            *("--phases", PHASES, "--seed", "1"),
            *("--continue-on-failure", "--request-timeout", "30", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BUDGET_S,
        check=False,
        env=os.environ | {"NO_PROXY": "*"},
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    (tested,) = re.findall(r"Tested: (\d+)", ended.stdout)
    assert int(tested) > 30
