"""Generation of the OpenAPI document from the application's routes and error classes."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi.routing import RouteContext, iter_route_contexts
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from runtime.server.openapi.operations import EVERYWHERE, JSON, Operation, Refusals, operation_of
from runtime.version import package_version

OPENAPI = "3.1.0"
# HTTP methods that the document lists. HEAD is omitted, because every GET route also accepts HEAD.
METHODS = ("get", "post", "put", "patch", "delete")

_REFERENCE = "#/components/schemas/{model}"
_KEYS: dict[str, dict[str, str]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x_api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "xi_api_key": {"type": "apiKey", "in": "header", "name": "xi-api-key"},
}
_ABOUT = (
    "Speech from Qwen3-TTS checkpoints. `HEAD` works on every `GET` route. Audio is generated while it is sent: "
    "the status is sent with the first audio. For WebSockets and details, see docs/api.md."
)

Document = dict[str, Any]

_FORMAT_SPECIFICATION = re.compile(r":[^{}]*}")  # Format specification in an error message template.

_BYTES: Document = {"type": "string", "format": "binary"}
_EVENT: Document = {  # JSON schema of a server-sent event.
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": JSON},
    },
    "required": ["event", "data"],
}


def build_document(routes: Sequence[BaseRoute], *, has_keys: bool) -> Document:
    """Return the OpenAPI document of all HTTP routes.

    Args:
        has_keys: True if requests need an API key.
    """
    operations = list(_operations(routes))
    schemas, components = _schemas(operations)
    paths: dict[str, Document] = defaultdict(dict)
    for route, operation in operations:
        for method in sorted({name.lower() for name in route.methods or ()} & set(METHODS)):
            paths[_path(route)][method] = _described(route, method, operation, schemas)
    needed: list[dict[str, list[str]]] = [{name: []} for name in _KEYS]
    return {
        "openapi": OPENAPI,
        "info": {"title": "Voicewright runtime", "version": package_version(), "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": needed if has_keys else [{}, *needed],
        "paths": dict(paths),
        "components": {"schemas": components, "securitySchemes": _KEYS},
    }


def undocumented_routes(routes: Sequence[BaseRoute]) -> list[str]:
    """Return the paths of all endpoints that lack an `Operation` or a docstring."""
    return [
        str(route.path)
        for route in iter_route_contexts(routes)
        if route.methods and route.endpoint and not (operation_of(route.endpoint) and route.endpoint.__doc__)
    ]


def _operations(routes: Sequence[BaseRoute]) -> Iterator[tuple[RouteContext, Operation]]:
    """Yield each route with its operation, except duplicates with a trailing slash."""
    for route in iter_route_contexts(routes):
        if route.methods and route.endpoint and not str(route.path).endswith("/"):
            yield route, operation_of(route.endpoint) or Operation()


def _schemas(operations: list[tuple[RouteContext, Operation]]) -> tuple[dict[int, Document], dict[str, Document]]:
    """Return the schema of each type by `id(type)`, and the component schemas by name."""
    types: dict[int, tuple[Any, Any]] = {}
    for _, operation in operations:
        for kind, mode in (
            (operation.body, "validation"),
            (operation.response, "serialization"),
            (operation.refused_as, "serialization"),
        ):
            types[id(kind)] = kind, mode
    types.pop(id(None), None)
    inputs: Any = [(key, mode, TypeAdapter(kind)) for key, (kind, mode) in types.items()]
    referred, described = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    return {key: schema for (key, _), schema in referred.items()}, described.get("$defs", {})


def _path(route: RouteContext) -> str:
    """Return the path of a route in OpenAPI's format (without parameter converters)."""
    return re.sub(r":\w+}", "}", str(route.path))


def _described(route: RouteContext, method: str, operation: Operation, schemas: dict[int, Document]) -> Document:
    endpoint = route.endpoint
    assert endpoint is not None
    description = inspect.getdoc(endpoint) or ""
    described: Document = {
        "operationId": f"{method}{re.sub(r'[^A-Za-z0-9]+', '_', _path(route))}".rstrip("_"),
        "tags": [_dialect(endpoint.__module__)],
        "summary": re.split(r"(?<=\.)\s|[:;] ", description, maxsplit=1)[0].rstrip(".:;"),
        "description": description,
        "parameters": list(_parameters(route, operation)),
        "responses": _responses(operation, schemas),
    }
    if operation.body is not None:
        content: Document = {operation.body_media: {"schema": schemas[id(operation.body)]}}
        if operation.example is not None:
            content[operation.body_media]["example"] = operation.example
        described["requestBody"] = {"required": True, "content": content}
    if operation.is_open:
        described["security"] = []
    return described


def _dialect(module: str) -> str:
    """Return the OpenAPI tag of a route: the folder of its module, or "operation"."""
    folder = module.removeprefix("runtime.server.").split(".")[0]
    return folder if folder != "app" else "operation"


def _parameters(route: RouteContext, operation: Operation) -> Iterator[Document]:
    """Yield the OpenAPI descriptions of a route's path and query parameters."""
    about = operation.parameters
    for name in re.findall(r"{(\w+)}", _path(route)):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    for field in route.dependant.query_params:
        name, schema = field.alias, {"type": "string", "default": field.default}
        description = {"description": about[name]} if name in about else {}
        yield {"name": name, "in": "query", "required": False, "schema": schema, **description}
    if operation.query is not None:
        schema = TypeAdapter(operation.query).json_schema()
        for name, described in schema["properties"].items():
            yield {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": described}


def _responses(operation: Operation, schemas: dict[int, Document]) -> Document:
    content: Document = {media: {"schema": _BYTES} for media in operation.binary_types}
    if operation.is_events:
        content["text/event-stream"] = {"schema": _EVENT}
    if operation.response is not None:
        content[JSON] = {"schema": schemas[id(operation.response)]}
    return {
        str(operation.status): {"description": "The requested content.", **({"content": content} if content else {})},
        **dict(_refusals(operation.refusals | EVERYWHERE, schemas[id(operation.refused_as)])),
    }


def _refusals(refusals: Refusals, schema: Document) -> Iterator[tuple[str, Document]]:
    """Yield the HTTP statuses of a route's errors with their OpenAPI responses."""
    by_status = defaultdict(list)
    for kind in sorted(refusals, key=lambda kind: kind.code):
        by_status[kind.http_status].append(kind)
    for status, those in sorted(by_status.items()):
        description = "\n".join(f"* `{kind.code}`: {_FORMAT_SPECIFICATION.sub('}', kind.sentence)}" for kind in those)
        yield str(status), {"description": description, "content": {JSON: {"schema": schema}}}
