"""FLAC files of stored recordings, with the metadata record as a tag.

Files are written atomically. The database can be restored from them if it is lost. Each reference recording of a cloned
voice is stored once, and its checksum is the file name. Thread: any. Writers must hold the lock of the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from runtime.errors import BadReferenceAudio
from runtime.shared.audio.encoding import Encoder, read_tags
from runtime.shared.audio.samples import read_pcm
from runtime.shared.files import locked, make_private, remove_file, replace_file, storing, sweep
from runtime.shared.names import is_id
from runtime.shared.strict_json import MAX_DEPTH, parse_object
from studio.errors import NotKept, TakeDamaged

log = logging.getLogger(__name__)

TAKES, REFERENCES = "takes", "references"
SUFFIX = ".flac"
RECORD_TAG = "voicewright_take"  # Name of the tag with the take's record.


class TakeFiles:
    """Two folders: the FLAC files of stored recordings, and reference recordings of voices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.takes = folder / TAKES
        self.references = folder / REFERENCES

    def open(self) -> None:
        """Create the audio folders, and delete the temporary files of processes that were killed.

        The caller must hold the lock.

        Raises:
            OSError: A folder cannot be created.
        """
        for folder in (self.takes, self.references):
            make_private(folder)
            sweep(folder)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the audio folders while the context is open, so that files can be written.

        Raises:
            StorageFailed: The disk is full or failed, or the folder is not writable.
        """
        with storing("The take", "takes"), locked(self.folder):
            yield

    def write(self, take_id: str, encoded: bytes) -> None:
        replace_file(self.takes, take_id + SUFFIX, encoded)

    def write_reference(self, sha256: str, data: bytes) -> None:
        if not (self.references / sha256).exists():
            replace_file(self.references, sha256, data)

    def remove(self, take_ids: Iterable[str]) -> None:
        for take_id in take_ids:
            remove_file(self.takes, take_id + SUFFIX)

    def remove_references(self, names: Iterable[str]) -> None:
        for name in names:
            remove_file(self.references, name)

    def take_ids(self) -> set[str]:
        """Return the ids of all recordings that have an audio file."""
        names = {name.removesuffix(SUFFIX) for name in os.listdir(self.takes) if name.endswith(SUFFIX)}
        return {name for name in names if is_id(name)}

    def reference_names(self) -> set[str]:
        return {name for name in os.listdir(self.references) if not name.startswith(".")}

    def pcm(self, take_id: str, sha256: str) -> bytes:
        """Read the samples of a recording (s16le, 24 kHz, mono), and verify their checksum.

        Raises:
            TakeDamaged: The file is missing or damaged.
        """
        try:
            pcm = read_pcm(str(self.takes / (take_id + SUFFIX)))
        except (BadReferenceAudio, OSError):
            raise TakeDamaged from None
        if hashlib.sha256(pcm).hexdigest() != sha256:
            raise TakeDamaged
        return pcm

    def reference(self, sha256: str) -> bytes:
        """Return the bytes of a voice's reference recording.

        `sha256` is the checksum of the recording.

        Raises:
            NotKept: The file is missing or damaged.
        """
        try:
            data = (self.references / sha256).read_bytes()
        except OSError:
            raise NotKept(what="reference") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise NotKept(what="reference")
        return data

    def record(self, take_id: str) -> tuple[str, dict[str, Any]] | None:
        """Read the owner and the metadata record from the tag of a recording's audio file.

        The result is None if the file or the tag is invalid.
        """
        path = self.takes / (take_id + SUFFIX)
        try:
            # The limit is one level higher than for requests, because the record is a value inside the tag's object.
            tag = parse_object(read_tags(str(path)).get(RECORD_TAG, ""), MAX_DEPTH + 1)
            owner, record = tag["owner"], tag["record"]
            self.pcm(take_id, record["sha256"])
        except (OSError, ValueError, KeyError, TypeError, TakeDamaged):
            log.warning("%s is damaged or no take of this studio; it is ignored", path)
            return None
        return (owner, record) if record.get("id") == take_id and isinstance(owner, str) else None

    def bytes_of(self, take_id: str) -> int:
        return (self.takes / (take_id + SUFFIX)).stat().st_size

    def reference_bytes(self, sha256: str | None) -> int:
        try:
            return 0 if sha256 is None else (self.references / sha256).stat().st_size
        except OSError:
            return 0


def encoded_take(pcm: bytes, owner: str, record: dict[str, Any]) -> bytes:
    """Encode a recording as FLAC, with its owner and its metadata record in a tag."""
    encoder = Encoder("flac", whole=True, tags={RECORD_TAG: json.dumps({"owner": owner, "record": record})})
    return encoder.encode_pcm(pcm) + encoder.finish()
