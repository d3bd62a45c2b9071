"""Tests for pronunciation dictionaries in a folder: IDs, concurrent changes and crashes."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest

from runtime.errors import DictionaryNotFound, DictionaryNotYours, StorageFailed, TooManyDictionaries
from runtime.pronunciations import folder as module
from runtime.pronunciations.dictionary import Word
from runtime.pronunciations.folder import SUFFIX, DictionaryEdit, DictionaryFolder
from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.voices.library import Library
from runtime.voices.owner_libraries import OwnerLibraries

NGUYEN = (Word("Nguyen", "Win"),)


@pytest.fixture
def folder(tmp_path: Path) -> DictionaryFolder:
    return DictionaryFolder(tmp_path / "voices" / "pronunciations")


def test_dictionary_is_stored_found_changed_and_deleted(folder: DictionaryFolder) -> None:
    assert folder.all() == []
    assert not folder.folder.exists()  # No folder is created before the first dictionary.
    made = folder.create_dictionary("Names", NGUYEN, description="Ours.")
    assert folder.find(made.id) == made
    assert DictionaryFolder(folder.folder).all() == [made]
    edit = DictionaryEdit(name="More names", description="", is_archived=True, words=lambda before: (*before, *before))
    changed = folder.change(made.id, edit)
    assert (changed.name, changed.description, changed.latest.words) == ("More names", "", NGUYEN * 2)
    assert changed.archived_at is not None
    assert folder.change(made.id, DictionaryEdit(is_archived=True)).archived_at == changed.archived_at
    assert folder.change(made.id, DictionaryEdit(is_archived=False)).archived_at is None
    assert changed.version(made.latest.id) == made.latest
    folder.delete(made.id)
    assert folder.all() == []
    with pytest.raises(DictionaryNotFound):
        folder.delete(made.id)
    with pytest.raises(DictionaryNotFound):
        folder.change(made.id, edit)


def test_dictionary_changes_by_another_process_are_seen(folder: DictionaryFolder) -> None:
    made = folder.create_dictionary("Names", NGUYEN)
    assert folder.find(made.id) == made
    other = DictionaryFolder(folder.folder)
    changed = other.change(made.id, DictionaryEdit(name="Other"))
    assert folder.find(made.id) == changed


@pytest.mark.parametrize("name", ["../secret", "", "x" * 32, "/etc/passwd", "0" * 31, "0" * 32])
def test_dictionary_id_is_never_used_as_a_path(folder: DictionaryFolder, name: str) -> None:
    folder.create_dictionary("Names", NGUYEN)
    (folder.folder.parent / ("secret" + SUFFIX)).write_text("{}")
    assert folder.find(name) is None


def test_damaged_dictionary_files_are_ignored(folder: DictionaryFolder, tmp_path: Path) -> None:
    made = folder.create_dictionary("Names", NGUYEN)
    file = folder.folder / (made.id + SUFFIX)
    whole = file.read_bytes()
    for damaged in (whole[:-1], b"", whole.replace(made.id.encode(), b"0" * 32), b" " * (2**20)):
        file.write_bytes(damaged)
        assert folder.find(made.id) is None
        assert folder.all() == []
    file.unlink()
    (tmp_path / "elsewhere").write_bytes(whole)
    file.symlink_to(tmp_path / "elsewhere")
    assert folder.find(made.id) is None
    file.unlink()
    os.mkfifo(file)
    assert folder.find(made.id) is None


def test_dictionaries_that_are_added_concurrently_are_all_kept(folder: DictionaryFolder) -> None:
    made = folder.create_dictionary("Names", ())

    def add(number: int) -> None:
        word = Word(f"word {number}", "x")
        DictionaryFolder(folder.folder).change(made.id, DictionaryEdit(words=lambda before: (*before, word)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    found = folder.find(made.id)
    assert found is not None
    assert {word.word for word in found.latest.words} == {f"word {number}" for number in range(12)}


def test_full_disk_leaves_the_dictionary_unchanged(folder: DictionaryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = folder.create_dictionary("Names", NGUYEN)

    def full(*_: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(module, "replace_file", full)
    with pytest.raises(StorageFailed, match="pronunciation dictionary could not be stored: the disk is full"):
        folder.change(made.id, DictionaryEdit(name="Other"))
    assert folder.find(made.id) == made


# --- Tests of dictionaries of several owners.


def of(libraries: OwnerLibraries, owner: str) -> OwnerDictionaries:
    return libraries.library_of(owner).pronunciations


def test_each_owner_sees_its_own_and_the_shared_dictionaries(tmp_path: Path) -> None:
    libraries = OwnerLibraries(Library(tmp_path / "voices"), max_voices=0, max_pronunciations=2)
    common = of(libraries, "").create_dictionary("Common", NGUYEN)
    annas = of(libraries, "anna").create_dictionary("Anna's", NGUYEN)
    anna, bert = of(libraries, "anna"), of(libraries, "bert")
    assert [one.name for one in anna.all()] == ["Anna's", "Common"]
    assert bert.all() == of(libraries, "").all() == [common]
    assert anna.version(common.id).words == NGUYEN
    assert (anna.owns(annas.id), anna.owns(common.id)) == (True, False)
    for stranger in (bert, of(libraries, "")):
        with pytest.raises(DictionaryNotFound):
            stranger.get(annas.id)
        with pytest.raises(DictionaryNotFound):
            stranger.delete(annas.id)
    with pytest.raises(DictionaryNotFound, match="version"):
        anna.version(annas.id, common.latest.id)
    with pytest.raises(DictionaryNotYours):
        anna.delete(common.id)
    with pytest.raises(DictionaryNotYours):
        anna.change(common.id, DictionaryEdit(name="Mine"))
    anna.create_dictionary("Another", NGUYEN)
    with pytest.raises(TooManyDictionaries, match="2 pronunciation dictionaries"):
        anna.create_dictionary("One too many", NGUYEN)
    for number in range(3):  # Requests without an owner have no limit.
        of(libraries, "").create_dictionary(f"Common {number}", NGUYEN)
