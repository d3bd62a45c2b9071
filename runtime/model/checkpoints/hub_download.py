"""Download of checkpoints from the Hub into its cache, with resume after interruptions.

``snapshot_download`` of huggingface_hub cannot resume a download that another process began. Therefore weights are
downloaded to ``blobs/HASH.incomplete`` by huggingface_hub's ``http_get``, which can resume, and verified by hash. Then
``snapshot_download`` finds the weights in the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_url, snapshot_download
from huggingface_hub.errors import HFValidationError, IncompleteSnapshotError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import WeakFileLock, build_hf_headers

from runtime.errors import DownloadDamaged, HubUnreachable
from runtime.model.checkpoints.config_files import read_model_config, read_speech_tokenizer_config
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import SPEECH_TOKENIZER, choose_files, list_files
from runtime.model.checkpoints.hub import SHA256_LENGTH, HubFile, HubListing, find_cached_copy, request_listing
from runtime.model.checkpoints.hub_access import cache_folder, hub_errors
from runtime.model.config import ModelConfig

# Timeout in seconds for the lock of a file. Another process may hold the lock because it downloads the file.
LOCK_TIMEOUT_S = 2.0
# Number of bytes per write. A process that is killed loses the bytes of an unfinished write. With the library's default
# of 10 MB, one write may take minutes.
PIECE = 2**16

constants.DOWNLOAD_CHUNK_SIZE = PIECE

# Arguments: name of the step, number of downloaded bytes, total number of bytes.
OnProgress = Callable[[str, int, int], None]


def download_checkpoint(reference: str) -> Path:
    """Download the missing files of a checkpoint, and return its folder in the Hub's cache.

    If the Hub cannot be reached, a complete cached checkpoint is used.

    Raises:
        CheckpointMissing, CheckpointUnsupported, CheckpointInvalid: The checkpoint cannot be loaded.
        HubRefused, HubUnreachable, DiskFull: The download failed.
    """
    try:
        listed = request_listing(reference)
    except HubUnreachable:
        if (folder := _folder_here(reference)) is None:
            raise
        return folder
    return fetch_snapshot(listed)


def _folder_here(reference: str) -> Path | None:
    """Return the cache folder of a checkpoint if it is complete."""
    name, _, revision = reference.partition("@")
    try:
        folder = Path(snapshot_download(name, revision=revision or None, local_files_only=True))
    # The library reports an incomplete repository, because only the required files were downloaded.
    except IncompleteSnapshotError as error:
        folder = Path(error.snapshot_path)
    except (OSError, HFValidationError):
        return None
    choice = choose_files(folder, list_files(folder), lambda path: read_json(folder / path))
    return None if choice.problems else folder


def fetch_config_files(listed: HubListing) -> ModelConfig:
    """Download all files except the weights, and return the checkpoint's configuration.

    The configurations are checked before the large download of the weights.

    Raises:
        CheckpointMissing, CheckpointInvalid: The checkpoint cannot be loaded.
        HubRefused, HubUnreachable, DiskFull: The download failed.
    """
    folder = fetch_snapshot(listed, weights=False)
    read_speech_tokenizer_config(folder / SPEECH_TOKENIZER)
    return read_model_config(folder)


def fetch_snapshot(listed: HubListing, *, weights: bool = True) -> Path:
    """Download the missing files of a checkpoint, and return its cache folder.

    Raises:
        HubRefused, HubUnreachable, DiskFull: The download failed.
    """
    # Without the weights, the snapshot is incomplete. Therefore the cache's revision still points to an earlier one.
    revision = listed.revision if weights else listed.commit
    with hub_errors(listed.name):
        return Path(snapshot_download(listed.name, revision=revision, allow_patterns=listed.names(weights=weights)))


def fetch_weights(listed: HubListing, on_progress: OnProgress) -> None:
    """Download the weights, and then all other missing files.

    Another process can resume an interrupted download.

    Raises:
        HubRefused, HubUnreachable, DiskFull: The download failed. The next call resumes the download.
        DownloadDamaged: The content does not match the Hub's hash.
    """
    for file in sorted((file for file in listed.files if file.is_weights), key=lambda file: file.size):
        on_progress("fetching", listed.here, listed.size)
        if listed.held(file) < file.size or not listed.blob(file).exists():
            _fetch_file(listed, file, on_progress)
    fetch_snapshot(listed)


def _fetch_file(listed: HubListing, file: HubFile, on_progress: OnProgress) -> None:
    blob, part = listed.blob(file), listed.part(file)
    lock = cache_folder() / ".locks" / listed.folder.name / f"{file.hash}.lock"
    with hub_errors(listed.name):
        blob.parent.mkdir(parents=True, exist_ok=True)
        lock.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock, timeout=LOCK_TIMEOUT_S):
            if blob.exists():
                return
            if same := find_cached_copy(file):
                try:
                    os.link(same.resolve(), blob)
                    return
                except OSError:  # The file system has no hard links.
                    shutil.copyfile(same, part)
            if part.exists() and part.stat().st_size > file.size:
                part.unlink()
            before = listed.here - listed.held(file)
            with _PartFile(part, lambda got: on_progress("fetching", before + got, listed.size)) as sink:
                http_get(
                    hf_hub_url(listed.name, file.path, revision=listed.commit),
                    sink,
                    resume_size=sink.tell(),
                    headers=build_hf_headers(),
                    expected_size=file.size,
                )
            on_progress("checking", before + file.size, listed.size)
            if _hash_of(part, file) != file.hash:
                part.unlink()
                raise DownloadDamaged(name=f"{listed.name}/{file.path}")
            os.replace(part, blob)


class _PartFile(BufferedWriter):
    """File to which a download is appended, and which reports its size after each write."""

    def __init__(self, path: Path, on_size: Callable[[int], None]) -> None:
        super().__init__(FileIO(path, "ab"))
        self._on_size = on_size

    def write(self, piece: Any, /) -> int:
        count = super().write(piece)
        self._on_size(self.tell())
        return count


def _hash_of(path: Path, file: HubFile) -> str:
    sha256 = len(file.hash) == SHA256_LENGTH
    digest = hashlib.sha256() if sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as source:
        return hashlib.file_digest(source, lambda: digest).hexdigest()
