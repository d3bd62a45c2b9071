"""Tests for stored pronunciation dictionaries on the routes of all APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from runtime.settings import ServerSettings
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import same_sound, speak_text
from tests.wire.test_cartesia import said, sound_of
from tests.wire.test_elevenlabs import MANY, ONE, post
from tests.wire.test_elevenlabs import sound_of as eleven_sound
from tests.wire.test_tags import CAST, eleven, native, of_omni, openai

OURS = "/v1/audio/pronunciations"
ELEVEN = "/v1/pronunciation-dictionaries"
CARTESIA = "/pronunciation-dicts"
WORDS = [{"word": "Nguyen", "say_as": "Win"}]
ASKED = "Ask Nguyen."


@pytest.fixture
def http(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Yield an HTTP client with its own owner name, for which no dictionaries are stored."""
    owner = {"X-Voice-Owner": request.node.name}
    with httpx.Client(base_url=server.http, timeout=30, headers=owner) as client:
        yield client


def refused(reply: httpx.Response, status: int, code: str, param: str | None = None) -> str:
    """Check status, code and parameter of a refusal in any API, and return its message."""
    body = reply.json()
    problem = body.get("error") or body.get("detail") or body
    error_code = next(problem[name] for name in ("code", "status", "error_code") if name in problem)
    assert (reply.status_code, error_code, problem["param"]) == (status, code, param)
    return str(problem["message"])


def test_native_routes_create_change_and_delete_dictionaries(http: httpx.Client) -> None:
    assert http.get(OURS).json() == {"object": "list", "data": []}
    made = http.post(OURS, json={"name": "Names", "pronunciations": WORDS}).raise_for_status().json()
    assert made["pronunciations"] == [{**WORDS[0], "case_sensitive": False}]
    assert (made["object"], made["words"], made["yours"], made["archived"]) == (
        "audio.pronunciation_dictionary",
        1,
        True,
        False,
    )
    place = f"{OURS}/{made['id']}"
    (listed,) = http.get(OURS).json()["data"]
    assert {**listed, "pronunciations": made["pronunciations"]} == made == http.get(place).json()
    changed = http.patch(place, json={"description": "People."}).json()
    assert (changed["version"], changed["description"]) == (made["version"], "People.")
    changed = http.patch(place, json={"pronunciations": []}).json()
    assert changed["version"] != made["version"]
    assert http.delete(place).json() == {
        "id": made["id"],
        "object": "audio.pronunciation_dictionary.deleted",
        "deleted": True,
    }
    for reply in (http.get(place), http.patch(place, json={"name": "x"}), http.delete(place), http.get(f"{OURS}/../x")):
        assert reply.status_code == 404
    refused(http.get(place), 404, "pronunciation_dictionary_not_found")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "Names", "description": "x" * 501}, "description"),
        ({"name": "Names", "pronunciations": WORDS * 201}, "pronunciations"),
        ({"name": "Names", "pronunciations": [{"word": " ", "say_as": "x"}]}, "pronunciations.0.word"),
        (
            {"name": "Names", "pronunciations": [{"word": "x", "say_as": "x", "case_sensitive": "no"}]},
            "pronunciations.0.case_sensitive",
        ),
    ],
)
def test_invalid_dictionary_is_refused(server: RunningServer, body: dict[str, Any], param: str) -> None:
    refused(httpx.post(server.http + OURS, json=body, timeout=30), 400, "invalid_config", param)


def test_invalid_list_entry_error_contains_the_entry(server: RunningServer) -> None:
    body = {"name": "Names", "pronunciations": [*WORDS, {"word": "x"}]}
    sentence = refused(
        httpx.post(server.http + OURS, json=body, timeout=30), 400, "invalid_config", "pronunciations.1.say_as"
    )
    assert sentence == "pronunciations.1.say_as is not valid: it is required and was not given."


def test_elevenlabs_routes_create_change_and_download_dictionaries(http: httpx.Client) -> None:
    rule = {"type": "alias", "string_to_replace": "Nguyen", "alias": "Win"}
    added = http.post(
        f"{ELEVEN}/add-from-rules", json={"name": "Names", "rules": [rule], "description": "Ours."}
    ).json()
    assert (added["name"], added["description"], added["version_rules_num"]) == ("Names", "Ours.", 1)
    place = f"{ELEVEN}/{added['id']}"
    found = http.get(place).json()
    assert found["rules"] == [{**rule, "case_sensitive": True, "word_boundaries": True}]
    assert (found["latest_version_id"], found["permission_on_resource"]) == (added["version_id"], "admin")

    other = {**rule, "alias": "Nwin", "case_sensitive": False}
    more = http.post(f"{place}/add-rules", json={"rules": [other, {**rule, "string_to_replace": "US"}]}).json()
    assert (more["version_rules_num"], more["version_id"] != added["version_id"]) == (2, True)
    assert [one["alias"] for one in http.get(place).json()["rules"]] == ["Nwin", "Win"]
    less = http.post(f"{place}/remove-rules", json={"rule_strings": ["US", "never was"]}).json()
    assert less["version_rules_num"] == 1
    again = http.post(f"{place}/remove-rules", json={"rule_strings": ["US"]}).json()
    assert again["version_id"] == less["version_id"]  # The rules have not changed.
    assert http.post(f"{place}/set-rules", json={"rules": [rule]}).json()["version_rules_num"] == 1

    lexicon = http.get(f"{place}/{more['version_id']}/download")
    assert lexicon.headers["content-type"].startswith("application/pls+xml")
    assert "<alias>Nwin</alias>" in lexicon.text
    refused(http.get(f"{place}/{'0' * 32}/download"), 404, "pronunciation_dictionary_not_found")

    form = {"name": "From a file", "description": "PLS"}
    phonemes = b"<lexeme><grapheme>tomato</grapheme><phoneme>t</phoneme></lexeme></lexicon>"
    content = lexicon.content.replace(b"</lexicon>", phonemes)
    made = http.post(f"{ELEVEN}/add-from-file", data=form, files={"file": content}).json()
    assert (made["version_rules_num"], made["description"]) == (2, "PLS")
    assert "tomato" in made["notes"][0]
    listed = http.get(ELEVEN, params={"page_size": 1}).json()
    assert [one["name"] for one in listed["pronunciation_dictionaries"]] == ["From a file"]
    assert listed["has_more"]
    page = http.get(ELEVEN, params={"cursor": listed["next_cursor"], "page_size": 1}).json()
    assert [one["name"] for one in page["pronunciation_dictionaries"]] == ["Names"]
    assert (page["has_more"], page["next_cursor"]) == (False, None)
    by_name = http.get(ELEVEN, params={"sort": "name", "sort_direction": "DESCENDING"}).json()
    assert [one["name"] for one in by_name["pronunciation_dictionaries"]] == ["Names", "From a file"]

    changed = http.patch(place, json={"archived": True, "name": "Old names"}).json()
    assert (changed["name"], changed["archived_time_unix"] is None) == ("Old names", False)

    def names(**query: bool) -> list[str]:
        listed = http.get(ELEVEN, params=query).json()["pronunciation_dictionaries"]
        return [one["name"] for one in listed]

    assert names() == ["From a file"]
    assert names(include_archived=True) == ["From a file", "Old names"]


@pytest.mark.parametrize(
    ("route", "body", "param", "reason"),
    [
        (
            "add-from-rules",
            {"name": "x", "rules": [{"type": "phoneme", "string_to_replace": "x", "phoneme": "y", "alphabet": "ipa"}]},
            "rules.0",
            "phonemes are not supported",
        ),
        (
            "add-from-rules",
            {"name": "x", "rules": [{"string_to_replace": "x", "alias": "y", "word_boundaries": False}]},
            "rules.0",
            "only whole words are replaced",
        ),
        ("add-from-rules", {"rules": []}, "name", "it is required and was not given"),
        (
            "add-from-rules",
            {"name": "x", "rules": [{"string_to_replace": "", "alias": "y"}]},
            "rules.0.string_to_replace",
            "characters",
        ),
        ("add-from-file", {"name": "x"}, "body", "multipart"),
    ],
)
def test_invalid_pronunciation_rules_are_refused(
    server: RunningServer, route: str, body: dict[str, Any], param: str, reason: str
) -> None:
    reply = httpx.post(f"{server.http}{ELEVEN}/{route}", json=body, timeout=30)
    assert reason in refused(reply, 400, "invalid_config", param)


def test_invalid_forms_and_pages_are_refused(server: RunningServer) -> None:
    with httpx.Client(base_url=server.http, timeout=30) as http:
        add, file = f"{ELEVEN}/add-from-file", {"file": b"<lexicon/>"}
        assert "1 to 200 words" in refused(
            http.post(add, data={"name": "x"}, files=file), 400, "invalid_config", "file"
        )
        refused(http.post(add, files=file), 400, "invalid_config", "name")
        refused(http.post(add, data={"name": "x"}, files={"other": b""}), 400, "invalid_config", "file")
        long = {"name": "x", "description": "x" * 501}
        refused(http.post(add, data=long, files=file), 400, "invalid_config", "description")
        for query in (
            {"page_size": "0"},
            {"page_size": "00019999"},
            {"sort": "size"},
            {"sort_direction": "up"},
            {"include_archived": "maybe"},
        ):
            refused(http.get(ELEVEN, params=query), 400, "invalid_config", *query)
        refused(http.get(CARTESIA, params={"limit": "many"}), 400, "invalid_config", "limit")
        refused(http.patch(f"{OURS}/{'0' * 32}", json={}), 400, "invalid_config")
        spelt = {"name": "x", "items": [{"text": "bayou", "alias": "<<ˈ|b|ɑ|j|u>>"}]}
        assert "phonemes" in refused(http.post(CARTESIA, json=spelt), 400, "invalid_config", "items.0.alias")


def test_cartesia_routes_create_change_and_delete_dictionaries(http: httpx.Client) -> None:
    made = http.post(f"{CARTESIA}/", json={"name": "Names", "items": [{"text": "Nguyen", "alias": "Win"}]}).json()
    assert made["items"] == [{"text": "Nguyen", "alias": "Win", "case_sensitive": False}]
    place = f"{CARTESIA}/{made['id']}"
    assert http.get(place).json() == made
    empty = http.post(CARTESIA, json={"name": "Empty", "items": None}).json()
    assert empty["items"] == []
    page = http.get(f"{CARTESIA}/", params={"limit": 1}).json()
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([empty["id"]], True)
    page = http.get(CARTESIA, params={"starting_after": empty["id"]}).json()
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([made["id"]], False)
    page = http.get(CARTESIA, params={"ending_before": made["id"]}).json()
    assert [one["id"] for one in page["data"]] == [empty["id"]]
    item = {"text": "US", "alias": "you ess", "case_sensitive": True}
    changed = http.patch(place, json={"name": "Places", "items": [item]}).json()
    assert (changed["name"], changed["items"]) == ("Places", [item])
    assert http.patch(place, json={}).json() == changed
    gone = http.delete(place)
    assert (gone.status_code, gone.content) == (204, b"")
    refused(http.get(place), 404, "pronunciation_dictionary_not_found")


def test_dialects_share_one_library_per_owner(server: RunningServer) -> None:
    with httpx.Client(base_url=server.http, timeout=30) as http:
        common = http.post(OURS, json={"name": "Common", "pronunciations": WORDS}).json()
        try:
            check_owners(http, common["id"])
        finally:
            http.delete(f"{OURS}/{common['id']}").raise_for_status()


def check_owners(http: httpx.Client, common: str) -> None:
    anna, bert = {"X-Voice-Owner": "anna"}, {"X-Voice-Owner": "bert"}
    made = http.post(CARTESIA, json={"name": "Anna's"}, headers=anna).json()["id"]
    for path, key in ((OURS, "data"), (CARTESIA, "data"), (ELEVEN, "pronunciation_dictionaries")):

        def names(key: str = key, path: str = path, **owner: str) -> set[str]:
            return {one["name"] for one in http.get(path, headers=owner).json()[key]}

        assert (names(), names(**anna), names(**bert)) == ({"Common"}, {"Anna's", "Common"}, {"Common"}), path
    for place in (f"{OURS}/{made}", f"{CARTESIA}/{made}", f"{ELEVEN}/{made}"):
        refused(http.get(place, headers=bert), 404, "pronunciation_dictionary_not_found")
    refused(http.delete(f"{OURS}/{common}", headers=anna), 403, "pronunciation_dictionary_not_yours")
    assert http.get(f"{OURS}/{common}", headers=anna).json()["yours"] is False
    speech = {"input": ASKED, "response_format": "pcm", **CAST, "pronunciation_dictionaries": [made, common]}
    assert http.post("/v1/audio/speech", json=speech, headers=anna).status_code == 200
    missing = http.post("/v1/audio/speech", json=speech, headers=bert)
    refused(missing, 404, "pronunciation_dictionary_not_found", "pronunciation_dictionaries")
    for number in range(ServerSettings().owned_pronunciations - 1):
        http.post(OURS, json={"name": f"Number {number}"}, headers=anna).raise_for_status()
    too_many = http.post(OURS, json={"name": "One too many"}, headers=anna)
    refused(too_many, 409, "too_many_pronunciation_dictionaries")


def test_dictionary_routes_exist_on_both_ports(either: RunningServer) -> None:
    with httpx.Client(base_url=either.http, timeout=30) as http:
        for path in (OURS, ELEVEN, CARTESIA, f"{CARTESIA}/"):
            assert http.get(path).status_code == 200
            refused(http.get(f"{path.rstrip('/')}/{'0' * 32}"), 404, "pronunciation_dictionary_not_found")


# --- Tests of requests for speech.


@pytest.fixture(scope="module")
def kept(server: RunningServer) -> Iterator[str]:
    """Store a dictionary on the shared server, yield its ID, and delete the dictionary."""
    body = {"name": "Names", "pronunciations": WORDS}
    made = httpx.post(server.http + OURS, json=body, timeout=30).raise_for_status().json()
    yield made["id"]
    httpx.delete(f"{server.http}{OURS}/{made['id']}", timeout=30).raise_for_status()


@pytest.fixture(scope="module")
def win(server: RunningServer) -> bytes:
    return asyncio.run(speak_text(server.socket, "Ask Win.", **CAST)).pcm


def test_stored_dictionary_works_in_every_dialect(server: RunningServer, kept: str, win: bytes) -> None:
    named = {"pronunciation_dictionaries": [kept]}
    for heard in (
        native(server, ASKED, **named).pcm,
        openai(server, ASKED, **named),
        of_omni(server, ASKED, **named),
    ):
        assert same_sound(heard, win)
    pieces = native(server, ASKED, size=2, **named).pcm
    assert same_sound(pieces, native(server, "Ask Win.", size=2).pcm)
    assert same_sound(
        sound_of(asyncio.run(said(server, ASKED, pronunciation_dict_id=kept))),
        sound_of(asyncio.run(said(server, "Ask Win."))),
    )
    assert same_sound(bytes_of(server, ASKED, pronunciation_dict_id=kept), bytes_of(server, "Ask Win."))
    locators = [{"pronunciation_dictionary_id": kept}]
    heard = post(server, text=ASKED, pronunciation_dictionary_locators=locators).content
    assert same_sound(heard, post(server, text="Ask Win.").content)


def bytes_of(server: RunningServer, transcript: str, **fields: Any) -> bytes:
    """Generate speech with Cartesia's route POST /tts/bytes, and return the audio."""
    form = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
    body = {"transcript": transcript, "output_format": form, "seed": 1, "max_frames": 12, **fields}
    return httpx.post(server.http + "/tts/bytes", json=body, timeout=30).raise_for_status().content


def test_dictionary_version_in_a_request_is_used_even_if_a_newer_one_exists(server: RunningServer, kept: str) -> None:
    place = f"{server.http}{ELEVEN}/{kept}"
    version = httpx.get(place, timeout=30).json()["latest_version_id"]
    newer = httpx.post(
        f"{place}/set-rules", json={"rules": [{"string_to_replace": "Nguyen", "alias": "Other"}]}, timeout=30
    ).json()
    try:
        for version_id, said_as in ((version, "Ask Win."), (newer["version_id"], "Ask Other."), (None, "Ask Other.")):
            locators = [{"pronunciation_dictionary_id": kept, "version_id": version_id}]
            heard = post(server, text=ASKED, pronunciation_dictionary_locators=locators).content
            assert same_sound(heard, post(server, text=said_as).content)
    finally:
        httpx.post(f"{place}/set-rules", json={"rules": [{"string_to_replace": "Nguyen", "alias": "Win"}]}, timeout=30)


@pytest.mark.parametrize("kind", [ONE, MANY])
def test_elevenlabs_sockets_accept_pronunciation_dictionary_locators(
    server: RunningServer, kept: str, kind: str
) -> None:
    locators = [{"pronunciation_dictionary_id": kept, "version_id": None}]
    heard = eleven(server, kind, ASKED, pronunciation_dictionary_locators=locators)
    assert same_sound(eleven_sound(heard), eleven_sound(eleven(server, kind, "Ask Win.")))
    locators = [{"pronunciation_dictionary_id": "d", "version_id": "1"}]
    (error, *_) = eleven(server, kind, "Ask.", pronunciation_dictionary_locators=locators)
    assert error["error"] == "pronunciation_dictionary_not_found"
    assert error["param"] == "pronunciation_dictionary_locators"


def test_unknown_dictionary_is_refused_in_every_dialect(server: RunningServer) -> None:
    (error,) = asyncio.run(said(server, ASKED, pronunciation_dict_id="pdict_1"))
    assert (error["type"], error["error_code"]) == ("error", "pronunciation_dictionary_not_found")
    code = "pronunciation_dictionary_not_found"
    missing = {"pronunciation_dictionaries": ["0" * 32]}
    body = {"input": ASKED, **CAST, **missing}
    reply = httpx.post(server.http + "/v1/audio/speech", json=body, timeout=30)
    refused(reply, 404, code, "pronunciation_dictionaries")
    body["pronunciation_dictionaries"] = ["0" * 32] * 4
    reply = httpx.post(server.http + "/v1/audio/speech", json=body, timeout=30)
    refused(reply, 400, "invalid_config", "pronunciation_dictionaries")
    error = native(server, ASKED, **missing).end
    assert (error["code"], error["param"]) == (code, "pronunciation_dictionaries")
