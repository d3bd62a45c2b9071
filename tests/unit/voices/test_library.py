"""Tests for the voice library on disk: crashes, damaged files and concurrent processes."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.errors import (
    InvalidConfig,
    NoRecording,
    StorageFailed,
    VoiceFileInvalid,
    VoiceNameLooksAlike,
    VoiceNameTaken,
    VoiceNotFound,
)
from runtime.shared.files import LOCK
from runtime.shared.names import name_key, new_id
from runtime.voices.checks import SHORT_TRANSCRIPT
from runtime.voices.index import FILE
from runtime.voices.library import MAX_READS_PER_CALL, Library, library_folder, read_file
from runtime.voices.voice import VoiceChanges, to_float, to_pcm
from runtime.voices.voice_file import IMPORTED_FINGERPRINT, MAX_PROMPTS, read_voice, write_voice
from tests.support.examples import examples
from tests.support.signals import voice
from tests.support.voices import BOMBS, create_prompt, create_voice, create_voice_file

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "voices"


@pytest.fixture
def library(folder: Path) -> Iterator[Library]:
    made = Library(folder)
    made.open()
    yield made
    made.close()


def test_default_folder_belongs_to_the_user_and_is_never_used_by_tests(voices_of_nobody: Path) -> None:
    assert library_folder("").is_relative_to(voices_of_nobody)
    assert library_folder("here", "data") == Path("here")
    assert library_folder("", "data") == Path("data/voices")


def opened(folder: Path) -> Library:
    """Open the voice library in a folder, as another process does, and return it."""
    other = Library(folder)
    other.open()
    return other


def names(library: Library) -> list[str]:
    return [card.name for card in library.cards()]


def files(folder: Path) -> set[str]:
    """Return the names of all files in a voice library's folder, without the index and lock."""
    return {name for name in os.listdir(folder) if not name.startswith((FILE, LOCK))}


def test_no_file_is_written_before_the_first_voice(library: Library, folder: Path) -> None:
    assert library.cards() == ()
    assert library.find("x") is None
    assert library.search("x") == ()
    assert library.problems() == ()
    with pytest.raises(VoiceNotFound):
        library.delete(new_id())
    assert not (folder / FILE).exists()


def test_voice_is_stored_found_and_read(library: Library, folder: Path) -> None:
    voice = create_voice("Clara")
    card = library.register_voice(voice)
    assert (card.id, card.name, card.transcript) == (voice.id, "Clara", voice.transcript)
    assert card.file_bytes == (folder / f"{voice.id}.voice").stat().st_size
    for address in (voice.id, "Clara", "CLARA", "clara"):
        assert library.find(address) == card
    reference = library.reference(voice.id)
    assert np.array_equal(reference.samples, to_float(voice.reference))
    assert (reference.text, reference.x_vector_only, reference.prompt) == (voice.transcript, False, None)
    assert opened(folder).cards() == (card,)
    assert files(folder) == {f"{voice.id}.voice"}


def test_voice_without_a_transcript_clones_by_x_vector(library: Library) -> None:
    card = library.register_voice(create_voice(transcript=None))
    assert library.reference(card.id).x_vector_only


def test_stored_prompt_of_the_serving_checkpoint_is_returned(library: Library) -> None:
    card = library.register_voice(create_voice(prompts={}))
    assert library.without_prompt("new") == (card.id,)
    library.keep_prompt(card.id, create_prompt("new"))
    library.keep_prompt(card.id, create_prompt("other"))
    assert library.without_prompt("new") == ()
    library.fingerprint = "new"
    made = library.reference(card.id).prompt
    assert made is not None
    assert made.fingerprint == "new"
    library.fingerprint = "unknown"
    assert library.reference(card.id).prompt is None


def test_oldest_prompts_of_a_voice_are_evicted(library: Library) -> None:
    card = library.register_voice(create_voice(prompts={}))
    for number in range(MAX_PROMPTS + 3):
        library.keep_prompt(card.id, create_prompt(f"checkpoint-{number}"))
        assert library.without_prompt(f"checkpoint-{number}") == ()
    assert len(read_voice(library.export(card.id)).prompts) == MAX_PROMPTS


def test_prompt_of_a_replaced_recording_is_not_stored(library: Library) -> None:
    card = library.register_voice(create_voice(prompts={}))
    before = library.reference(card.id)
    library.register_voice(create_voice(samples=1300, prompts={}), replace_id=card.id)
    library.keep_prompt(card.id, create_prompt("new"), made_from=before)
    assert library.without_prompt("new") == (card.id,)
    library.keep_prompt(card.id, create_prompt("new"), made_from=library.reference(card.id))
    assert library.without_prompt("new") == ()


def test_prompts_are_computed_again_if_the_transcript_changes(library: Library) -> None:
    card = library.register_voice(create_voice(reference=to_pcm(voice(2.0, seed=4))))
    before = library.reference(card.id)
    library.change(card.id, VoiceChanges(transcript=before.text))
    assert library.without_prompt("abc") == ()
    assert library.change(card.id, VoiceChanges(transcript="Good evening, my dear friends.")).transcript != before.text
    assert library.without_prompt("abc") == (card.id,)
    library.keep_prompt(card.id, create_prompt("abc"), made_from=before)
    assert library.without_prompt("abc") == (card.id,), "the prompt has the old transcript"
    assert library.change(card.id, VoiceChanges(transcript="")).transcript is None


def test_advice_about_the_recording_remains_if_the_transcript_changes(library: Library) -> None:
    advice = ("Noise or music is only 10 dB below the speech; record in a quiet room.", SHORT_TRANSCRIPT.sentence)
    card = library.register_voice(create_voice(reference=to_pcm(voice(2.0, seed=4)), advice=advice))
    changed = library.change(card.id, VoiceChanges(transcript="Good evening, my dear friends."))
    assert changed.advice == advice[:1]


def test_transcript_of_a_voice_without_a_recording_cannot_be_changed(library: Library) -> None:
    card = library.register_voice(
        create_voice(samples=0, prompts={IMPORTED_FINGERPRINT: create_prompt(IMPORTED_FINGERPRINT)})
    )
    with pytest.raises(NoRecording):
        library.change(card.id, VoiceChanges(transcript="Good evening."))


def test_consent_to_blends_can_be_changed_and_keeps_the_provenance(library: Library) -> None:
    card = library.register_voice(create_voice())
    for is_allowed, said in ((False, "no"), (True, "yes")):
        changed = library.change(card.id, VoiceChanges(allows_blends=is_allowed))
        assert changed.provenance == {**card.provenance, "blend": said}
        assert (changed.consent, library.without_prompt("abc")) == (card.consent, ())
    blend = library.register_voice(
        create_voice("Blend", provenance={"source": "blend", "blend": "angus:0.6+clara:0.4"})
    )
    with pytest.raises(InvalidConfig):
        library.change(blend.id, VoiceChanges(allows_blends=True))


def test_voice_names_are_unique_ignoring_case(library: Library) -> None:
    first = library.register_voice(create_voice("Straße"))
    for name in ("straße", "STRASSE", " Straße "):
        with pytest.raises(VoiceNameTaken):
            library.register_voice(create_voice(name))
    second = library.register_voice(create_voice("Weg"))
    with pytest.raises(VoiceNameTaken):
        library.change(second.id, VoiceChanges(name="strasse"))
    # A voice may change the case of its own name.
    assert library.change(first.id, VoiceChanges(name="STRASSE")).name == "STRASSE"
    assert names(library) == ["STRASSE", "Weg"]


def test_confusable_name_is_refused(library: Library) -> None:
    first = library.register_voice(create_voice("Clara"))
    second = library.register_voice(create_voice("Bert"))
    with pytest.raises(VoiceNameLooksAlike, match="Clara"):
        library.register_voice(create_voice("Сlаrа"))
    with pytest.raises(VoiceNameLooksAlike, match="Clara"):
        library.import_(create_voice("CIara"))
    with pytest.raises(VoiceNameLooksAlike, match="Bert"):
        library.change(first.id, VoiceChanges(name="Веrt"))
    # The new name is confusable only with the old name of the same voice.
    assert library.change(second.id, VoiceChanges(name="Веrt")).name == "Веrt"
    assert names(library) == ["Clara", "Веrt"]


def test_voice_can_be_replaced_under_its_id(library: Library, folder: Path) -> None:
    card = library.register_voice(create_voice("Clara"))
    other = library.register_voice(create_voice("Bert"))
    new = create_voice("clara", samples=2400)
    assert library.register_voice(new, replace_id=card.id).id == card.id
    assert np.array_equal(library.reference(card.id).samples, to_float(new.reference))
    with pytest.raises(VoiceNameTaken):
        library.register_voice(create_voice("bert"), replace_id=card.id)
    with pytest.raises(VoiceNotFound):
        library.register_voice(create_voice("Anna"), replace_id=new_id())
    assert len(files(folder)) == 2
    assert library.find("bert") == other


def test_voices_can_be_renamed_and_deleted(library: Library, folder: Path) -> None:
    card = library.register_voice(create_voice("Clara"))
    assert library.change(card.id, VoiceChanges(name="  Zoë ")).name == "Zoë"
    assert library.find("Clara") is None
    with pytest.raises(InvalidConfig):
        library.change(card.id, VoiceChanges(name="a\nb"))
    library.delete(card.id)
    assert files(folder) == set()
    for work in (
        library.delete,
        library.reference,
        library.export,
        lambda one: library.change(one, VoiceChanges(name="x")),
    ):
        with pytest.raises(VoiceNotFound):
            work(card.id)


def test_description_and_tags_can_be_changed_and_searched(library: Library, folder: Path) -> None:
    card = library.register_voice(create_voice("Clara", tags=("warm",)))
    changed = library.change(card.id, VoiceChanges(description="Bright", tags=("Radio", " radio ", "night show")))
    assert (changed.name, changed.description, changed.tags) == ("Clara", "Bright", ("Radio", "night show"))
    assert [card.id for card in library.search("RADIO show")] == [card.id]
    assert library.search("warm") == ()
    assert opened(folder).cards() == (changed,)
    assert library.change(card.id, VoiceChanges(description="", tags=())).description is None
    for tags in ([""], ["x" * 33], ["a\nb"], [str(number) for number in range(17)]):
        with pytest.raises(InvalidConfig):
            library.change(card.id, VoiceChanges(tags=tuple(tags)))
    assert library.find("Clara") == library.change(card.id, VoiceChanges())


def test_exported_voice_can_be_imported_elsewhere(library: Library, tmp_path: Path) -> None:
    card = library.register_voice(create_voice("Clara"))
    other = opened(tmp_path / "elsewhere")
    assert other.import_(read_voice(library.export(card.id))).id == card.id
    with pytest.raises(VoiceNameTaken):
        other.import_(read_voice(library.export(card.id)))


def test_imported_id_never_overwrites_a_voice(library: Library) -> None:
    card = library.register_voice(create_voice("Clara"))
    stranger = library.import_(create_voice("Stranger", id=card.id))
    assert stranger.id != card.id
    assert names(library) == ["Clara", "Stranger"]


def test_voices_can_be_searched(library: Library) -> None:
    for name, description in [("Bert", "LOUD 100%"), ("Anna", "calm"), ("Carl", "calm_er")]:
        library.register_voice(create_voice(name, description=description, transcript=None))

    def found(words: str) -> list[str]:
        return [card.name for card in library.search(words)]

    assert found("calm") == ["Anna", "Carl"]
    assert found("CALM carl") == ["Carl"]
    assert found("100%") == ["Bert"]
    assert found("%") == ["Bert"]
    assert found("_") == ["Carl"]
    assert found("nothing' OR 1") == []
    assert found("english") == ["Anna", "Bert", "Carl"]
    assert names(library) == ["Anna", "Bert", "Carl"]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.one_of(
        st.text(min_size=1, max_size=70), st.sampled_from(["../../x", "CON", "a/b", ".", "..", "%2e", "x" * 64])
    )
)
def test_name_is_never_used_as_a_path(library: Library, folder: Path, name: str) -> None:
    outside = set(os.listdir(folder.parent))
    try:
        card = library.register_voice(create_voice(name))
    except (InvalidConfig, VoiceNameTaken):
        return
    assert (library.find(name) or card).id == card.id
    assert name_key(card.name) == name_key(name)
    assert files(folder) == {f"{card.id}.voice" for card in library.cards()}
    assert set(os.listdir(folder.parent)) <= outside | {"voices"}
    library.delete(card.id)


@pytest.mark.parametrize("address", ["../x", "..", "/etc/passwd", "x" * 300, "a\x00b", "\ud800", ""])
def test_voice_id_is_never_used_as_a_path(library: Library, address: str) -> None:
    library.register_voice(create_voice())
    assert library.find(address) is None
    for work in (library.reference, library.export, library.delete):
        with pytest.raises(VoiceNotFound):
            work(address)


# --- Tests of a folder that several processes use.


def test_damaged_and_foreign_files_are_reported_and_left_unchanged(library: Library, folder: Path) -> None:
    good = library.register_voice(create_voice("Good"))
    torn, moved, copy = create_voice("Torn"), create_voice("Moved"), new_id()
    (folder / f"{torn.id}.voice").write_bytes(write_voice(torn)[:-5])
    (folder / f"{copy}.voice").write_bytes(write_voice(moved))
    (folder / "my voice.voice").write_bytes(write_voice(create_voice("Foreign")))
    (folder / "readme.txt").write_text("hello")
    (folder / f"{new_id()}.voice").mkdir()
    os.mkfifo(folder / f"{new_id()}.voice")
    (folder / f"{new_id()}.voice").symlink_to(folder / f"{good.id}.voice")
    everything = set(os.listdir(folder))
    assert names(library) == ["Good"]
    problems = {problem.file: problem.why for problem in library.problems()}
    assert len(problems) == 6
    assert "damaged" in problems[f"{torn.id}.voice"] or "tensors" in problems[f"{torn.id}.voice"]
    assert "another voice" in problems[f"{copy}.voice"]
    assert "import" in problems["my voice.voice"]
    with pytest.raises(VoiceNotFound):
        library.delete(torn.id)
    assert names(opened(folder)) == ["Good"]
    assert everything <= set(os.listdir(folder))


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_crafted_file_affects_no_request_and_is_set_aside_at_the_next_start(
    library: Library, folder: Path, bomb: dict[str, str]
) -> None:
    library.register_voice(create_voice("Good"))
    bad = create_voice("Bad")
    path = folder / f"{bad.id}.voice"
    path.write_bytes(create_voice_file(bad, **bomb))
    assert names(library) == ["Good"]
    assert library.find("Good") is not None
    library.register_voice(create_voice("Another"))
    assert [problem.file for problem in library.problems()] == [path.name]
    assert names(opened(folder)) == ["Another", "Good"]
    assert path.exists(), "it may still be on its way"
    os.utime(path, (1.0, 1.0))
    restarted = opened(folder)
    assert names(restarted) == ["Another", "Good"]
    assert not path.exists()
    assert [problem.file for problem in restarted.problems()] == [f"{path.name}.unreadable"]
    assert [problem.file for problem in opened(folder).problems()] == [f"{path.name}.unreadable"]


@contextmanager
def without_room_for_files() -> Iterator[None]:
    """Make every attempt to open a file fail, because the process has reached its file limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_voices_stay_listed_while_no_file_can_be_opened(library: Library, folder: Path) -> None:
    first = library.register_voice(create_voice("First"))
    assert names(library) == ["First"]
    other = opened(folder)
    other.register_voice(create_voice("Second"))
    with without_room_for_files():
        assert names(library) == ["First"]
        with pytest.raises(VoiceFileInvalid):
            library.reference(first.id)
    assert names(library) == ["First", "Second"]
    assert library.reference(first.id)
    other.close()


def test_voice_is_listed_again_after_a_temporary_read_failure(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the index nor a restart marks the voice as damaged."""
    library.register_voice(create_voice("First"))
    (path,) = folder.glob("*.voice")
    os.utime(path, (1e9, 1e9))
    with monkeypatch.context() as failing:
        real = os.open

        def failing_disk(file: str | Path, *how: int, **kwargs: int) -> int:
            if Path(file) == path:
                raise OSError(errno.EIO, "the disk failed")
            return real(file, *how, **kwargs)

        failing.setattr(os, "open", failing_disk)
        restarted = opened(folder)
        assert [problem.why for problem in restarted.problems()] == [str(VoiceFileInvalid(why="it cannot be read"))]
        assert path.exists()
    assert names(restarted) == ["First"]
    assert names(opened(folder)) == ["First"]


def test_folder_or_link_instead_of_a_voice_file_leaves_no_open_descriptor(library: Library, folder: Path) -> None:
    library.register_voice(create_voice("First"))
    a_folder, a_link = (folder / f"{new_id()}.voice" for _ in range(2))
    a_folder.mkdir()
    a_link.symlink_to("/dev/zero")
    refused = str(VoiceFileInvalid(why="it is no regular file"))
    assert {problem.file: problem.why for problem in opened(folder).problems()} == {
        a_folder.name: refused,
        a_link.name: refused,
    }
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(VoiceFileInvalid):
            read_file(a_folder, 100)
    assert len(os.listdir("/dev/fd")) == before


def test_file_of_a_newer_version_is_left_unchanged(library: Library, folder: Path) -> None:
    newer = create_voice("Newer")
    path = folder / f"{newer.id}.voice"
    folder.mkdir(exist_ok=True)
    path.write_bytes(create_voice_file(newer, version="9"))
    os.utime(path, (1.0, 1.0))
    assert [problem.file for problem in opened(folder).problems()] == [path.name]
    assert path.exists()


def test_older_of_two_voice_files_keeps_the_duplicate_name(library: Library, folder: Path) -> None:
    newer = library.register_voice(create_voice("Clara", created_at=2.0))
    older = create_voice("CLARA", created_at=1.0)
    (folder / f"{older.id}.voice").write_bytes(write_voice(older))
    assert [card.id for card in library.cards()] == [older.id]
    assert [problem.file for problem in library.problems()] == [f"{newer.id}.voice"]
    library.change(older.id, VoiceChanges(name="Klara"))
    assert {card.id for card in library.cards()} == {older.id, newer.id}


def test_many_new_files_do_not_block_a_reader(library: Library, folder: Path) -> None:
    library.register_voice(create_voice("First"))
    for number in range(3 * MAX_READS_PER_CALL):
        voice = create_voice(f"Voice {number}")
        (folder / f"{voice.id}.voice").write_bytes(write_voice(voice))
    assert [len(library.cards()) for _ in range(4)] == [
        1 + MAX_READS_PER_CALL,
        1 + 2 * MAX_READS_PER_CALL,
        1 + 3 * MAX_READS_PER_CALL,
        1 + 3 * MAX_READS_PER_CALL,
    ]
    assert len(opened(folder).cards()) == 1 + 3 * MAX_READS_PER_CALL  # At the start, all files are read.


def test_voice_changes_by_another_process_are_seen(library: Library, folder: Path) -> None:
    other = opened(folder)
    for turn in range(20):
        card = other.register_voice(create_voice(f"Clara {turn}"))
        assert library.find(card.id) == card
        assert library.find(other.change(card.id, VoiceChanges(name=f"Zoe {turn}")).name) is not None
        other.delete(card.id)
        assert library.find(card.id) is None


@pytest.mark.slow
def test_concurrent_writes_of_two_processes_lose_no_voice(library: Library, folder: Path) -> None:
    keeper = library.register_voice(create_voice("Keeper"))
    commands = [[sys.executable, "-m", "tests.support.writers", "write", str(folder), who, "25"] for who in "AB"]
    writers = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    threads = [
        threading.Thread(target=library.change, args=(keeper.id, VoiceChanges(name=f"Keeper {n}"))) for n in range(5)
    ]
    for thread in threads:
        thread.start()
    assert [writer.wait(60) for writer in writers] == [0, 0]
    for thread in threads:
        thread.join()
    wanted = {f"{who} {number}!" for who in "AB" for number in range(0, 25, 2)}
    library.open()  # A single poll reads only some of many files.
    found = set(names(library))
    assert wanted <= found
    # One voice that was renamed by another process exists under its last name.
    assert len(found - wanted - {"Shared"}) == 1
    assert library.problems() == ()
    assert names(opened(folder)) == names(library)


@pytest.mark.slow
def test_killed_writer_leaves_the_old_or_the_new_file(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "tests.support.writers", "kill", str(folder), "100"], cwd=ROOT, check=True)
    assert len(files(folder)) == 1  # The temporary files of the killed writers were deleted.


# --- Tests of errors of the disk.


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, "full"), (errno.EROFS, "cannot be written"), (errno.EIO, "an error")]
)
def test_failed_write_is_reported_and_leaves_stored_voices_unchanged(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    card = library.register_voice(create_voice("Clara"))
    before = library.export(card.id)

    def fail(_: int) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        for work in (
            lambda: library.register_voice(create_voice("Other")),
            lambda: library.register_voice(create_voice("Clara"), replace_id=card.id),
            lambda: library.change(card.id, VoiceChanges(name="Other")),
        ):
            with pytest.raises(StorageFailed, match=reason):
                work()
    assert library.export(card.id) == before
    assert library.cards() == (card,)
    assert files(folder) == {f"{card.id}.voice"}


def test_folder_that_cannot_be_created_is_an_empty_library(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    library = opened(tmp_path / "file" / "voices")
    assert library.cards() == ()
    with pytest.raises(StorageFailed):
        library.register_voice(create_voice())


def test_unusable_voice_index_is_rebuilt(library: Library, folder: Path) -> None:
    card = library.register_voice(create_voice("Clara"))
    library.close()
    for spoil in (lambda path: path.write_bytes(b"no database" * 1000), lambda path: path.unlink()):
        spoil(folder / FILE)
        for tail in ("-wal", "-shm"):
            (folder / f"{FILE}{tail}").unlink(missing_ok=True)
        again = opened(folder)
        assert again.cards() == (card,)
        assert [card.name for card in again.search("clara")] == ["Clara"]
        again.close()
    (folder / FILE).unlink()
    (folder / FILE).mkdir()  # The index file cannot be created, so the index is kept in memory.
    again = opened(folder)
    assert again.register_voice(create_voice("Other")).name == "Other"
    assert names(again) == ["Clara", "Other"]


def test_outdated_voice_index_is_updated(library: Library, folder: Path) -> None:
    first, second = library.register_voice(create_voice("First")), library.register_voice(create_voice("Second"))
    library.close()
    with sqlite3.connect(folder / FILE) as index:
        index.execute("UPDATE voices_2 SET version = 'old', card = replace(card, 'First', 'Wrong')")
        index.execute("DELETE FROM voices_2 WHERE file = ?", (f"{second.id}.voice",))
    assert {card.id: card.name for card in opened(folder).cards()} == {first.id: "First", second.id: "Second"}


def test_externally_damaged_file_is_refused_when_read(library: Library, folder: Path) -> None:
    card = library.register_voice(create_voice("Clara"))
    with (folder / f"{card.id}.voice").open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\x7f")
    for work in (library.reference, library.export):
        with pytest.raises(VoiceFileInvalid):
            work(card.id)


def test_reader_does_not_wait_for_a_writer(library: Library) -> None:
    card = library.register_voice(create_voice("Clara"))
    found: list[object] = []
    with library._writing():
        reader = threading.Thread(target=lambda: found.append(library.find("clara")))
        reader.start()
        reader.join(60)
    assert found == [card]
