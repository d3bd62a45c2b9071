"""What is told of the checkpoints that share a card."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks import small_cards
from benchmarks.driver import DriveResult
from benchmarks.figures import Outcome, Trace
from benchmarks.plan import Plan
from runtime.request import Mode
from runtime.server.descriptions import model_entry
from tests.support.scripted_engine import CARD
from tests.unit.studio.serving import served


class Noting:
    """Clients that only note to what mode they were to speak, and how many."""

    def __init__(self) -> None:
        self.came: list[tuple[Mode, int]] = []

    async def drive(self, plan: Plan) -> DriveResult:
        self.came.append((plan.mode, plan.clients))
        trace = Trace(0, wanted_bytes=2, sent_ns=1, end_ns=3, chunks=[(2, 2)], outcome=Outcome.DONE)
        return DriveResult([trace])


def test_slots_are_told_by_checkpoint_and_as_many_speak_as_the_first_has() -> None:
    modes = {Mode.BASE: 9, Mode.CUSTOM_VOICE: 12}
    cards = [model_entry(replace(CARD, modes=(mode,), slots=slots)) for mode, slots in modes.items()]
    clients = Noting()

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"data": cards})

    async def told() -> dict[str, Any]:
        async with served([Route("/v1/models", models)]) as address:
            return await small_cards.spoken(f"http://{address}", clients)

    assert asyncio.run(told())["slots"] == "9 + 12"
    assert clients.came == [(Mode.BASE, 1), (Mode.BASE, 9)]
