"""Tests for the OpenAPI document: all routes, valid references and error statuses."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, NoReturn

import httpx
import jsonschema
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute

from runtime.errors import Overloaded, SpeechError, UnknownVoice
from runtime.server.app import create_app
from runtime.server.engine_host import EngineHost
from runtime.server.openapi.document import build_document, undocumented_routes
from runtime.server.openapi.operations import EVERYWHERE, describe_operation, error_classes
from runtime.settings import ServerSettings, Settings
from runtime.shared.openapi_page import page
from tests.support.library import MemoryLibrary

VOID_TAGS = {"meta", "link", "br"}


def app(**server: Any) -> FastAPI:
    """Return the runtime's application without a loaded checkpoint."""

    def nothing(*_: object) -> NoReturn:
        raise AssertionError("nothing is to be loaded")

    return create_app(EngineHost(Settings(server=ServerSettings(**server)), nothing, MemoryLibrary()))


@pytest.fixture(scope="module")
def routes() -> list[BaseRoute]:
    return app().routes


@pytest.fixture(scope="module")
def described(routes: list[BaseRoute]) -> dict[str, Any]:
    return build_document(routes, has_keys=False)


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, those in described["paths"].items():
        for method, operation in those.items():
            yield path, method, operation


def everything(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in the OpenAPI document."""
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from everything(inner)


def test_every_route_is_documented(routes: list[BaseRoute]) -> None:
    assert undocumented_routes(routes) == []


def test_undocumented_route_is_detected() -> None:
    bare = FastAPI(openapi_url=None)

    @bare.get("/new")
    async def new() -> None:
        """Return a text, as a route whose response is not documented."""

    @bare.get("/silent")
    @describe_operation(response=str)
    async def silent() -> None: ...

    assert undocumented_routes(bare.routes)[-2:] == ["/new", "/silent"]
    # Undocumented routes are still in the document.
    assert build_document(bare.routes, has_keys=False)["paths"].keys() >= {"/new", "/silent"}


def test_all_references_in_the_document_resolve(described: dict[str, Any]) -> None:
    names = {part["$ref"] for part in everything(described) if "$ref" in part}
    assert names
    assert names <= {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}


def test_every_schema_is_valid(described: dict[str, Any]) -> None:
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_operations_have_ids_descriptions_and_path_parameters(described: dict[str, Any]) -> None:
    names = [operation["operationId"] for *_, operation in operations(described)]
    assert len(set(names)) == len(names) > 30
    for path, _, operation in operations(described):
        assert operation["summary"]
        in_path = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))


def test_documented_status_codes_are_the_codes_that_the_errors_define(described: dict[str, Any]) -> None:
    answers = described["paths"]["/v1/audio/speech"]["post"]["responses"]
    expected: list[type[SpeechError]] = [UnknownVoice, Overloaded, *EVERYWHERE]
    for kind in expected:
        assert f"`{kind.code}`" in answers[str(kind.http_status)]["description"]
    statuses = {str(kind.http_status) for kind in error_classes(SpeechError)}
    for *_, operation in operations(described):
        assert set(operation["responses"]) <= {"200", "204", *statuses}


def test_body_schema_lists_http_fields_only(described: dict[str, Any]) -> None:
    content = described["paths"]["/v1/audio/speech"]["post"]["requestBody"]["content"]["application/json"]
    name = content["schema"]["$ref"].rpartition("/")[2]
    body = described["components"]["schemas"][name]
    assert body["anyOf"] == [{"required": ["input"]}, {"required": ["inputs"]}]
    assert {"voice", "instructions", "response_format", "seed"} <= body["properties"].keys()
    assert not {"type", "context_id", "frames"} & body["properties"].keys()
    assert content["example"]["input"]


def test_authentication_is_documented_if_the_server_requires_keys() -> None:
    closed = build_document(app(api_keys="k").routes, has_keys=True)
    assert {} not in closed["security"]
    assert closed["paths"]["/ready"]["get"]["security"] == []
    assert "security" not in closed["paths"]["/v1/models"]["get"]


class Tags(HTMLParser):
    """HTML parser that records unclosed tags, IDs and link targets."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert not {"src", "onclick"} & attributes.keys()
        if tag not in VOID_TAGS:
            self.open.append(tag)
        self.ids += [attributes["id"]] if attributes.get("id") else []
        self.links |= {attributes["href"]} if attributes.get("href") else set()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_api_page_is_complete_and_requests_no_other_origin(described: dict[str, Any]) -> None:
    tags = Tags()
    tags.feed(page(described))
    assert not tags.open
    assert len(set(tags.ids)) == len(tags.ids)
    assert {link for link in tags.links if not link.startswith("#")} == {"openapi.json"}
    assert {link[1:] for link in tags.links if link.startswith("#")} <= set(tags.ids)
    assert {operation["operationId"] for *_, operation in operations(described)} <= set(tags.ids)


@pytest.mark.parametrize(
    ("path", "kind"), [("/openapi.json", "application/json"), ("/openapi", "text/html"), ("/docs", "text/html")]
)
async def test_document_and_page_are_served(path: str, kind: str) -> None:
    transport = httpx.ASGITransport(app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    assert "Voicewright runtime" in answer.text


async def test_openapi_document_is_built_off_the_event_loop() -> None:
    transport = httpx.ASGITransport(app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await client.get("/nothing")
        began = time.thread_time()
        assert (await client.get("/openapi")).status_code == 200
    assert time.thread_time() - began < 0.05
