"""Bundles of the page's JavaScript modules, style sheets and texts, built on request.

Developers can edit assets/ and presets/ and reload the page without a build step. In a bundle, each module becomes a
function that returns its exports, which all modules after it can use. Modules are placed after the modules that they
import. A source map lets the browser show the original line numbers.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import brotli
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.errors import UnknownRoute
from runtime.shared.port.errors import error_response
from runtime.shared.text import style_words
from runtime.shipped import shipped
from studio.presets import FOLDER as PRESETS
from studio.presets import Presets
from studio.words import FOLDER as WORDS
from studio.words import languages, words

ASSETS = shipped("studio", "assets")
ROOMS = ("speakers", "design", "clone", "script", "library", "host")
MODULES = {"page": "app/studio.js", "startup": "app/startup.js"}
SHELL_SHEETS = ("tokens", "studio", "controls", "dock")
PART_SHEETS = ("real_voices", "voice_picker", "pronunciation", "importing")
OVERRIDING_SHEETS = ("forced_colors", "touch", "print")
# Quality of the compression, at which the page's modules take 0.1 s. Quality 11 takes ten times as long and saves 10 %.
BROTLI_QUALITY = 9

_IMPORT = re.compile(r"^import (?P<names>\{[^}'\"]*\}) from '(?P<path>\.[^']+)';$", re.MULTILINE)
_RENAMED = re.compile(r"(\w+) as (\w+)")
_EXPORT = re.compile(r"^export (?=(?:async function|function\*?|class|const) (\w+))", re.MULTILINE)
_OTHER_SYNTAX = re.compile(r"^(?:import (?!\{ \$\{)|export )", re.MULTILINE)
_BLOCK_COMMENT = re.compile(r"^[ \t]*/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*$", re.MULTILINE)
# Pattern of comments that occupy a whole line. Comments after code are not matched, because strings may contain
# slashes.
_LINE_COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
# Pattern of comments within a line: JSDoc casts, and comments after code. Code that the page displays must use /* */.
_INNER_COMMENT = re.compile(
    r"/\*\*(?:[^*\n]|\*(?!/))*\*/ ?|(?<=[;{},(]) +// (?:[^'\"`\n]|(?<=[a-z])'(?=s ))*$", re.MULTILINE
)
# Pattern of indentation, except in template literals, whose text the page may show.
_INDENT = re.compile(r"(?P<literal>`(?:[^`\\]|\\.)*`)|^[ \t]+", re.MULTILINE | re.DOTALL)
# Pattern of empty lines, except in template literals.
_EMPTY_LINE = re.compile(r"(?P<literal>`(?:[^`\\]|\\.)*`)|^\n", re.MULTILINE | re.DOTALL)
_VLQ = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Joined(NamedTuple):
    """Text that joins several source files, and the paths of these files."""

    text: str
    sources: list[Path]


@dataclass(frozen=True, slots=True)
class Bundle:
    """File that joins several source files for the browser, with its compressed variants.

    `stamp` maps the source files of the bundle to their versions.
    """

    body: bytes
    packed: dict[str, bytes]  # Compressed body by Content-Encoding, smallest first.
    etag: str
    media_type: str
    stamp: dict[Path, int]

    @property
    def is_current(self) -> bool:
        """True if no source file of the bundle has changed since the bundle was built."""
        return self.stamp == _versions(self.stamp)


class Bundles:
    """Thread-safe cache of bundles (files that join several source files).

    A bundle is selected by its name. It is built again if a source file has changed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: dict[str, Bundle] = {}
        self._makers: dict[str, Callable[[], Joined]] = {"page.css": join_sheets, "presets.json": join_presets}
        self._makers |= {f"{language}.json": partial(join_words, language) for language in languages()}
        for name in MODULES:
            self._makers[f"{name}.js"] = partial(join_modules, name)
            self._makers[f"{name}.js.map"] = partial(source_map, name)

    def routes(self) -> list[Route]:
        """Return the HTTP routes that serve the bundles (joined JavaScript, CSS and text files)."""
        return [Route("/studio/bundle/{name}", self.respond, methods=["GET", "HEAD"])]

    def respond(self, request: Request) -> Response:
        """Return the response with a bundle (a joined file).

        The status is 304 if the browser has the current version. Thread: worker thread.
        """
        name = request.path_params["name"]
        if name not in self._makers:
            return error_response(UnknownRoute(hint=""))
        bundle = self.get(name)
        headers = {"etag": bundle.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == bundle.etag:
            return Response(status_code=304, headers=headers)
        accepted = {part.split(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")}
        for encoding, packed in bundle.packed.items():
            if encoding in accepted:
                return Response(packed, media_type=bundle.media_type, headers=headers | {"content-encoding": encoding})
        return Response(bundle.body, media_type=bundle.media_type, headers=headers)

    def get(self, name: str) -> Bundle:
        """Return the bundle with this name.

        The bundle is built again if one of its source files has changed.
        """
        with self._lock:
            bundle = self._made.get(name)
            if bundle is None or not bundle.is_current:
                text, sources = self._makers[name]()
                body = text.encode()
                etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                media_type = {".css": "text/css", ".js": "text/javascript"}.get(Path(name).suffix, "application/json")
                packed = {"br": brotli.compress(body, quality=BROTLI_QUALITY), "gzip": gzip.compress(body, mtime=0)}
                bundle = Bundle(body, packed, etag, media_type, _versions(sources))
                self._made[name] = bundle
            return bundle


def join_sheets() -> Joined:
    """Join the style sheets of the page, its components and its tabs."""
    names = [*SHELL_SHEETS, *PART_SHEETS, *(f"rooms/{room}" for room in ROOMS), *OVERRIDING_SHEETS]
    paths = [path for name in names if (path := ASSETS / "css" / f"{name}.css").exists()]
    return Joined("\n".join(path.read_text("utf-8") for path in paths), paths)


def join_presets() -> Joined:
    """Return JSON text with the voice presets, the languages, and the words of style tags."""
    presets = Presets.load().as_json() | {"languages": languages(), "style_words": style_words.for_page()}
    sources = [*sorted(PRESETS.glob("*.toml")), Path(style_words.__file__)]
    return Joined(json.dumps(presets, ensure_ascii=False), sources)


def join_words(language: str) -> Joined:
    """Return the user interface texts of the page in one language as JSON text."""
    return Joined(json.dumps(words(language), ensure_ascii=False), sorted((WORDS / language).glob("*.json")))


def join_modules(name: str) -> Joined:
    """Join a JavaScript module and all modules that it imports into one module.

    Raises:
        ValueError: Modules import each other, or a module has unsupported syntax.
    """
    order, parts = _parts(name)
    exported = _EXPORT.findall(order[-1].read_text("utf-8"))
    tail = f"export {{ {', '.join(exported)} }};\n" if exported else ""
    lines = [line for part in parts for _, line in _lines(part)]
    return Joined("\n".join([*lines, f"{tail}//# sourceMappingURL={name}.js.map\n"]), order)


def source_map(name: str) -> Joined:
    """Return the source map of the module that `join_modules` creates."""
    order, parts = _parts(name)
    rows: list[str] = []
    before = 0
    for source, part in enumerate(parts):
        is_next = int(source > 0)
        for number, _ in _lines(part):
            # An entry has four numbers: the column in the generated file, and the source, line and column as
            # differences from the previous entry.
            rows.append(f"A{_vlq(is_next)}{_vlq(number - before)}A")
            before, is_next = number, 0
    sources = [f"../js/{_address(path)}" for path in order]
    return Joined(json.dumps({"version": 3, "sources": sources, "names": [], "mappings": ";".join(rows)}), order)


def _parts(name: str) -> tuple[list[Path], list[str]]:
    """Return a module and its imports in execution order, and the converted text of each."""
    order: list[Path] = []
    _visit((ASSETS / "js" / MODULES[name]).resolve(), order, [])
    owners: dict[str, Path] = {}
    for path in order:
        for export in _EXPORT.findall(path.read_text("utf-8")):
            if owners.setdefault(export, path) is not path:
                raise ValueError(f"{path.name} exports {export}, which {owners[export].name} exports")
    return order, [_wrap(path) for path in order]


def _visit(path: Path, order: list[Path], importing: list[Path]) -> None:
    """Append the imports of a module to `order`, and then the module."""
    if path in order:
        return
    if path in importing:
        raise ValueError(f"{path.name} is imported by {importing[-1].name}, which it imports")
    for _, specifier in _IMPORT.findall(path.read_text("utf-8")):
        _visit((path.parent / specifier).resolve(), order, [*importing, path])
    order.append(path)


def _wrap(path: Path) -> str:
    """Convert a module to a function that returns its exports, with unchanged line numbers."""

    def bound(found: re.Match[str]) -> str:
        return "".join(f"const {local} = {name}; " for name, local in _RENAMED.findall(found["names"]))

    text = path.read_text("utf-8")
    exported = _EXPORT.findall(text)
    text = _BLOCK_COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    text = _INNER_COMMENT.sub("", _LINE_COMMENT.sub("", text))
    text = _INDENT.sub(lambda found: found["literal"] or "", text)
    text = _EXPORT.sub("", _IMPORT.sub(bound, text))
    if other := _OTHER_SYNTAX.search(text):
        raise ValueError(f"{path.name} has an import or export that is not read here: {text[other.start() :][:80]!r}")
    text = text.replace("import.meta.url", f"new URL('../js/{_address(path)}', import.meta.url).href")
    names = f"{{ {', '.join(exported)} }}"
    return f"const {names} = (() => {{ {text.rstrip()}\nreturn {names}; }})();"


def _lines(part: str) -> list[tuple[int, str]]:
    """Return the non-empty lines of a converted module with their numbers in the source."""
    empty = {part.count("\n", 0, found.start()) for found in _EMPTY_LINE.finditer(part) if not found["literal"]}
    return [(number, line) for number, line in enumerate(part.split("\n")) if number not in empty]


def _address(path: Path) -> str:
    """Return the URL path of a module relative to the folder of the page's modules."""
    return os.path.relpath(path, (ASSETS / "js").resolve()).replace(os.sep, "/")


def _vlq(value: int) -> str:
    """Encode an integer in the base64 VLQ format of source maps."""
    rest = -value << 1 | 1 if value < 0 else value << 1
    digits = ""
    while True:
        rest, digit = rest >> 5, rest & 31
        digits += _VLQ[digit | (32 if rest else 0)]
        if not rest:
            return digits


def _versions(paths: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.exists() else 0 for path in paths}
