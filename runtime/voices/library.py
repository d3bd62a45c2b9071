"""Voice library: a folder with one file per voice, and an index of the files.

Other processes and file managers may read and write the same folder. Unusable files are reported and not changed.
Damaged files are renamed at the next start.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from platformdirs import user_data_dir

from runtime.errors import SpeechError, VoiceFileInvalid, VoiceNameLooksAlike, VoiceNameTaken, VoiceNotFound
from runtime.request import Reference, VoicePrompt
from runtime.shared.files import locked, make_private, remove_file, replace_file, storing, sweep
from runtime.shared.names import checked_name, is_id, name_key, new_id
from runtime.shared.system import flags
from runtime.shared.text.confusables import find_confusable
from runtime.voices.index import IndexEntry, VoiceIndex
from runtime.voices.listing import (
    SUFFIX,
    UNREADABLE_SUFFIX,
    VoiceFileProblem,
    VoiceListing,
    create_listing,
    file_name_of,
)
from runtime.voices.voice import Voice, VoiceCard, VoiceChanges, to_float
from runtime.voices.voice_file import MAX_BYTES, MAX_PROMPTS, OTHER_VERSION, read_voice, write_voice

# Reason for a file that may become readable later. Causes are disk or network failures, missing permissions, and too
# many open files.
CANNOT_BE_READ = "it cannot be read"
NO_FILE = "it is no regular file"

log = logging.getLogger(__name__)

# Maximum number of files that one call of `cards` or `find` reads. Reading them takes about 20 ms.
MAX_READS_PER_CALL = 8
STALE_STAMP = 0  # Timestamp that no folder can have. It forces another scan.
UNREAD_VERSION = ""  # Version of a file that could not be read.
COPY_SETTLE_S = 60.0  # Seconds without a change after which a file counts as completely copied.
SETTLED_NS = 100_000_000  # Nanoseconds in which another change may leave the timestamp of a folder unchanged.


def library_folder(voices: str, data: str = "") -> Path:
    """Return the folder of stored voices from the settings.

    Args:
        voices: Setting for the folder of voices, or "" for the default folder.
        data: Setting for the data folder, which contains the default folder. If it is "", the user's data folder is
            used.
    """
    return Path(voices) if voices else Path(data or user_data_dir("voicewright")) / "voices"


class Library:
    """Voice library on disk.

    Thread: any.

    `cards` and `find` do not wait for writers and do not read known voice files. All other methods may block on disk
    access. The folder is created with the first voice.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Fingerprint of the loaded Base checkpoint, whose voice prompts are used. None if no Base checkpoint is loaded.
        self.fingerprint: str | None = None
        self._lock = threading.RLock()
        self._index: VoiceIndex | None = None
        self._entries: dict[str, IndexEntry] = {}  # Entries by file name. The index contains the same entries.
        self._listing = VoiceListing()
        self._unreadable_files: tuple[str, ...] = ()  # Names of damaged files that were renamed.

    def open(self) -> None:
        """Read the folder, and delete temporary files that were left by killed processes.

        An unreadable folder is treated as empty.
        """
        with self._lock:
            self._refresh()
            with contextlib.suppress(OSError), locked(self.folder):
                sweep(self.folder)
                self._rename_damaged_files()
            self._refresh()
        for problem in self._listing.problems:
            log.warning("%s in the folder of the voices cannot be used: %s", problem.file, problem.why)

    def close(self) -> None:
        with self._lock:
            if self._index is not None:
                self._index.close()
                self._index = None

    # --- Methods that read voices.

    def cards(self) -> tuple[VoiceCard, ...]:
        """Return all usable voices, sorted by name."""
        return self._current().cards

    def find(self, name_or_id: str) -> VoiceCard | None:
        """Return the voice with this id or case-insensitive name, or None."""
        listing = self._current()
        return listing.by_id.get(name_or_id) or listing.by_name.get(name_key(name_or_id))

    def search(self, words: str) -> tuple[VoiceCard, ...]:
        """Return the voices whose metadata contains all words.

        The name, description, tags, language and transcript are searched.
        """
        listing = self._current()
        with self._lock:
            try:
                ids = self._opened().search(words)
            except sqlite3.Error:
                self._forget_index()
                self._refresh()
                ids = self._opened().search(words)
        return tuple(card for card in listing.cards if card.id in ids)

    def problems(self) -> tuple[VoiceFileProblem, ...]:
        """Return the unusable voice files with the reason for each file.

        A file is unusable if it is not a valid voice, or if another voice has the same name.
        """
        return self._current().problems

    def without_prompt(self, fingerprint: str) -> tuple[str, ...]:
        """Return the ids of recorded voices that have no prompt of the given checkpoint.

        Args:
            fingerprint: Fingerprint of the checkpoint.
        """
        listing = self._current()
        return tuple(card.id for card in listing.cards if card.seconds and fingerprint not in listing.prompts[card.id])

    def reference(self, voice_id: str) -> Reference:
        """Return a stored voice as a `Reference`, which can be used in a speech request.

        If the voice has a prompt of the checkpoint in use, the reference includes this prompt.

        Raises:
            VoiceNotFound, VoiceFileInvalid: The voice was deleted or damaged in the meantime.
        """
        return self._read(voice_id).as_reference(self.fingerprint)

    def export(self, voice_id: str) -> bytes:
        """Return the content of a voice's file as bytes.

        Raises:
            VoiceNotFound, VoiceFileInvalid: The voice was deleted or damaged in the meantime.
        """
        data = self._read_bytes(voice_id)
        read_voice(data)
        return data

    # --- Methods that change voices. If the disk refuses a write, they change nothing and raise StorageFailed.

    def register_voice(self, voice: Voice, *, replace_id: str | None = None) -> VoiceCard:
        """Store a voice and return its card.

        Args:
            replace_id: Id of the voice to replace. The new voice keeps this id.

        Raises:
            InvalidConfig: The name of the voice is invalid.
            VoiceNameTaken, VoiceNameLooksAlike: Another voice has an equal or a similar name.
            VoiceNotFound: The voice to replace does not exist.
        """
        with self._writing():
            if replace_id is not None:
                self._known(replace_id)
            return self._put(replace(voice, id=replace_id or voice.id, name=checked_name(voice.name)))

    def import_(self, voice: Voice) -> VoiceCard:
        """Store a voice that comes from a voice file.

        The voice keeps its id if no other voice has this id.

        Raises:
            VoiceNameTaken, VoiceNameLooksAlike: Another voice has an equal or a similar name.
        """
        with self._writing():
            is_free = not (self.folder / file_name_of(voice.id)).exists()
            return self._put(replace(voice, id=voice.id if is_free else new_id()))

    def change(self, voice_id: str, edit: VoiceChanges) -> VoiceCard:
        """Change the metadata of a voice, and return its card.

        Raises:
            InvalidConfig: A value is invalid.
            NoRecording, TranscriptMismatch: The transcript cannot be changed.
            VoiceNameTaken, VoiceNameLooksAlike: Another voice has an equal or a similar name.
            VoiceNotFound, VoiceFileInvalid: The voice no longer exists.
        """
        with self._writing():
            return self._put(edit.apply_to(self._read(voice_id)))

    def delete(self, voice_id: str) -> None:
        """Delete a voice permanently.

        Raises:
            VoiceNotFound: The voice does not exist.
        """
        with self._writing():
            self._known(voice_id)
            remove_file(self.folder, file_name_of(voice_id))
            self._refresh()

    def keep_prompt(self, voice_id: str, prompt: VoicePrompt, *, made_from: Reference | None = None) -> None:
        """Store a prompt that a checkpoint has computed for a voice.

        If the audio or the transcript of the voice has changed since then, nothing is stored.

        Args:
            voice_id: Id of the voice.
            prompt: Voice prompt with the fingerprint of its checkpoint.
            made_from: Reference from which the prompt was computed, or None to skip the comparison.

        Raises:
            VoiceNotFound, VoiceFileInvalid: The voice no longer exists.
        """
        with self._writing():
            voice = self._read(voice_id)
            if made_from is not None:
                is_same = np.array_equal(made_from.samples, to_float(voice.reference))
                if not is_same or made_from.text != voice.transcript:
                    return
            others = [(name, stored) for name, stored in voice.prompts.items() if name != prompt.fingerprint]
            prompts = dict([*others[: MAX_PROMPTS - 1], (prompt.fingerprint, prompt)])
            self._put(replace(voice, prompts=prompts))

    # --- Methods that write and read voice files.

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Context manager that locks the folder for writing and refreshes the listing."""
        with self._lock, storing("The voice", "voices"):
            make_private(self.folder)
            with locked(self.folder):
                self._refresh()
                yield

    def _put(self, voice: Voice) -> VoiceCard:
        other = self._listing.by_name.get(name_key(voice.name))
        if other is not None and other.id != voice.id:
            raise VoiceNameTaken(param="name")
        if other is None:
            others = (card.name for card in self._listing.cards if card.id != voice.id)
            if (confusable := find_confusable(voice.name, others)) is not None:
                raise VoiceNameLooksAlike(other=confusable, param="name")
        data = write_voice(voice)
        read_voice(data)  # Check that the written voice can be read.
        replace_file(self.folder, file_name_of(voice.id), data)
        self._refresh(written=file_name_of(voice.id))
        return self._known(voice.id)

    def _known(self, voice_id: str) -> VoiceCard:
        card = self._listing.by_id.get(voice_id)
        if card is None:
            raise VoiceNotFound
        return card

    def _read(self, voice_id: str) -> Voice:
        return read_voice(self._read_bytes(voice_id))

    def _read_bytes(self, voice_id: str) -> bytes:
        if not is_id(voice_id):
            raise VoiceNotFound
        return read_file(self.folder / file_name_of(voice_id), MAX_BYTES)

    # --- Methods that keep the list of voices up to date with the folder.

    def _current(self) -> VoiceListing:
        """Return the listing, refreshed if the folder has changed.

        If another thread is refreshing the listing, the current listing is returned.
        """
        if self._listing.stamp != self._folder_time() and self._lock.acquire(blocking=False):
            try:
                self._refresh(max_files=MAX_READS_PER_CALL)
            finally:
                self._lock.release()
        return self._listing

    def _folder_time(self) -> int | None:
        """Return the folder's modification time in ns, or None if the folder does not exist."""
        try:
            return os.stat(self.folder).st_mtime_ns
        except OSError:
            return None

    def _refresh(self, *, written: str | None = None, max_files: int | None = None) -> None:
        """Update index and listing from the files.

        `written` is a file that was just written. The caller must hold the lock.
        """
        stamp = self._folder_time()
        try:
            is_whole = self._follow(written, max_files)
        except sqlite3.Error:
            self._forget_index()
            is_whole = self._follow(written, max_files)
        if not is_whole or (stamp is not None and time.time_ns() - stamp < SETTLED_NS):
            stamp = STALE_STAMP
        self._listing = create_listing(stamp, self._entries.values(), self._unreadable_files)

    def _follow(self, written: str | None, max_files: int | None) -> bool:
        """Read the changed files and update the index.

        Args:
            max_files: Maximum number of files to read.

        Returns:
            True if no further files have changed.
        """
        files = self._files()
        if files is None:  # The folder cannot be read now, but the voices that were found earlier may still exist.
            return False
        if not files and self._index is None:
            return True
        index = self._opened()
        known = {file: entry.version for file, entry in self._entries.items()}
        different = [file for file, version in files.items() if file == written or known.get(file) != version]
        read = {file: self._entry(file, files[file]) for file in different[:max_files]}
        readable = {file: entry for file, entry in read.items() if entry is not None}
        changed = {file: entry for file, entry in readable.items() if entry != self._entries.get(file)}
        gone = known.keys() - files.keys()
        if changed or gone:
            index.update(changed.values(), gone)
            self._entries = {file: entry for file, entry in {**self._entries, **changed}.items() if file in files}
        return len(readable) == len(different) and all(entry.version != UNREAD_VERSION for entry in readable.values())

    def _files(self) -> dict[str, str] | None:
        """Return the version of each voice file, or None if the folder cannot be read now."""
        versions: dict[str, str] = {}
        try:
            with os.scandir(self.folder) as items:
                unreadable_files = []
                for item in items:
                    if item.name.endswith(SUFFIX + UNREADABLE_SUFFIX):
                        unreadable_files.append(item.name)
                    elif item.name.endswith(SUFFIX) and not item.name.startswith("."):
                        with contextlib.suppress(OSError):  # The file may have been deleted in the meantime.
                            state = item.stat(follow_symlinks=False)
                            versions[item.name] = f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
                self._unreadable_files = tuple(unreadable_files)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError:
            return None
        return versions

    def _rename_damaged_files(self) -> None:
        """Rename damaged files, so that they are not read again.

        The caller must hold the lock. Recent files are skipped because they may still be being copied. Files of a newer
        format are also skipped.
        """
        for file in [entry.file for entry in self._entries.values() if entry.problem is not None]:
            path = self.folder / file
            state = path.stat(follow_symlinks=False)
            if not stat.S_ISREG(state.st_mode) or time.time() - state.st_mtime < COPY_SETTLE_S:
                continue
            try:
                read_voice(read_file(path, MAX_BYTES))
            except VoiceNotFound:
                continue
            except VoiceFileInvalid as error:
                if error.facts["why"] not in {OTHER_VERSION, CANNOT_BE_READ}:
                    path.rename(path.with_name(file + UNREADABLE_SUFFIX))

    def _entry(self, file: str, version: str) -> IndexEntry | None:
        """Read the index entry of a file, or return None if the file has just been deleted."""
        entry = IndexEntry(file, version)
        voice_id = file.removesuffix(SUFFIX)
        if not is_id(voice_id):
            return replace(entry, problem="Its file name is not the id of a voice; import it instead.")
        try:
            data = self._read_bytes(voice_id)
            voice = read_voice(data)
        except VoiceNotFound:
            return None
        except SpeechError as error:
            is_unread = error.facts.get("why") == CANNOT_BE_READ
            return replace(entry, problem=str(error), version=UNREAD_VERSION if is_unread else version)
        except Exception:  # An error in one file must not hide the other files.
            log.exception("%s could not be read", file)
            return replace(entry, problem="It cannot be read.")
        if voice.id != voice_id:
            return replace(entry, problem="Its file name is the id of another voice; import it instead.")
        return replace(entry, card=voice.card(len(data)), prompts=frozenset(voice.prompts))

    def _opened(self) -> VoiceIndex:
        if self._index is None:
            self._index = VoiceIndex.open(self.folder)
            self._entries = {entry.file: entry for entry in self._index.entries()}
        return self._index

    def _forget_index(self) -> None:
        """Continue with an index in memory after an error."""
        log.warning("the index of the voices cannot be used; it is kept in memory")
        self.close()
        self._index = VoiceIndex.in_memory()
        self._entries = {}


def read_file(path: Path, max_bytes: int) -> bytes:
    """Read a regular file of at most `max_bytes` bytes.

    Raises:
        VoiceNotFound: The file does not exist.
        VoiceFileInvalid: The file is larger, is not a regular file, or cannot be read.
    """
    try:
        # Symbolic links are not followed, and named pipes do not block.
        descriptor = os.open(path, os.O_RDONLY | flags("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        try:
            # The file type is checked first, because os.fdopen would not close the descriptor of a folder.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise VoiceFileInvalid(why=NO_FILE)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(max_bytes + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise VoiceNotFound from None
    except OSError as error:
        if error.errno == errno.ELOOP:  # The path is a symbolic link.
            raise VoiceFileInvalid(why=NO_FILE) from None
        raise VoiceFileInvalid(why=CANNOT_BE_READ) from None
    if len(data) > max_bytes:
        raise VoiceFileInvalid(why=f"it has more than {max_bytes // 2**20} MB")
    return data
