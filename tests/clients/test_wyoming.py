"""Test of the Wyoming server (Home Assistant's voice protocol) with an unmodified client."""

from __future__ import annotations

from tests.clients.conftest import Client
from tests.support.runtime_server import RunningServer

HALF_A_SECOND = 12_000


def test_home_assistant_wyoming_client_works_unmodified(client: Client, server: RunningServer) -> None:
    result = client("wyoming_client", server.load()["ports"]["wyoming"])
    described = result["described"]
    assert described["streams"] is True
    assert described["voices"]["clara"] == ["en"]
    assert (described["made_by"], described["pong"]) == (["demo-voice"], "there?")

    for name in ("whole", "by_language", "in_pieces"):
        ends = ["synthesize-stopped"] if name == "in_pieces" else []
        assert result[name]["kinds"] == ["audio-start", "audio-stop", *ends], name
        assert result[name]["format"] == [24_000, 2, 1], name
        assert result[name]["samples"] > HALF_A_SECOND, name
        assert result[name]["rms"] > 300, name

    for name, code in (("nobody", "unknown_voice"), ("dutch", "unsupported_language")):
        assert result[name]["kinds"] == ["error"], name
        assert result[name]["error"][0] == code, name
        assert result[name]["error"][1].endswith("."), name
