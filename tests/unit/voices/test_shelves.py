"""Voices of owners: each sees its own and the common ones, and nothing of anybody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.errors import TooManyVoices, VoiceNameTaken, VoiceNotFound, VoiceNotYours
from runtime.voices import shelves as module
from runtime.voices.library import Library
from runtime.voices.shelves import Shelf, Shelves
from runtime.voices.voice import Edit
from tests.support.voices import a_voice


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[Shelves]:
    common = Library(tmp_path / "voices")
    common.open()
    made = Shelves(common, most=3)
    yield made
    made.close()


def names(shelf: Shelf) -> list[str]:
    return [card.name for card in shelf.cards()]


def test_each_owner_sees_its_own_and_the_common_voices(shelves: Shelves) -> None:
    common = shelves.of("").add(a_voice("Host"))
    anna = shelves.of("anna").add(a_voice("Anna", description="secret words"))
    bert = shelves.of("bert").add(a_voice("Bert"))
    assert names(shelves.of("")) == ["Host"]
    assert names(shelves.of("anna")) == ["Anna", "Host"]
    assert names(shelves.of("bert")) == ["Bert", "Host"]
    assert shelves.of("anna").reference(common.id).text is not None
    for name in (anna.id, "Anna"):
        assert shelves.of("bert").find(name) is None
        assert shelves.of("").find(name) is None
    assert shelves.of("bert").search("secret") == ()
    assert shelves.of("anna").search("secret") == (anna,)
    for work in (shelves.of("bert").delete, shelves.of("bert").reference, shelves.of("").export):
        with pytest.raises(VoiceNotFound):
            work(anna.id)
    with pytest.raises(VoiceNotFound):
        shelves.of("anna").change(bert.id, Edit(name="Mine"))


def test_the_common_voices_are_not_an_owners_to_change(shelves: Shelves) -> None:
    common = shelves.of("").add(a_voice("Host"))
    with pytest.raises(VoiceNotYours):
        shelves.of("anna").delete(common.id)
    with pytest.raises(VoiceNotYours):
        shelves.of("anna").change(common.id, Edit(name="Mine"))
    assert not shelves.of("anna").owns(common.id)
    assert shelves.of("").change(common.id, Edit(name="House")).name == "House"


def test_names_are_free_for_every_owner(shelves: Shelves) -> None:
    common = shelves.of("").add(a_voice("Clara"))
    annas = shelves.of("anna").add(a_voice("Clara"))
    assert shelves.of("bert").add(a_voice("clara")).id not in {common.id, annas.id}
    with pytest.raises(VoiceNameTaken):
        shelves.of("anna").add(a_voice("CLARA"))
    found = shelves.of("anna").find("clara")  # of two the own one
    assert found is not None
    assert found.id == annas.id


def test_an_owner_keeps_no_more_than_it_may(shelves: Shelves) -> None:
    shelf = shelves.of("anna")
    for number in range(3):
        last = shelf.add(a_voice(f"Voice {number}"))
    with pytest.raises(TooManyVoices):
        shelf.add(a_voice("One more"))
    with pytest.raises(TooManyVoices):
        shelf.import_(a_voice("One more"))
    assert shelf.add(a_voice("Voice 2"), replace_id=last.id).id == last.id
    for number in range(5):
        shelves.of("").add(a_voice(f"Common {number}"))


def test_an_owners_word_never_becomes_a_path_and_survives_a_restart(shelves: Shelves, tmp_path: Path) -> None:
    for owner in ("../../x", "a/b", "\udc80", "x" * 5000):
        shelves.of(owner).add(a_voice(f"Of {len(owner)}"))
    folders = sorted((tmp_path / "voices" / "owners").iterdir())
    assert len(folders) == 4
    assert all(len(folder.name) == 32 for folder in folders)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["voices"]
    again = Shelves(Library(tmp_path / "voices"), most=0)
    assert names(again.of("a/b")) == ["Of 3"]
    again.close()


def test_nothing_is_written_for_an_owner_who_keeps_nothing(shelves: Shelves, tmp_path: Path) -> None:
    assert shelves.of("anna").cards() == ()
    assert not (tmp_path / "voices").exists()


def test_libraries_that_nobody_used_for_long_are_closed_and_opened_again(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPEN", 2)
    early = shelves.of("a")
    early.add(a_voice("Early"))
    for owner in ("b", "c", "d"):
        shelves.of(owner).add(a_voice("Clara"))
    assert len(shelves.libraries()) == 3
    assert names(early) == names(shelves.of("a")) == ["Early"]
    assert early.add(a_voice("Later")).name == "Later"
