"""Native protocol as JSON schema and as a docs page, generated from its message types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter

from runtime.server.native.replies import PROTOCOL, ServerMessage
from runtime.server.native.schema import ClientMessage

_HEAD = f"""# The messages of `{PROTOCOL}`

<!-- Written by tools/protocol_page.py from runtime/server/native/schema.py and replies.py. Do not edit. -->

How they belong together is in [api.md](api.md). The same as JSON schema: `GET /v1/audio/speech/stream/schema`.
"""


@cache
def schema() -> dict[str, Any]:
    """Every message as JSON schema: ``client`` and ``server`` hold one each, by message type."""
    return {
        "protocol": PROTOCOL,
        "client": {kind: text for kind, text in _schemas(ClientMessage)},
        "server": {kind: text for kind, text in _schemas(ServerMessage)},
    }


def page() -> str:
    """docs/protocol.md."""
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
    """The fields, but for the type. What a client leaves out has a default; what the server leaves out is not so."""
    fields = {name: field for name, field in described["properties"].items() if name != "type"}
    if not fields:
        return
    yield f"| field | type | {'default' if side == 'client' else 'sent'} | |"
    yield "|---|---|---|---|"
    always, otherwise = ("required", "") if side == "client" else ("always", "where it applies")
    required = described.get("required", [])
    for name, field in fields.items():
        default = f"`{_json(field['default'])}`" if "default" in field else otherwise
        default = always if name in required else default
        yield f"| `{name}` | {_type(field, defs)} | {default} | {field.get('description', '')} |"
        for inner, limit in field.get("properties", {}).items():
            yield f"| `{name}.{inner}` | {_type(limit, defs)} | | {limit['description']} |"
    yield ""


def _type(field: dict[str, Any], defs: dict[str, Any]) -> str:
    """Return a field's type in words."""
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
    bounds = [f"{sign} {field[key]}" for key, sign in _BOUNDS.items() if key in field]
    return " ".join([str(field.get("type", "any")), *bounds])


_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "maxLength": "up to"}


def _json(value: object) -> str:
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
