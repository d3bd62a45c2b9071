"""HTML page that shows an OpenAPI document."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import escape
from string import Template
from typing import Any

from runtime.shipped import shipped

Document = dict[str, Any]
Row = tuple[str, ...]

_TEMPLATE = shipped("runtime", "assets/openapi") / "page.html"
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "maxLength": "up to"}


def page(document: Document) -> str:
    """Return an HTML page with the operations by API, and with all object types in use."""
    by_tag: dict[str, list[str]] = defaultdict(list)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag[operation["tags"][0]].append(_operation(method, path, operation))
    sections = [f'<section id="{tag}"><h2>{tag}</h2>{"".join(those)}</section>' for tag, those in by_tag.items()]
    objects = [_object(name, schema) for name, schema in document["components"]["schemas"].items()]
    info = document["info"]
    return Template(_TEMPLATE.read_text("utf-8")).substitute(
        title=escape(info["title"]),
        version=escape(info["version"]),
        about=_prose(info["description"]),
        tags="".join(f'<li><a href="#{tag}">{tag}</a></li>' for tag in (*by_tag, "objects")),
        body="".join([*sections, f'<section id="objects"><h2>objects</h2>{"".join(objects)}</section>']),
    )


def _operation(method: str, path: str, operation: Document) -> str:
    parts = [_prose(operation["description"])]
    rows: list[Row]
    if parameters := operation.get("parameters"):
        rows = [
            (
                f"<code>{escape(parameter['name'])}</code>",
                parameter["in"],
                _type(parameter["schema"]),
                _prose_line(parameter.get("description") or parameter["schema"].get("description", "")),
            )
            for parameter in parameters
        ]
        parts.append(_table("Parameters", rows))
    if body := operation.get("requestBody"):
        rows = [(f"<code>{media}</code>", _type(content["schema"])) for media, content in body["content"].items()]
        parts.append(_table("Body", rows))
    rows = [(status, _answer(response)) for status, response in operation["responses"].items()]
    parts.append(_table("Answers", rows))
    summary = f"<b>{method.upper()}</b> <code>{escape(path)}</code> <span>{_prose_line(operation['summary'])}</span>"
    return _fold(operation["operationId"], summary, "".join(parts))


def _answer(response: Document) -> str:
    """Return the HTML of a response's description, or of an error's codes and messages."""
    content = response.get("content", {})
    kinds = ", ".join(f"<code>{media}</code> {_type(kind['schema'])}" for media, kind in content.items())
    lines = response["description"].splitlines()
    if not lines[0].startswith("* "):
        return kinds or "nothing"
    return kinds + "<ul>" + "".join(f"<li>{_prose_line(line[2:])}</li>" for line in lines) + "</ul>"


def _object(name: str, schema: Document) -> str:
    needed = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(field)}</code>",
            _type(kind),
            "needed" if field in needed else "",
            _prose_line(kind.get("description", "")),
        )
        for field, kind in schema.get("properties", {}).items()
    ]
    inside = _prose(schema.get("description", "")) + (_table("", rows) if rows else f"<p>{_type(schema)}</p>")
    return _fold(name, f"<code>{escape(name)}</code>", inside)


def _fold(name: str, summary: str, inside: str) -> str:
    """Return the HTML of a collapsible section.

    Browsers open the section if a link targets an element inside.
    """
    return f'<details><summary>{summary}</summary><div id="{escape(name)}">{inside}</div></details>'


def _type(schema: Document) -> str:
    """Return the type of a schema as HTML, with links to object types."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            return " or ".join(map(_type, schema[joined]))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"<code>{escape(str(word))}</code>" for word in schema.get("enum", [schema.get("const")]))
    if schema.get("format") == "binary":
        return "bytes"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    bounds = [f"{escape(sign)} {_number(schema[key])}" for key, sign in _BOUNDS.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), *bounds])


def _number(value: float) -> float:
    """Return a bound as an integer if possible, because FastAPI's document has only floats."""
    return value if value % 1 else int(value)


def _table(title: str, rows: Iterable[Row]) -> str:
    cells: Iterator[str] = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    heading = f"<h3>{title}</h3>" if title else ""
    return heading + "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def _prose(words: str) -> str:
    return "".join(f"<p>{_prose_line(paragraph)}</p>" for paragraph in words.split("\n\n") if paragraph)


def _prose_line(words: str) -> str:
    """Convert one line of text to HTML.

    Text between backticks becomes code.
    """
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(words, quote=False))
