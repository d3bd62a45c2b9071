"""Test of the canary (periodic test request) for checkpoints with several modes."""

from __future__ import annotations

import logging

import pytest

from runtime.engine.engine import Engine
from runtime.server.health.canary import Canary, CanaryOutcome
from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Settings


async def test_canary_is_reproducible_if_modes_share_a_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    """In the studio, the embedded voice serves all modes if there is no published checkpoint."""
    models = tuple(f"{mode}={DEMO_CHECKPOINT}" for mode in ("voice_design", "base"))
    engine = Engine.open(Settings(models=models, engine=EngineSettings(device="cpu", max_slots=1, max_model_len=512)))
    assert len({card.fingerprint for card in engine.cards}) == 1
    engine.start()
    canary = Canary(engine)
    try:
        with caplog.at_level(logging.INFO, "runtime"):
            assert [await canary.run_round() for _ in range(2)] == [CanaryOutcome.SAME] * 2
        assert "request" not in caplog.text  # The canary is not logged like a client's request.
    finally:
        engine.close()
