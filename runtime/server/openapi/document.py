"""OpenAPI document by FastAPI, with the bodies that routes parse themselves."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query, Response
from fastapi.openapi.constants import REF_PREFIX
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from starlette.routing import BaseRoute

from runtime.server.openapi.operations import EVERYWHERE, JSON, Operation, operation_of
from runtime.version import package_version

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

_BYTES: Document = {"schema": {"type": "string", "format": "binary"}}
_EVENT: Document = {  # Content of a response with server-sent events.
    "schema": {
        "type": "object",
        "properties": {
            "event": {"type": "string"},
            "data": {"type": "string", "contentMediaType": JSON},
        },
        "required": ["event", "data"],
    }
}


def build_document(routes: Sequence[BaseRoute], *, has_keys: bool) -> Document:
    """Return the OpenAPI document of all HTTP routes.

    Args:
        has_keys: True if requests need an API key.
    """
    document = get_openapi(
        title="Voicewright runtime",
        version=package_version(),
        description=_ABOUT,
        servers=[{"url": "/"}],
        routes=[_described(route) for route in _routes(routes) if not str(route.path).endswith("/")],
    )
    needed: list[dict[str, list[str]]] = [{name: []} for name in _KEYS]
    document["security"] = needed if has_keys else [{}, *needed]
    components = document["components"]
    components["securitySchemes"] = _KEYS
    # FastAPI describes its own validation error, which no route returns.
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    return document


def undocumented_routes(routes: Sequence[BaseRoute]) -> list[str]:
    """Return the paths of all endpoints that lack an `Operation` or a docstring."""
    return [
        str(route.path)
        for route in _routes(routes)
        if route.endpoint and not (operation_of(route.endpoint) and route.endpoint.__doc__)
    ]


def _routes(routes: Sequence[BaseRoute]) -> Iterator[RouteContext]:
    return (route for route in iter_route_contexts(routes) if route.methods and route.endpoint)


def _described(route: RouteContext) -> APIRoute:
    """Return a copy of a route for FastAPI's generator, with its inputs and responses."""
    endpoint = route.endpoint
    assert endpoint is not None
    operation = operation_of(endpoint) or Operation()
    description = inspect.getdoc(endpoint) or ""
    (method,) = (route.methods or set()) - {"HEAD"}
    extra: Document = {"security": []} if operation.is_open else {}
    if operation.example is not None:
        extra["requestBody"] = {"content": {operation.body_media: {"example": operation.example}}}
    return APIRoute(
        str(route.path),
        endpoint,
        methods=[method],
        dependencies=[Depends(_inputs(route, operation))],
        operation_id=f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', str(route.path_format))}".rstrip("_"),
        tags=[_dialect(endpoint.__module__)],
        summary=re.split(r"(?<=\.)\s|[:;] ", description, maxsplit=1)[0].rstrip(".:;"),
        status_code=operation.status,
        response_model=None,
        response_class=Response,
        response_description="The requested content.",
        responses=_responses(operation),
        openapi_extra=extra,
    )


def _inputs(route: RouteContext, operation: Operation) -> Callable[[], None]:
    """Return a dependency that declares the inputs that the endpoint reads itself."""
    kinds: dict[str, Any] = dict.fromkeys(route.param_convertors, Annotated[str, Path(min_length=1)])
    if operation.query is not None:
        kinds["query"] = Annotated[operation.query, Query()]
    if operation.body is not None:
        kinds["body"] = Annotated[operation.body, Body(media_type=operation.body_media)]

    def dependency() -> None: ...

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, annotation=kind) for name, kind in kinds.items()]
    setattr(dependency, "__signature__", inspect.Signature(parameters))  # noqa: B010  mypy knows no such attribute.
    return dependency


def _dialect(module: str) -> str:
    """Return the OpenAPI tag of a route: the folder of its module, or "operation"."""
    folder = module.removeprefix("runtime.server.").split(".")[0]
    return folder if folder != "app" else "operation"


def _responses(operation: Operation) -> dict[int | str, Document]:
    """Return FastAPI's `responses` of a route: its content, and its errors by HTTP status."""
    content = dict.fromkeys(operation.binary_types, _BYTES)
    if operation.is_events:
        content["text/event-stream"] = _EVENT
    responses: dict[int | str, Document] = {operation.status: {"content": content} if content else {}}
    if operation.response is not None:
        responses[operation.status]["model"] = operation.response
    by_status = defaultdict(list)
    for kind in sorted(operation.refusals | EVERYWHERE, key=lambda kind: kind.code):
        by_status[kind.http_status].append(kind)
    # Only one error declares the model, because FastAPI takes milliseconds for each model of each route.
    reference: Document = {"content": {JSON: {"schema": {"$ref": REF_PREFIX + operation.refused_as.__name__}}}}
    for status, those in sorted(by_status.items()):
        description = "\n".join(f"* `{kind.code}`: {_FORMAT_SPECIFICATION.sub('}', kind.sentence)}" for kind in those)
        responses[status] = {"description": description, **reference}
    responses[next(iter(by_status))]["model"] = operation.refused_as
    return responses
