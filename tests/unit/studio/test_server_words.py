"""Tests that the page has a text for each error code and reason of the server."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.errors import SetUpError, no_folder
from runtime.request import (
    DESCRIBED_VOICE,
    DROPPED_STYLES,
    LEFT_OUT_SSML,
    LONG_NUMBER,
    NO_SPELLING,
    NO_TAG,
    NOTE_MARKS,
    OTHER_SPEAKER,
    RECORDED_VOICE,
    STORED_NAMESAKE,
    STRANGE_SCRIPT,
    UNKNOWN_FIELDS,
    UNREAD_TAGS,
)
from runtime.shared.audio.decode_child import TOO_LARGE
from runtime.shared.audio.decoding import CRASHED, TOO_SLOW
from runtime.shared.audio.samples import NO_SOUND, SUPPORTED_FORMATS, UNSUPPORTED_FORMAT
from studio.words import languages, words
from tests.support.errors import BY_CODE

ROOT = Path(__file__).resolve().parents[3]
ENGLISH = words("en")
PLACE = re.compile(r"\{[^{}]*\}")
SHAPES = {PLACE.sub("{}", said) for key, said in ENGLISH.items() if key.startswith("server.phrase.")}

# Errors with reasons that the page displays. The messages of other errors contain only numbers and names.
MET = {"BadReferenceAudio", "StoreFull", "StorageFailed", "NotKept", "ChangedMeanwhile", "SignInFailed", "TextTooLong"}
REASONS = {"why", "what", "unit"}
OF_THE_OPERATOR = {
    "device_memory",
    *(code for code, kind in BY_CODE.items() if issubclass(kind, SetUpError)),
}


def _shape(node: ast.expr) -> str | None:
    """Return the text of a string literal or f-string with empty placeholders, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def _calls(*folders: str) -> Iterator[tuple[Path, ast.Call, str]]:
    for folder in folders:
        for path in [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    yield path, node, getattr(node.func, "attr", getattr(node.func, "id", ""))


def test_page_has_a_text_for_every_client_visible_error_code() -> None:
    assert {code for code in BY_CODE if code not in OF_THE_OPERATOR and f"server.error.{code}" not in ENGLISH} == set()


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_error_texts_use_only_placeholders_of_the_error(code: str) -> None:
    facts = {place.partition(":")[0].strip("{}") for place in PLACE.findall(BY_CODE[code].sentence)}
    known_facts = facts | ({"limit_mb", "limit_time"} if "limit" in facts else set())
    known_facts |= {"retry_after"} if "retry_after_s" in facts else set()
    for language in languages():
        for key in (f"server.error.{code}", f"server.error.{code}.plain"):
            assert {place.strip("{}") for place in PLACE.findall(words(language).get(key, ""))} <= known_facts, key
    if "{why}" in PLACE.findall(ENGLISH.get(f"server.error.{code}", "")):
        assert f"server.error.{code}.plain" in ENGLISH, "a reason that is not known"


def test_page_has_a_text_for_every_user_visible_reason() -> None:
    found: dict[str, str] = {}
    for path, call, name in _calls("runtime", "studio"):
        if name in MET:
            for kwargs in call.keywords:
                if kwargs.arg in REASONS and (shape := _shape(kwargs.value)) is not None:
                    found[shape] = f"{path.name}:{call.lineno}"
    assert len(found) > 20
    assert {shape: where for shape, where in found.items() if shape not in SHAPES} == {}


def test_unreadable_file_message_quotes_the_server_in_every_language() -> None:
    assert {NO_SOUND, UNSUPPORTED_FORMAT} <= SHAPES
    assert {re.sub(r"\d+", "{}", said, count=1) for said in (TOO_SLOW, TOO_LARGE, CRASHED)} <= SHAPES
    kinds = re.findall(r"\b(?!or\b)\w+", SUPPORTED_FORMATS)
    for language in languages():
        own = words(language)
        sentences = ["phrase.ref.no_sound", "phrase.ref.format", "error.invalid_ref_audio.plain"]
        for sentence in (own[f"server.{key}"] for key in sentences):
            assert [kind for kind in kinds if kind in sentence] == kinds
        offered = re.findall(r"[A-Z0-9]{3,}", own["clone.upload_hint"].upper().partition("OGG")[0] + "OGG")
        assert set(offered) <= {kind.upper() for kind in kinds}


def test_page_has_texts_for_invalid_field_messages() -> None:
    from runtime.shared.validation import _REASONS

    assert {reason for reason in _REASONS.values() if PLACE.sub("{}", reason) not in SHAPES} == set()


@pytest.mark.parametrize("code", ["checkpoint_missing", "checkpoint_too_large", "device_memory"])
def test_page_has_texts_for_checkpoint_load_errors(code: str) -> None:
    assert PLACE.sub("{}", BY_CODE[code].sentence) in SHAPES


@pytest.mark.parametrize("is_file", [False, True])
def test_page_has_texts_for_invalid_checkpoint_paths(is_file: bool) -> None:
    facts = no_folder("x", is_file=is_file).facts
    assert {facts["what"], facts["hint"]} <= SHAPES


# Errors that prevent loading or downloading checkpoints. Ports are bound before the page exists.
OF_CHECKPOINTS = {code for code, kind in BY_CODE.items() if issubclass(kind, SetUpError)} - {"port_in_use"}


@pytest.mark.parametrize("code", sorted(OF_CHECKPOINTS))
def test_page_has_a_text_for_every_checkpoint_error_code(code: str) -> None:
    if PLACE.sub("{}", BY_CODE[code].sentence) in SHAPES and "{why}" not in BY_CODE[code].sentence:
        return  # The page displays the server's own message.
    for language in languages():
        plain = words(language).get(f"server.error.{code}.plain", words(language).get(f"server.error.{code}", "{}"))
        assert "{" not in plain, language


def test_page_has_texts_for_status_and_notes() -> None:
    said = {}
    for path, call, name in _calls(
        "studio/runtimes/supervisor.py", "studio", "runtime/engine/scheduling/input_processor.py"
    ):
        if name in {"Status", "_set_status", "_set_change"} or (name == "append" and path.name == "input_processor.py"):
            for kwargs in call.args:
                if (shape := _shape(kwargs)) is not None:
                    said[shape] = f"{path.name}:{call.lineno}"
    assert len(said) > 6
    assert {shape: where for shape, where in said.items() if shape not in SHAPES} == {}


def test_page_has_a_text_for_every_note_of_the_server() -> None:
    of_text = (STRANGE_SCRIPT, NO_SPELLING, NO_TAG, NOTE_MARKS, LONG_NUMBER, UNREAD_TAGS, LEFT_OUT_SSML, DROPPED_STYLES)
    notes = (*of_text, UNKNOWN_FIELDS, OTHER_SPEAKER, STORED_NAMESAKE, DESCRIBED_VOICE, RECORDED_VOICE)
    assert {PLACE.sub("{}", note) for note in notes} <= SHAPES
