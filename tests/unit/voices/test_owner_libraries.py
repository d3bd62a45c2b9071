"""Tests for voices with owners: each owner sees only its own voices and the shared voices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.errors import TooManyVoices, VoiceNameTaken, VoiceNotFound, VoiceNotYours
from runtime.voices import owner_libraries as module
from runtime.voices.library import Library
from runtime.voices.owner_libraries import OwnerLibraries, OwnerLibrary
from runtime.voices.voice import VoiceChanges
from tests.support.voices import create_voice


@pytest.fixture
def owner_libraries(tmp_path: Path) -> Iterator[OwnerLibraries]:
    common = Library(tmp_path / "voices")
    common.open()
    made = OwnerLibraries(common, max_voices=3)
    yield made
    made.close()


def names(library: OwnerLibrary) -> list[str]:
    return [card.name for card in library.cards()]


def test_each_owner_sees_its_own_and_the_shared_voices(owner_libraries: OwnerLibraries) -> None:
    common = owner_libraries.library_of("").register_voice(create_voice("Host"))
    anna = owner_libraries.library_of("anna").register_voice(create_voice("Anna", description="secret words"))
    bert = owner_libraries.library_of("bert").register_voice(create_voice("Bert"))
    assert names(owner_libraries.library_of("")) == ["Host"]
    assert names(owner_libraries.library_of("anna")) == ["Anna", "Host"]
    assert names(owner_libraries.library_of("bert")) == ["Bert", "Host"]
    assert owner_libraries.library_of("anna").reference(common.id).text is not None
    for name in (anna.id, "Anna"):
        assert owner_libraries.library_of("bert").find(name) is None
        assert owner_libraries.library_of("").find(name) is None
    assert owner_libraries.library_of("bert").search("secret") == ()
    assert owner_libraries.library_of("anna").search("secret") == (anna,)
    for work in (
        owner_libraries.library_of("bert").delete,
        owner_libraries.library_of("bert").reference,
        owner_libraries.library_of("").export,
    ):
        with pytest.raises(VoiceNotFound):
            work(anna.id)
    with pytest.raises(VoiceNotFound):
        owner_libraries.library_of("anna").change(bert.id, VoiceChanges(name="Mine"))


def test_shared_voices_cannot_be_changed_by_an_owner(owner_libraries: OwnerLibraries) -> None:
    common = owner_libraries.library_of("").register_voice(create_voice("Host"))
    with pytest.raises(VoiceNotYours):
        owner_libraries.library_of("anna").delete(common.id)
    with pytest.raises(VoiceNotYours):
        owner_libraries.library_of("anna").change(common.id, VoiceChanges(name="Mine"))
    assert not owner_libraries.library_of("anna").owns(common.id)
    assert owner_libraries.library_of("").change(common.id, VoiceChanges(name="House")).name == "House"


def test_owner_may_use_the_voice_names_of_other_owners(owner_libraries: OwnerLibraries) -> None:
    common = owner_libraries.library_of("").register_voice(create_voice("Clara"))
    annas = owner_libraries.library_of("anna").register_voice(create_voice("Clara"))
    assert owner_libraries.library_of("bert").register_voice(create_voice("clara")).id not in {common.id, annas.id}
    with pytest.raises(VoiceNameTaken):
        owner_libraries.library_of("anna").register_voice(create_voice("CLARA"))
    # The owner's voice hides the shared voice with the same name.
    found = owner_libraries.library_of("anna").find("clara")
    assert found is not None
    assert found.id == annas.id


def test_voices_per_owner_are_limited(owner_libraries: OwnerLibraries) -> None:
    library = owner_libraries.library_of("anna")
    for number in range(3):
        last = library.register_voice(create_voice(f"Voice {number}"))
    with pytest.raises(TooManyVoices):
        library.register_voice(create_voice("One more"))
    with pytest.raises(TooManyVoices):
        library.import_(create_voice("One more"))
    assert library.register_voice(create_voice("Voice 2"), replace_id=last.id).id == last.id
    for number in range(5):
        owner_libraries.library_of("").register_voice(create_voice(f"Common {number}"))


def test_owner_id_never_becomes_a_path_and_selects_its_voices_after_a_restart(
    owner_libraries: OwnerLibraries, tmp_path: Path
) -> None:
    for owner in ("../../x", "a/b", "\udc80", "x" * 5000):
        owner_libraries.library_of(owner).register_voice(create_voice(f"Of {len(owner)}"))
    folders = sorted((tmp_path / "voices" / "owners").iterdir())
    assert len(folders) == 4
    assert all(len(folder.name) == 32 for folder in folders)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["voices"]
    again = OwnerLibraries(Library(tmp_path / "voices"), max_voices=0)
    assert names(again.library_of("a/b")) == ["Of 3"]
    again.close()


def test_owner_without_voices_has_no_files(owner_libraries: OwnerLibraries, tmp_path: Path) -> None:
    assert owner_libraries.library_of("anna").cards() == ()
    assert not (tmp_path / "voices").exists()


def test_least_recently_used_libraries_are_closed_and_reopened(
    owner_libraries: OwnerLibraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_LIBRARIES", 2)
    early = owner_libraries.library_of("a")
    early.register_voice(create_voice("Early"))
    for owner in ("b", "c", "d"):
        owner_libraries.library_of(owner).register_voice(create_voice("Clara"))
    assert len(owner_libraries.libraries()) == 3
    assert names(early) == names(owner_libraries.library_of("a")) == ["Early"]
    assert early.register_voice(create_voice("Later")).name == "Later"
