"""Tests for voices in the Library: search, edit, export, import, delete, undo and use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from runtime.voices.voice_file import read_voice, write_voice
from tests.browser.conftest import SCREENSHOTS
from tests.browser.steps import await_end, await_sound, enter, expect_speaker, wav
from tests.support.app import App
from tests.support.signals import voice
from tests.support.voices import create_voice

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

VOICES = "/v1/audio/voices"
CONSENT = "Carla agrees."


@pytest.fixture
def client(app: App) -> Iterator[httpx.Client]:
    """Yield an HTTP client of the studio, and delete all stored voices at the end."""
    with httpx.Client(base_url=app.url, trust_env=False, timeout=30) as client:
        yield client
        for voice in client.get(VOICES).json()["data"]:
            client.delete(f"{VOICES}/{voice['id']}")


@pytest.fixture
def keep(client: httpx.Client) -> Callable[..., dict[str, Any]]:
    def keep(name: str, **fields: str) -> dict[str, Any]:
        data = {"name": name, "consent": CONSENT, "ref_text": "A few words that could be said here.", **fields}
        answer = client.post(VOICES, data=data, files={"audio_sample": wav(4.0)["buffer"]})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    return keep


def silence(page: Page) -> None:
    """Stop playback if it has not ended yet."""
    page.keyboard.press("Escape")
    await_end(page)


def names(page: Page) -> Locator:
    return page.locator("#vw-voices-list .vw-voice-name")


def row(page: Page, voice: dict[str, Any]) -> Locator:
    return page.locator(f"#vw-voices-list [data-voice='{voice['id']}']")


def opened(page: Page, voice: dict[str, Any]) -> Locator:
    """Open the Library, expand the details of a voice, and return the row of the voice."""
    enter(page, "library")
    found = row(page, voice)
    found.locator(".vw-voice-open").click()
    expect(found.locator(".vw-voice-more")).to_be_visible()
    return found


@pytest.mark.quick
def test_voices_can_be_searched_and_edited(
    studio: Page, client: httpx.Client, keep: Callable[..., dict[str, Any]]
) -> None:
    provenance = json.dumps({"source": "design", "model": "demo-voice", "seed": "7"})
    clara = keep("Carla", tags="warm", speaker_description="low and close", provenance=provenance)
    keep("Bert")
    found = opened(studio, clara)
    expect(names(studio)).to_have_text(["Bert", "Carla"])
    facts = found.locator(".vw-voice-facts").inner_text()
    for said in (CONSENT, "demo-voice", "A description", "A few words that could be said here."):
        assert said in facts
    studio.screenshot(path=SCREENSHOTS / "library-voices.png", full_page=True)
    for words, left in [("WARM close", ["Carla"]), ("bert", ["Bert"]), ("nobody", []), ("", ["Bert", "Carla"])]:
        studio.fill("#vw-voices-search", words)
        expect(names(studio)).to_have_text(left)
        expect(studio.locator("#vw-voices-empty")).to_be_visible(visible=not left)
    found.locator("[data-field=tags]").fill("radio, night，warm")
    found.locator("[data-field=description]").fill("bright")
    found.locator("[data-field=name]").fill("Zoë")
    found.locator("[data-field=name]").press("Tab")
    expect(found.locator(".vw-voice-name")).to_have_text("Zoë")
    stored = client.get(f"{VOICES}/{clara['id']}").json()
    assert (stored["name"], stored["description"], stored["tags"]) == ("Zoë", "bright", ["radio", "night", "warm"])


def test_error_for_a_refused_name_is_shown_below_its_field(studio: Page, keep: Callable[..., dict[str, Any]]) -> None:
    keep("Bert")
    studio.set_viewport_size({"width": 1366, "height": 768})
    found = opened(studio, keep("Clara Voice"))
    field = found.locator("[data-field=name]")
    field.fill("bert")
    field.press("Enter")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description("Another voice has that name; choose another or delete that one.")
    error_text = found.get_by_text("Another voice has that name")
    expect(error_text).to_be_in_viewport(ratio=1)
    said, around = error_text.bounding_box(), field.bounding_box()
    assert said
    assert around
    assert 0 <= said["y"] - (around["y"] + around["height"]) <= 8
    found.locator("[data-field=tags]").fill("radio")
    found.locator("[data-field=tags]").press("Tab")
    expect(found.locator("small")).to_contain_text("#radio")
    expect(field).to_have_value("bert")  # Loading the list again does not change the dialog.
    field.fill("Berta")
    expect(field).to_have_attribute("aria-invalid", "false")
    expect(error_text).to_have_count(0)
    field.press("Enter")
    expect(found.locator(".vw-voice-name")).to_have_text("Berta")


def test_voice_without_a_recording_cannot_be_played(studio: Page, keep: Callable[..., dict[str, Any]]) -> None:
    def without_recording(route: Route) -> None:
        answer = route.fetch()
        voices = answer.json()["data"]
        route.fulfill(response=answer, json={"data": [{**voice, "seconds": 0.0} for voice in voices]})

    studio.route(f"**{VOICES}", without_recording)
    found = opened(studio, keep("Carla", speaker_description="low and close"))
    expect(found.locator(".vw-voice-play")).to_be_disabled()
    expect(found.locator("small")).to_have_text("low and close")


def test_deleted_voice_can_be_restored(studio: Page, client: httpx.Client, keep: Callable[..., dict[str, Any]]) -> None:
    clara = keep("Carla")
    opened(studio, clara).locator("[data-do=remove]").click()
    expect(row(studio, clara)).to_have_count(0)
    assert client.get(VOICES).json()["data"] == []
    studio.locator(".vw-toast button", has_text="Undo").click()
    expect(row(studio, clara)).to_have_count(1)
    (back,) = client.get(VOICES).json()["data"]
    assert (back["id"], back["name"], back["consent"]) == (clara["id"], "Carla", CONSENT)


def test_deleted_voice_is_restored_or_deleted_permanently_after_a_reload(
    studio: Page, client: httpx.Client, keep: Callable[..., dict[str, Any]]
) -> None:
    clara, bert = keep("Carla"), keep("Bert")
    for stored in (clara, bert):
        client.delete(f"/studio/voices/{stored['id']}")
    studio.reload()
    enter(studio, "library")
    deleted = studio.locator("#vw-voices-bin li")
    expect(deleted).to_have_count(2)
    expect(deleted.nth(1)).to_contain_text("The voice Carla is in the bin, deleted for good after 24 h.")
    studio.screenshot(path=SCREENSHOTS / "library-voice-bin.png")
    deleted.nth(1).get_by_role("button", name="Restore").click()
    expect(row(studio, clara)).to_have_count(1)
    expect(deleted).to_have_count(1)
    deleted.get_by_role("button", name="Delete now").click()
    studio.get_by_role("dialog", name="Delete Bert for good?").get_by_role("button", name="Delete for good").click()
    expect(deleted).to_have_count(0)
    expect(studio.locator(".vw-toast", has_text="Bert was deleted for good.")).to_be_visible()
    assert [voice["name"] for voice in client.get(VOICES).json()["data"]] == ["Carla"]
    assert client.post(f"/studio/voices/{bert['id']}/restore").status_code == 404
    opened(studio, clara).locator("[data-do=remove]").click()
    expect(deleted).to_have_count(1)


def test_focus_moves_to_the_next_voice_after_a_deletion(studio: Page, keep: Callable[..., dict[str, Any]]) -> None:
    clara, bert = keep("Carla"), keep("Bert")
    rows = [row(studio, one) for one in (clara, bert)]
    opened(studio, clara).locator("[data-do=remove]").press("Enter")
    expect(rows[0]).to_have_count(0)
    expect(rows[1].locator(".vw-voice-open")).to_be_focused()


def test_undo_is_not_offered_for_a_voice_that_has_left_the_bin(
    studio: Page, keep: Callable[..., dict[str, Any]]
) -> None:
    clara = keep("Carla")
    in_bin, undo = studio.locator("#vw-voices-bin li"), studio.locator(".vw-toast button", has_text="Undo")
    opened(studio, clara).locator("[data-do=remove]").click()
    expect(undo).to_be_visible()
    in_bin.get_by_role("button", name="Restore").click()
    expect(row(studio, clara)).to_have_count(1)
    expect(undo).to_have_count(0)
    row(studio, clara).locator("[data-do=remove]").click()
    in_bin.get_by_role("button", name="Delete now").click()
    studio.get_by_role("dialog", name="Delete Carla for good?").get_by_role("button", name="Delete for good").click()
    expect(studio.locator(".vw-toast", has_text="Carla was deleted for good.")).to_be_visible()
    expect(undo).to_have_count(0)


def test_voice_can_be_exported_and_imported_as_a_file(
    studio: Page, client: httpx.Client, keep: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    clara = keep("Carla", tags="warm")
    found = opened(studio, clara)
    with studio.expect_download() as download:
        found.locator("a").click()
    file = tmp_path / "clara.voice"
    download.value.save_as(file)
    before = read_voice(file.read_bytes())
    client.delete(f"{VOICES}/{clara['id']}")
    (tmp_path / "poem.voice").write_bytes(b"roses are red")
    (tmp_path / "poem.txt").write_text("violets are blue")
    studio.set_input_files("#vw-voices-file", [file, tmp_path / "poem.voice", tmp_path / "poem.txt"])
    expect(studio.locator("#vw-voices-error")).to_contain_text("poem.voice: The voice file cannot be used")
    expect(studio.locator("#vw-voices-error")).to_contain_text("poem.txt: This is not a voice file")
    expect(studio.locator(".vw-toast")).to_have_text("1 voice imported.")
    expect(row(studio, clara)).to_have_count(1)
    after = read_voice(client.get(f"{VOICES}/{clara['id']}/file").content)
    assert (after.id, after.name, after.tags, after.consent) == (before.id, before.name, before.tags, before.consent)
    assert (after.reference == before.reference).all()


def test_import_of_a_voice_file_without_consent_asks_for_consent(
    studio: Page, client: httpx.Client, tmp_path: Path
) -> None:
    sound = (voice(3.0, 4) * 32767).astype("int16")
    file = tmp_path / "stranger.voice"
    file.write_bytes(write_voice(create_voice("Stranger", consent=None, reference=sound, prompts={})))
    enter(studio, "library")
    dialog = studio.locator("#vw-voices-consent")
    studio.set_input_files("#vw-voices-file", file)
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("stranger.voice")
    assert dialog.locator("[value=yes]").is_disabled()
    studio.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert client.get(VOICES).json()["data"] == []
    studio.set_input_files("#vw-voices-file", file)
    dialog.locator("input").check()
    dialog.locator("[value=yes]").click()
    expect(studio.locator("#vw-voices-list .vw-voice-name")).to_have_text("Stranger")
    assert "agrees" in client.get(f"{VOICES}/stranger").json()["consent"]


def test_stored_voice_can_be_played_and_used_to_speak(studio: Page, keep: Callable[..., dict[str, Any]]) -> None:
    clara = keep("Carla")
    found = opened(studio, clara)
    found.locator(".vw-voice-play").click()
    expect(studio.locator("#vw-caption")).to_have_text("Carla")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    silence(studio)
    found.locator("[data-do=speak]").click()
    expect(studio.locator("#vw-room-speakers")).to_be_visible()
    expect_speaker(studio, clara["id"])
    studio.click("#vw-speak")
    await_sound(studio)
    silence(studio)


def test_voice_recording_that_cannot_be_played_is_reported(studio: Page, keep: Callable[..., dict[str, Any]]) -> None:
    carla = keep("Carla")
    studio.route("**/v1/audio/voices/*/audio", lambda route: route.fulfill(body=b"no sound"))
    found = opened(studio, carla)
    found.locator(".vw-voice-play").click()
    error_text = "This browser cannot play the recording of Carla."
    expect(found.locator(".vw-voice-error")).to_have_text(error_text)
    enter(studio, "clone")
    label = studio.locator("label[for=vw-clone-voice]")
    expect(label).to_have_text("Voice")
    assert label.evaluate("(label) => label.offsetWidth") > 10, "it is seen what the choice beside it is of"
    studio.select_option("#vw-clone-voice", carla["id"])
    studio.click("#vw-clone-stored-play")
    expect(studio.locator(".vw-toast")).to_have_text(error_text)


def test_error_of_the_voice_list_disappears_once_the_list_loads(
    studio: Page, keep: Callable[..., dict[str, Any]]
) -> None:
    keep("Carla")
    said = {"error": {"code": "runtime_away", "message": "The connection to the runtime was lost."}}
    studio.route(f"**{VOICES}", lambda route: route.fulfill(status=503, json=said))
    enter(studio, "library")
    expect(studio.locator("#vw-voices-error")).to_contain_text("lost")
    studio.unroute(f"**{VOICES}")
    enter(studio, "speakers")
    enter(studio, "library")
    expect(names(studio)).to_have_text(["Carla"])
    expect(studio.locator("#vw-voices-error")).to_be_empty()


def test_imported_voice_with_a_used_name_can_be_saved_under_another_name(
    studio: Page, client: httpx.Client, keep: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    keep("Peter")
    file = tmp_path / "Peter.voice"
    sound = (voice(3.0, 4) * 32767).astype("int16")
    file.write_bytes(write_voice(create_voice("Peter", reference=sound, prompts={})))
    enter(studio, "library")
    expect(names(studio)).to_have_text(["Peter"])
    studio.set_input_files("#vw-voices-file", file)
    expect(names(studio)).to_have_text(["Peter", "Peter 2"])
    expect(studio.locator("#vw-voices-error")).to_be_empty()
    toast = studio.locator(".vw-toast", has_text="Imported as “Peter 2”")
    toast.get_by_role("button", name="Rename").click()
    field = studio.locator("#vw-voices-list > li", has_text="Peter 2").locator("[data-field=name]")
    expect(field).to_be_focused()
    studio.keyboard.type("Petra")
    studio.keyboard.press("Tab")
    expect(names(studio)).to_have_text(["Peter", "Petra"])


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=lambda size: str(size[0]))
def test_transcript_and_consent_to_blends_of_a_clone_can_be_corrected(
    studio: Page, client: httpx.Client, keep: Callable[..., dict[str, Any]], size: tuple[int, int]
) -> None:
    carla = keep("Carla", provenance=json.dumps({"source": "recording", "blend": "no"}))
    designed = keep("Drawn", provenance=json.dumps({"source": "design"}))
    studio.set_viewport_size({"width": size[0], "height": size[1]})
    enter(studio, "library")
    studio.evaluate("document.querySelector('.vw-library-turn [data-half=voices]').click()")
    row(studio, designed).locator(".vw-voice-open").click()
    expect(row(studio, designed).locator("[data-field=transcript]")).to_be_hidden()
    row(studio, designed).locator(".vw-voice-open").click()
    found = row(studio, carla)
    found.locator(".vw-voice-open").click()
    transcript, blends = found.locator("[data-field=transcript]"), found.locator("[data-field=allows_blends]")
    expect(transcript).to_have_value("A few words that could be said here.")
    expect(blends).not_to_be_checked()
    transcript.fill("Other words that could be said here.")
    transcript.press("Tab")
    blends.check()
    expect(found.locator(".vw-voice-facts")).to_contain_text("yes")
    studio.screenshot(path=SCREENSHOTS / f"library-clone-{size[0]}.png")
    stored = client.get(f"{VOICES}/{carla['id']}").json()
    assert stored["transcript"] == "Other words that could be said here."
    assert (stored["consent"], stored["provenance"]) == (CONSENT, {"source": "recording", "blend": "yes"})
    transcript.fill("Nothing like it. " * 40)
    transcript.press("Tab")
    expect(transcript).to_have_attribute("aria-invalid", "true")
    expect(found.locator(".vw-voice-recorded .vw-error").first).to_contain_text("does not match the recording")


# --- Tests of a narrow window.


def test_voices_are_reached_with_one_tap_on_a_phone(studio: Page, keep: Callable[..., dict[str, Any]]) -> None:
    keep("Carla")
    page = studio
    enter(page, "library")
    page.set_viewport_size({"width": 360, "height": 780})
    turns = page.locator(".vw-library-turn button")
    takes, voices = page.locator("#vw-library-takes"), page.locator("#vw-library-voices")
    heads = page.locator("#vw-room-library h2:not(dialog h2)")
    expect(takes).to_be_visible()
    seen = "(heads) => heads.map(({ offsetWidth }) => offsetWidth > 1)"
    assert heads.evaluate_all(seen) == [False, False], "the pressed button says it"
    # The heading is still available for screen readers.
    expect(page.get_by_role("heading", name="Takes", exact=True)).to_be_attached()
    expect(voices).to_be_hidden()
    turns.filter(has_text="Voices").click()
    expect(voices).to_be_in_viewport()
    expect(takes).to_be_hidden()
    expect(turns.filter(has_text="Voices")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.querySelector('.vw-rooms').scrollWidth") <= 360
    page.reload(wait_until="domcontentloaded")
    expect(names(page)).to_have_text(["Carla"])
    expect(voices).to_be_in_viewport()
    page.set_viewport_size({"width": 1366, "height": 768})
    expect(takes).to_be_visible()
    expect(voices).to_be_visible()
    expect(turns.first).to_be_hidden()
    assert heads.evaluate_all(seen) == [True, True]
