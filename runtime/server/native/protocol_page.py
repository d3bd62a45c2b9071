"""JSON schema and docs page of the native protocol, generated from the message types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter

from runtime.server.native.messages import PROTOCOL, ServerMessage
from runtime.server.native.schema import ClientMessage

_HEAD = f"""# Protocol

Look up the messages of `{PROTOCOL}`: every field, type and default. The [API](api.md#native-websocket) shows a
conversation and explains contexts. `GET /v1/audio/speech/stream/schema` returns the same as JSON schema.

<!-- Written by tools/protocol_page.py from runtime/server/native/schema.py and messages.py. Do not edit. -->

Every message except `session.close` and `ping` may have `context_id`, the name of its utterance (by default
`default`). The server sends it with every message about an utterance. A field with the default `null` may be null.
"""

_CONTEXT_ID_FIELD = "context_id"  # Field that the page describes only in its first paragraph.


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schemas of all client messages and server messages, by type."""
    return {
        "protocol": PROTOCOL,
        "client": {kind: text for kind, text in _schemas(ClientMessage)},
        "server": {kind: text for kind, text in _schemas(ServerMessage)},
    }


def page() -> str:
    """Return the Markdown text of docs/protocol.md."""
    sections = [_HEAD]
    for heading, side in (("From the client", "client"), ("From the server", "server")):
        sections.append(f"## {heading}\n")
        sections += [_section(kind, described, side) for kind, described in schema()[side].items()]
    return "\n".join(sections)


def _schemas(union: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for message in get_args(union):
        described = TypeAdapter(message).json_schema()
        yield described["properties"]["type"]["const"], described


def _section(kind: str, described: dict[str, Any], side: str) -> str:
    defs = described.get("$defs", {})
    lines = [f"### `{kind}`\n", described.get("description", "") + "\n", *_table(described, defs, side)]
    for name, part in defs.items():
        if "properties" in part:
            lines += [f"`{name}`: {part.get('description', '')}\n", *_table(part, defs, side)]
    return "\n".join(lines)


def _table(described: dict[str, Any], defs: dict[str, Any], side: str) -> Iterator[str]:
    """Yield the table rows of the fields, except the message type and the context id."""
    fields = {name: field for name, field in described["properties"].items() if name not in {"type", _CONTEXT_ID_FIELD}}
    if not fields:
        return
    from_client, required = side == "client", described.get("required", [])
    yield "| field | type | default | content |" if from_client else "| field | type | content |"
    yield "|---|---|---|---|" if from_client else "|---|---|---|"
    for name, field in fields.items():
        default = "required" if name in required else f"`{_json(field['default'])}`" if "default" in field else ""
        kind = _type(field, defs) if from_client or name in required else f"{_type(field, defs)}, if it applies"
        if default == "`null`":
            kind = kind.removesuffix(" or null")
        cells = [f"`{name}`", kind, *([default] if from_client else []), field.get("description", "")]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _type(field: dict[str, Any], defs: dict[str, Any]) -> str:
    """Return the type of a field as Markdown text."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"`{name}`" if "properties" in defs[name] else _type(defs[name], defs)
    if "anyOf" in field:
        return " or ".join(_type(option, defs) for option in field["anyOf"])
    if "const" in field:
        return f"`{_json(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{_json(word)}`" for word in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'], defs)}"
    bounds = [f"{sign} {_whole(field[key])}" for key, sign in _BOUNDS.items() if key in field]
    return " ".join([str(field.get("type", "any")), *bounds])


def _whole(bound: float) -> float:
    return int(bound) if bound == int(bound) else bound


_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "maxLength": "up to"}


def _json(value: object) -> str:
    literals = {None: "null", True: "true", False: "false"}
    return literals[value] if value is None or isinstance(value, bool) else str(value)
