"""Recycle bin with the files of deleted voices.

Thread: worker thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from runtime.errors import VoiceNotFound
from runtime.shared.files import make_private, replace_file, storing

SUFFIX = ".voice"
MAX_FILES = 32  # Maximum number of files per owner.
MAX_HEADER_BYTES = 256 * 2**10  # Maximum size of the JSON header that a voice file (safetensors) starts with.


class VoiceBin:
    """Recycle bin of voices, with a folder for each owner and a file for each deleted voice.

    The modification time of a file is the time of the deletion.
    """

    def __init__(self, folder: Path, keep_s: float) -> None:
        self._folder = folder
        self.keep_s = keep_s

    def put(self, owner: str, voice_id: str, data: bytes) -> None:
        """Store the file of a deleted voice in the recycle bin.

        Expired files, and the oldest files beyond the maximum number, are deleted.

        Raises:
            StorageFailed: Writing to the disk failed.
        """
        self.purge()
        path = self._path(owner, voice_id)
        with storing("The deleted voice", "bin"):
            make_private(path.parent)
            replace_file(path.parent, path.name, data)
            newest = sorted(path.parent.glob(f"*{SUFFIX}"), key=lambda kept: kept.stat().st_mtime_ns, reverse=True)
            for surplus in newest[MAX_FILES:]:
                surplus.unlink(missing_ok=True)

    def all(self, owner: str) -> list[dict[str, Any]]:
        """Return an owner's deleted voices, the newest first.

        Each voice has its id, its name and the seconds until it is deleted permanently.
        """
        self.purge()
        voices = []
        for path in self._path(owner, "").parent.glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError, ValueError, KeyError):  # Another request may delete the file.
                restorable_s = path.stat().st_mtime + self.keep_s - time.time()
                with path.open("rb") as file:
                    size = int.from_bytes(file.read(8), "little")
                    metadata = json.loads(file.read(min(size, MAX_HEADER_BYTES)))["__metadata__"]
                voices.append({"id": metadata["id"], "name": metadata["name"], "restorable_s": restorable_s})
        return sorted(voices, key=lambda voice: voice["restorable_s"], reverse=True)

    def has(self, owner: str, voice_id: str) -> bool:
        """Return True if the recycle bin has the file of this voice."""
        self.purge()
        return self._path(owner, voice_id).exists()

    def get(self, owner: str, voice_id: str) -> bytes:
        """Return the file of a deleted voice as bytes.

        Raises:
            VoiceNotFound: The recycle bin has no file of this voice, or the file has expired.
        """
        self.purge()
        try:
            return self._path(owner, voice_id).read_bytes()
        except OSError:
            raise VoiceNotFound from None

    def forget(self, owner: str, voice_id: str) -> None:
        with contextlib.suppress(OSError):
            self._path(owner, voice_id).unlink(missing_ok=True)

    def purge(self) -> None:
        """Delete the expired files in the recycle bin, and partial files of killed processes."""
        oldest = time.time() - self.keep_s
        with contextlib.suppress(OSError):
            for path in self._folder.glob("*/*"):
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()

    def _path(self, owner: str, voice_id: str) -> Path:
        # The owner and the voice id come from clients, so the path contains hashes of them instead.
        names = [hashlib.sha256(word.encode("utf-8", "surrogateescape")).hexdigest()[:32] for word in (owner, voice_id)]
        return self._folder / names[0] / (names[1] + SUFFIX)
