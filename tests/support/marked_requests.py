"""Requests of every kind that contain a marker word.

Tests search logs for this word, to detect that text of clients is logged. HTTP requests are generated from an OpenAPI
document. WebSocket messages are examples of each API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

WORD = "zebrafinch"  # Word that occurs in no other request or log message.
SPEAKER = "clara"
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_PLACE = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """HTTP request that contains the marker word."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    data: Mapping[str, str] | None = None
    files: Mapping[str, tuple[str, bytes, str]] | None = None
    content: bytes | None = None


def one_by_one(value: Any, word: str = f"Say {WORD}.") -> Iterator[Any]:
    """Yield copies of a JSON value in which one string is replaced by `word`.

    The last copy has all strings replaced.
    """
    for path in list(_strings(value)):
        yield _with(value, path, word)
    everything = value
    for path in list(_strings(value)):
        everything = _with(everything, path, word)
    yield {**everything, WORD: word} if isinstance(everything, dict) else everything


def _strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _strings(inner, (*path, name))


def _with(value: Any, path: tuple[Any, ...], word: str) -> Any:
    if not path:
        return word
    name, *rest = path
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[name] = _with(value[name], tuple(rest), word)
    return changed


def of_document(document: Mapping[str, Any]) -> Iterator[Marked]:
    """Yield requests with the marker word for every operation of an OpenAPI document.

    The word is in the example, the form fields, an invalid body or the URL of the operation.
    """
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method not in METHODS:
                continue
            places = _PLACE.findall(path)
            named = [path]
            if places:
                named = [_PLACE.sub(quote(place), path) for place in (WORD, SPEAKER, f"../{WORD}")]
            queries = {each["name"]: WORD for each in operation.get("parameters", ()) if each["in"] == "query"}
            for address in named:
                yield Marked(method=method, path=address, params={**queries, WORD: WORD})
                yield Marked(method=method, path=address, content=f"{{{WORD}".encode())
                for name in queries:
                    yield Marked(method=method, path=address, params={name: WORD})
                for media, content in operation.get("requestBody", {}).get("content", {}).items():
                    for body in bodies(media, content, document):
                        yield Marked(method=method, path=address, **body)


def bodies(media: str, content: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield request bodies for an operation, from its OpenAPI example or its field names."""
    if media == "application/json":
        example = content.get("example") or dict.fromkeys(_fields(content["schema"], document), "x")
        yield {"json": example}
        for changed in one_by_one(example):
            yield {"json": changed}
            if isinstance(changed, dict) and "voice" in changed and isinstance(changed["voice"], str):
                yield {"json": {**changed, "voice": SPEAKER}}
    elif media == "multipart/form-data":
        names = [*_fields(content["schema"], document), WORD]
        sound = {"audio_sample": (f"{WORD}.wav", WORD.encode(), "audio/wav")}
        yield {"data": dict.fromkeys(names, WORD), "files": sound}
        yield {"data": dict.fromkeys(names, WORD)}
    else:
        yield {"content": WORD.encode(), "headers": {"content-type": media}}


def _fields(schema: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    if reference := schema.get("$ref"):
        return _fields(document["components"]["schemas"][reference.rpartition("/")[2]], document)
    return [
        *schema.get("properties", {}),
        *(name for one in schema.get("allOf", ()) for name in _fields(one, document)),
    ]


def of_messages(messages: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield variants of a WebSocket session, as lists of messages, with the marker word.

    The word is in one place of each variant. Each variant ends with an invalid message. The first variant is the
    session without the word.
    """
    yield [json.dumps(message) for message in messages]
    for number, message in enumerate(messages):
        for changed in one_by_one(message):
            said = [*messages[:number], changed, *messages[number + 1 :]]
            yield [json.dumps(each) for each in said] + [WORD]
