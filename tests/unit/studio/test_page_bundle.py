"""Tests for the page's JavaScript and CSS bundles, compared with their sources."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.page import bundle
from studio.page.bundle import Bundles
from tests.support import node


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder of JavaScript modules whose entry point is studio.js."""
    monkeypatch.setattr(bundle, "ASSETS", tmp_path)
    monkeypatch.setattr(bundle, "MODULES", {"page": "studio.js"})
    folder = tmp_path / "js"
    (folder / "parts").mkdir(parents=True)
    (folder / "studio.js").write_text(
        "import { half, TWO as two } from './parts/numbers.js';\n"
        "import { address } from './parts/address.js';\n\n"
        "/** The sum. */\n"
        "export function sum() {\n  return `${half(two)} ${address}`;\n}\n"
        "export function fail() {\n  throw new Error('here');\n}\n"
    )
    (folder / "parts/numbers.js").write_text(
        "export const TWO = 2;\nexport function half(number) {\n  return number / 2;\n}\n"
    )
    (folder / "parts/address.js").write_text(
        "import { TWO } from './numbers.js';\n\n"
        "export const address = new URL('./worklet.js', import.meta.url).href.split('/').slice(-TWO - 1).join('/');\n"
    )
    return folder


def run(tmp_path: Path, expression: str) -> str:
    """Import the bundle as `page` in Node, and return the value of a JavaScript expression."""
    file = tmp_path / "bundle" / "page.mjs"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(Bundles().get("page.js").body)
    program = f"import('{file.as_uri()}').then((page) => console.log({expression}))"
    return subprocess.run([*node.command(), "-e", program], capture_output=True, text=True, check=True).stdout.strip()


def test_bundled_modules_run_after_their_imports_with_their_own_url(tmp_path: Path, modules: Path) -> None:
    assert run(tmp_path, "page.sum()") == "1 js/parts/worklet.js"


def test_indentation_is_kept_in_template_literals_only(tmp_path: Path, modules: Path) -> None:
    (modules / "parts/address.js").write_text("export const address = [\n  `if (\\`a\\`)\n  b`,\n  'c',\n][0];\n")
    assert run(tmp_path, "JSON.stringify(page.sum())") == json.dumps("1 if (`a`)\n  b")
    assert "\n'c',\n" in Bundles().get("page.js").body.decode()


def test_source_map_leads_to_the_module_line(tmp_path: Path, modules: Path) -> None:
    """The source map is read by Node."""
    bundles = Bundles()
    joined = bundles.get("page.js").body.decode().split("\n")
    for text, source in [
        ("TWO = 2", ("numbers.js", 1)),
        ("const address =", ("address.js", 3)),
        ("throw new Error('here')", ("studio.js", 9)),
    ]:
        at = next(number for number, line in enumerate(joined) if text in line)
        program = (
            "const { SourceMap } = require('node:module');"
            f"const entry = new SourceMap({bundles.get('page.js.map').body.decode()}).findEntry({at}, 0);"
            "console.log(JSON.stringify([entry.originalSource.split('/').at(-1), entry.originalLine + 1]));"
        )
        answer = subprocess.run([*node.command(), "-e", program], capture_output=True, text=True, check=True).stdout
        assert tuple(json.loads(answer)) == source
    assert "\n\n" not in "\n".join(joined)


def test_changed_module_is_bundled_again(tmp_path: Path, modules: Path) -> None:
    bundles = Bundles()
    before = bundles.get("page.js")
    assert bundles.get("page.js") is before
    numbers = modules / "parts/numbers.js"
    numbers.write_text(numbers.read_text().replace("TWO = 2", "TWO = 4"))
    os.utime(numbers, ns=(0, numbers.stat().st_mtime_ns + 1))
    assert bundles.get("page.js").etag != before.etag


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("export default 1;\n", "not read here"),
        ("import all from './all.js';\n", "not read here"),
        ("import { sum } from '../studio.js';\n", "imported by"),
        ("export const address = 1;\n", "address.js exports address, which numbers.js exports"),
    ],
)
def test_unbundlable_module_error_contains_the_module(modules: Path, text: str, reason: str) -> None:
    (modules / "parts/numbers.js").write_text(text)
    with pytest.raises(ValueError, match=reason):
        Bundles().get("page.js")


def test_page_is_served_in_few_small_cacheable_files() -> None:
    client = TestClient(Starlette(routes=Bundles().routes()))
    for name, limit in {"page.js": 150_000, "page.css": 25_000, "en.json": 25_000, "presets.json": 20_000}.items():
        answer = client.get(f"/studio/bundle/{name}", headers={"accept-encoding": "gzip, deflate"})
        assert answer.headers["content-encoding"] == "gzip"
        assert int(answer.headers["content-length"]) < limit, name
        smaller = client.get(f"/studio/bundle/{name}", headers={"accept-encoding": "gzip, br;q=1.0"})
        assert smaller.headers["content-encoding"] == "br"
        assert int(smaller.headers["content-length"]) < int(answer.headers["content-length"])
        assert smaller.content == answer.content
        again = client.get(f"/studio/bundle/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    plain = client.get("/studio/bundle/page.css", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["content-type"].startswith("text/css")
    missing: httpx.Response = client.get("/studio/bundle/page.py")
    assert missing.status_code == 404
