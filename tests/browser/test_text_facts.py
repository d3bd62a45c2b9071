"""Tests for the displayed length and language of a text, and its conversion to a script."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.script_steps import line, text_of, texts, voice_of
from tests.browser.steps import (
    PLAYED_MS,
    SHORT,
    change_model_cards,
    choose,
    enter,
    expect_speaker,
    prepare,
    reload_to_speak,
    speak_whole,
    speaker,
)
from tests.browser.test_page import complaints

pytestmark = pytest.mark.browser

SENTENCE = "The quick brown fox jumps over the lazy dog and goes on. "


def test_unsupported_language_is_warned_about_and_right_to_left_text_is_supported(studio: Page) -> None:
    tongue = studio.locator("#vw-text-tongue")
    expect(tongue).to_be_hidden()
    studio.fill("#vw-text", "مرحبا بالعالم، كيف حالك اليوم؟")
    expect(tongue).to_contain_text("Arabic")
    expect(tongue).to_contain_text("The small built-in voice speaks English")
    assert studio.evaluate("getComputedStyle(document.querySelector('#vw-text')).direction") == "rtl"
    studio.screenshot(path=SCREENSHOTS / "words-arabic.png")
    studio.fill("#vw-text", SHORT)
    expect(tongue).to_be_hidden()
    fields = "#vw textarea, #vw input[type=text]:not([inputmode]), #vw input[type=search]"
    assert (
        studio.eval_on_selector_all(fields, "all => all.filter((one) => one.dir !== 'auto').map((one) => one.id)") == []
    )


def test_long_text_is_counted_and_converted_to_a_script_with_one_click(studio: Page) -> None:
    count, button = studio.locator("#vw-text-count"), studio.locator("#vw-text-script")
    studio.fill("#vw-text", SHORT)
    expect(count).to_have_text("1 word · 3 characters · about 1 s")
    expect(button).to_be_hidden()
    choose(studio, "Clara")
    studio.fill("#vw-text", (SENTENCE * 6 + "\n\n") * 70)
    expect(count).to_contain_text("5,040 words")
    expect(count).to_contain_text("min")
    expect(count).to_contain_text("as a script")
    studio.screenshot(path=SCREENSHOTS / "words-long.png")
    expect_speaker(studio, "clara")
    button.click()
    expect(studio.locator("#vw-room-script")).to_be_visible()
    expect(studio.locator("#vw-script-lines > li")).to_have_count(70)
    assert " ".join(texts(studio)[:3]) == " ".join([(SENTENCE * 6).strip()] * 3)
    assert voice_of(studio, 70) == "custom_voice:clara"
    expect(studio.locator("#vw-script-saved")).to_have_text("Saved")
    enter(studio, "speakers")
    assert studio.input_value("#vw-text").startswith(SENTENCE), "the text is still there"


@pytest.mark.parametrize("repeats", [5, 7], ids=["one_take", "script"])
def test_character_count_and_buttons_of_a_long_text_share_a_row_at_1280_pixels(
    open_studio: OpenStudio, repeats: int
) -> None:
    page = open_studio(viewport={"width": 1280, "height": 860})
    page.fill("#vw-text", SENTENCE * 12 * repeats)
    expect(page.locator("#vw-text-script")).to_be_visible()
    count, ways = (page.locator(place).bounding_box() for place in ("#vw-text-count", ".vw-text-ways"))
    assert count
    assert ways
    assert ways["y"] <= count["y"] + count["height"] / 2 <= ways["y"] + ways["height"]


def test_text_above_the_limit_is_spoken_as_a_script_with_one_click(studio: Page) -> None:
    choose(studio, "Clara")
    long = "\n\n".join(f"Paragraph {n}. {SENTENCE * 2}" for n in range(40))
    studio.fill("#vw-text", long)
    expect(studio.locator("#vw-text-count")).to_have_text(re.compile("as a script$"))
    expect(studio.locator("#vw-text-count")).not_to_have_class(re.compile("vw-over"))
    studio.click("#vw-speak")
    expect(studio.locator("#vw-room-script")).to_be_visible()
    expect(studio.locator("#vw-script-lines > li")).to_have_count(40)
    expect(studio.locator("#vw-time")).not_to_have_text("0:00.0", timeout=PLAYED_MS)
    assert voice_of(studio, 40) == "custom_voice:clara"
    assert complaints(studio) == {}
    studio.click("#vw-stop")
    address = studio.url
    enter(studio, "speakers")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    assert studio.url == address, "the same script"
    studio.click("#vw-stop")
    enter(studio, "speakers")
    choose(studio, "Angus")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-stop")).to_be_enabled()
    assert studio.url != address, "another voice is another script"
    assert voice_of(studio, 40) == "custom_voice:angus"
    studio.click("#vw-stop")


def test_surrounding_white_space_does_not_count_towards_the_limit(studio: Page) -> None:
    count = studio.locator("#vw-text-count")
    choose(studio, "Clara")
    with studio.expect_websocket() as opened:
        reload_to_speak(studio)
    studio.fill("#vw-text", f"\n {'a' * 4097}\n\n")
    expect(count).to_contain_text("as a script")
    studio.fill("#vw-text", f"\n {'a' * 4096}\n\n")
    expect(count).not_to_contain_text("as a script")
    with opened.value.expect_event("framereceived", lambda frame: '"audio.start"' in str(frame)):
        studio.click("#vw-speak")
    assert complaints(studio) == {}


def test_character_count_near_the_limit_includes_all_text_that_is_sent(studio: Page) -> None:
    enter(studio, "design")
    studio.fill("#vw-text", f"[pause 1s] {'a' * 4090}")
    count = studio.locator("#vw-text-count")
    expect(count).to_contain_text("4,101 / 4,096")
    expect(count).to_have_class(re.compile("vw-over"))


def test_clone_that_skipped_text_is_reported_with_advice(studio: Page) -> None:
    heard = """async () => {
      const { Take } = await import(new URL('studio/js/player/take.js', document.baseURI));
      const take = new Take({ room: 'clone', mode: 'base', config: {}, text: %r, seed: 1 });
      take.append(new Int16Array(4800));
      Object.assign(take, { state: 'done', stopReason: 'eos' });
      return [take.isShort, take.seconds];
    }"""
    assert studio.evaluate(heard % SENTENCE) == [True, 0.2]

    def fail(socket: Any) -> None:
        runtime = socket.connect_to_server()
        socket.on_message(runtime.send)
        sent: list[int] = []

        def pass_on(message: str | bytes) -> None:
            """Forward the first audio message and the end message, and drop all messages between them."""
            if isinstance(message, bytes):
                if not sent:
                    sent.append(len(message))
                    socket.send(message[: 16 + 2 * 1920])
            else:
                socket.send(message)

        runtime.on_message(pass_on)

    studio.route_web_socket("**/v1/audio/speech/stream", fail)
    reload_to_speak(studio)
    prepare(studio, "clone")
    studio.fill("#vw-text", SENTENCE)
    studio.click("#vw-speak")
    said = studio.locator("#vw-stage [data-error-for=request]")
    expect(said).to_contain_text("Words are missing", timeout=120_000)
    expect(said).to_contain_text("Check that the transcript matches")
    studio.click("#vw-tab-speakers")
    assert complaints(studio) == {}


def test_style_unsupported_by_the_voice_is_left_out_with_a_note(studio: Page) -> None:
    change_model_cards(studio, takes_instruct=False)
    reload_to_speak(studio)
    studio.fill("#vw-text", "TOM: (warmly) Hello.\n\nTOM: Good morning. " + SENTENCE * 12)
    studio.click("#vw-text-script")
    expect(text_of(studio, 1)).to_have_value("Hello.")
    expect(line(studio, 1).locator(".vw-line-error")).to_have_text(
        "“warmly” was left out: this voice does not follow a style."
    )
    expect(line(studio, 2).locator(".vw-line-error")).to_have_text("")


def test_script_error_disappears_when_the_script_changes(script: Page) -> None:
    text_of(script, 2).fill("[pause 99s]")
    script.click("#vw-script-files")
    script.click("#vw-script-go")
    said = script.locator("#vw-script-export-error")
    expect(said).to_contain_text("Fix line 2")
    text_of(script, 2).fill("Quite.")
    expect(said).to_have_text("")


STARTERS = "#vw-starters button"


def box(page: Page, selector: str) -> Any:
    return page.locator(selector).first.bounding_box()


def test_example_texts_fill_the_field_and_keep_the_users_text(studio: Page) -> None:
    starters = studio.locator(STARTERS)
    expect(starters.locator("span")).to_have_text(["A story", "An advertisement", "A dialogue", "Shuffle"])
    starters.nth(0).click()
    expect(studio.locator("#vw-text")).to_have_value(re.compile("^The lighthouse"))
    before = [speaker(studio), studio.input_value("#vw-text"), studio.input_value("#vw-speakers-instruct")]
    starters.nth(3).click()
    after = [speaker(studio), studio.input_value("#vw-text"), studio.input_value("#vw-speakers-instruct")]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, False]
    expect(studio.locator("#vw-speakers-chips [aria-pressed=true]")).to_have_count(1)
    studio.screenshot(path=SCREENSHOTS / "starters.png")
    studio.fill("#vw-text", "My own words.")
    expect(starters.first).to_be_hidden()
    studio.fill("#vw-text", "")
    expect(starters.first).to_be_visible()
    studio.select_option("#vw-language", "zh")
    expect(starters.locator("span")).to_have_text(["故事", "广告", "对话", "随机"])
    studio.select_option("#vw-language", "en")  # The studio stores the language.
    expect(starters.locator("span").first).to_have_text("A story")


@pytest.mark.parametrize("size", [(1280, 960), (768, 1024), (390, 844)])
def test_nothing_moves_if_the_users_first_letter_hides_the_examples(studio: Page, size: tuple[int, int]) -> None:
    studio.set_viewport_size({"width": size[0], "height": size[1]})
    studio.click(STARTERS)
    below = ("#vw-text-count", "#vw-text-tags", "#vw-speakers-instruct", "#vw-shared-variation")
    before = [round(box(studio, one)["y"]) for one in below]
    studio.focus("#vw-text")
    studio.keyboard.press("Control+Home")
    studio.keyboard.press("Delete")
    expect(studio.locator(STARTERS).first).to_be_hidden()
    assert [round(box(studio, one)["y"]) for one in below] == before


def test_shuffle_chooses_among_many_texts_of_one_language(studio: Page) -> None:
    change_model_cards(studio, languages=["English"])
    reload_to_speak(studio)
    shuffle = studio.locator(STARTERS, has_text="Shuffle")
    texts = set()
    for _ in range(40):
        shuffle.click()
        texts.add(studio.input_value("#vw-text"))
    assert len(texts) > 6
    assert all(text.isascii() for text in texts)
    expect(shuffle).to_be_visible()  # All these texts are examples, not the user's own text.


def test_example_dialogue_assigns_voices_and_plays_with_one_press(studio: Page) -> None:
    studio.locator(STARTERS, has_text="A dialogue").click()
    expect(studio.locator("#vw-room-script")).to_be_visible()
    expect(studio.locator("#vw-script-lines > li")).to_have_count(6)
    assert len({voice_of(studio, number) for number in range(1, 7)}) == 3
    expect(studio.locator("#vw-time")).not_to_have_text("0:00.0", timeout=PLAYED_MS)
    studio.click("#vw-stop")


def test_examples_are_in_the_languages_of_the_checkpoint(studio: Page) -> None:
    change_model_cards(studio, languages=["English", "German", "Chinese", "Klingon"])
    reload_to_speak(studio)
    studio.locator(STARTERS, has_text="3 languages").click()
    expect(studio.locator("#vw-script-lines > li")).to_have_count(3)
    assert {voice_of(studio, number) for number in range(1, 4)} == {"custom_voice:angus"}
    assert text_of(studio, 2).input_value().startswith("Der Zug")
    studio.click("#vw-stop")


def test_notice_about_the_embedded_voice_is_shown_after_the_first_take(studio: Page) -> None:
    banner = studio.locator("#vw-banner")
    expect(studio.locator("#vw-status")).to_have_text("Built-in voice")
    expect(banner).to_be_hidden()
    expect(studio.locator("h1 small")).to_have_text("Open text-to-speech studio")
    speak_whole(studio, SHORT)
    expect(banner).to_contain_text("small built-in voice")
    expect(studio.locator("#vw-models")).to_have_css("visibility", "hidden")


def test_text_field_height_fits_the_window(studio: Page) -> None:
    for width, height in ((1280, 960), (1920, 1080), (768, 1024)):
        studio.set_viewport_size({"width": width, "height": height})
        last, footer = box(studio, "#vw-shared-variation"), box(studio, ".vw-footer")
        assert 0 <= footer["y"] - last["y"] - last["height"] < 40, "the field uses the height of the room"
        assert box(studio, "#vw-text")["height"] >= 150
    studio.set_viewport_size({"width": 390, "height": 844})
    assert 100 <= box(studio, "#vw-text")["height"] <= 200
    studio.set_viewport_size({"width": 1280, "height": 860})
    picked, rail = box(studio, ".vw-picked"), box(studio, "#vw-speakers-picker")
    assert rail["x"] <= picked["x"]
    assert picked["x"] + picked["width"] <= rail["x"] + rail["width"]
    studio.fill("#vw-text", SENTENCE * 40)
    studio.evaluate("document.querySelector('#vw-text').scrollTop = 0")
    expect(studio.locator("#vw-text[data-behind]:not([data-before])")).to_be_visible()
    studio.evaluate("document.querySelector('#vw-text').scrollTop = 1e6")
    expect(studio.locator("#vw-text[data-before]:not([data-behind])")).to_be_visible()
    enter(studio, "clone")
    assert box(studio, "#vw-clone-card")["width"] == pytest.approx(box(studio, ".vw-masthead")["width"], abs=50)
