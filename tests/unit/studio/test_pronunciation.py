"""Tests for pronunciation dictionaries over HTTP: storage, owners and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.keeping import serving, visitor_client
from tests.unit.studio.test_takes import refused

ROUTE = "/studio/pronunciation"
WORDS = [{"word": "Nguyen", "said": "Win"}, {"word": "重庆", "said": "崇庆"}]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(tmp_path / "data", visitors="each") as address, visitor_client(address) as client:
        yield client


def test_stored_pronunciation_list_is_returned_unchanged_to_its_owner_only(client: httpx.Client) -> None:
    assert client.get(ROUTE).json() == {"words": [], "updated_at": None}
    sent = client.put(ROUTE, json={"words": WORDS}).json()
    assert sent["words"] == WORDS
    assert client.get(ROUTE).json() == sent
    with visitor_client(str(client.base_url)) as other:
        assert other.get(ROUTE).json()["words"] == []
        assert other.post(f"{ROUTE}/said", json={"text": "Nguyen"}).json() == {"text": "Nguyen", "places": 0}


def test_preview_route_returns_the_spoken_text(client: httpx.Client) -> None:
    client.put(ROUTE, json={"words": WORDS}).raise_for_status()
    response = client.post(f"{ROUTE}/said", json={"text": "Nguyen was in 重庆市."}).json()
    assert response == {"text": "Win was in 崇庆市.", "places": 2}
    also = {"text": "[Nguyen] Nguyen was in 重庆.", "pronunciations": [{"word": "Nguyen", "say_as": "Noo-yen"}]}
    assert client.post(f"{ROUTE}/said", json=also).json() == {"text": "[Noo-yen] Noo-yen was in 崇庆.", "places": 3}
    too_many = {"text": "x", "pronunciations": also["pronunciations"] * 201}
    refused(client.post(f"{ROUTE}/said", json=too_many), 400, "invalid_config", "pronunciations")
    with httpx.Client(base_url=client.base_url, trust_env=False) as unknown:
        assert unknown.post(f"{ROUTE}/said", json=also).json()["text"] == "[Noo-yen] Noo-yen was in 重庆."
        assert unknown.post(f"{ROUTE}/said", json={"text": "Nguyen"}).json()["places"] == 0
        assert unknown.get(ROUTE).json()["words"] == []
        refused(unknown.put(ROUTE, json={"words": WORDS}), 401, "visitor_unknown")


def test_concurrent_edit_of_another_window_is_not_overwritten(client: httpx.Client) -> None:
    first = client.put(ROUTE, json={"words": WORDS[:1]}).json()
    second = client.put(ROUTE, json={"words": WORDS, "updated_at": first["updated_at"]}).json()
    late = client.put(ROUTE, json={"words": [], "updated_at": first["updated_at"]})
    refused(late, 409, "changed_meanwhile")
    refused(client.put(ROUTE, json={"words": [], "updated_at": 0}), 409, "changed_meanwhile")
    assert client.get(ROUTE).json() == second


@pytest.mark.parametrize(
    ("words", "param"),
    [
        ([{"word": "", "said": "x"}], "words.0.word"),
        ([{"word": "x", "said": "  "}], "words.0.said"),
        ([{"word": "x" * 81, "said": "x"}], "words.0.word"),
        ([{"word": "x", "said": "y" * 201}], "words.0.said"),
        ([{"word": "a\x00b", "said": "x"}], "words.0.word"),
        ([{"word": "a\nb", "said": "x"}], "words.0.word"),
        ([{"word": "a\u202eb", "said": "x", "more": 1}], "words.0.more"),
        ([{"word": "same", "said": "x"}, {"word": "same ", "said": "y"}], "words"),
        ([{"word": f"w{number}", "said": "x"} for number in range(501)], "words"),
    ],
)
def test_invalid_pronunciation_list_is_refused_with_the_position(
    client: httpx.Client, words: list[dict[str, str]], param: str
) -> None:
    refused(client.put(ROUTE, json={"words": words}), 400, "invalid_config", param)
    assert client.get(ROUTE).json()["words"] == []
