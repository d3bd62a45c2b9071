"""Tests for the revision numbers with which pages notice changes of other devices."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from studio.visitors import revisions
from studio.visitors.revisions import RevisionCounter, Revisions
from studio.visitors.visitors import Visitors
from tests.support.visiting import VISITORS, header_of

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def client_of(visitors: Visitors) -> TestClient:
    numbers = Revisions(visitors)

    async def read(request: Request) -> Response:
        return JSONResponse(numbers.read(request))

    async def respond(request: Request) -> Response:
        return Response(status_code=int(request.query_params.get("status", "200")))

    app = Starlette(routes=[Route("/studio/revision", read), Route("/{path:path}", respond, methods=METHODS)])
    app.add_middleware(RevisionCounter, revisions=numbers)
    return TestClient(app)


@pytest.mark.parametrize(
    ("request_line", "changed"),
    [
        ("POST /v1/audio/voices", {"voices"}),
        ("PATCH /v1/audio/voices/1", {"voices"}),
        ("DELETE /studio/voices/1", {"voices", "takes"}),
        ("POST /studio/takes/1/voice", {"voices", "takes"}),
        ("POST /studio/takes", {"takes"}),
        ("PUT /studio/scripts/1", {"scripts"}),
        ("PUT /studio/pronunciation", {"pronunciation"}),
        ("POST /v1/audio/voices/check", set()),
        ("POST /studio/pronunciation/said", set()),
        ("POST /v1/audio/speech", set()),
        ("GET /studio/takes", set()),
        ("DELETE /studio/takes/1?status=404", set()),
    ],
)
def test_successful_change_of_a_list_changes_its_revision_number(request_line: str, changed: set[str]) -> None:
    client = client_of(Visitors(has_separate_histories=False))
    before = client.get("/studio/revision").json()
    assert client.get("/studio/revision").json() == before
    client.request(*request_line.split())
    after = client.get("/studio/revision").json()
    assert {name for name in before if after[name] != before[name]} == changed


def test_revision_numbers_of_visitors_are_separate_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "MAX_NUMBERS", 2)
    client = client_of(VISITORS)
    anna, bert = header_of("a"), header_of("b")
    before = client.get("/studio/revision").json()
    client.post("/studio/takes", headers=anna)
    assert client.get("/studio/revision", headers=bert).json() == before
    changed = client.get("/studio/revision", headers=anna).json()
    assert changed["takes"] > before["takes"]
    client.post("/studio/takes", headers=bert)
    client.put("/studio/scripts/1", headers=bert)
    forgotten = client.get("/studio/revision", headers=anna).json()
    assert forgotten != changed, "a page loads its lists again if its number was forgotten"


def test_revision_numbers_after_a_restart_differ() -> None:
    first, second = (client_of(VISITORS) for _ in range(2))
    first.post("/studio/takes")
    assert first.get("/studio/revision").json() != second.get("/studio/revision").json()
