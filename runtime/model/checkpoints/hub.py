"""File lists of checkpoints on the Hugging Face Hub, and their cached files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import SafetensorsParsingError
from huggingface_hub.file_download import repo_folder_name

from runtime.errors import CheckpointInvalid, CheckpointMissing, DiskFull
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import FileChoice, choose_files
from runtime.model.checkpoints.headers import Headers, TensorHeader
from runtime.model.checkpoints.hub_access import GB, cache_folder, free_cache_bytes, hub_errors

QUERY_TIMEOUT_S = 10.0  # Timeout in seconds of a request for a list of files.
WEIGHTS = ("*.safetensors", "model.bin")
RECOGNISER_FILES = ("config.json", "preprocessor_config.json", "model.bin", "tokenizer.json", "vocabulary.*")
SHA256_LENGTH = 64


@dataclass(frozen=True, slots=True)
class HubFile:
    """File of a Hub repository with its size and hash.

    The hash is SHA-256 for large files and git's SHA-1 for small files.
    """

    path: str
    size: int
    hash: str

    @property
    def is_weights(self) -> bool:
        return any(fnmatch(self.path, pattern) for pattern in WEIGHTS)


@dataclass(frozen=True, slots=True)
class HubListing:
    """Files of a Hub repository at one commit that are needed to load the model."""

    name: str
    revision: str | None
    commit: str
    files: tuple[HubFile, ...]
    choice: FileChoice = field(default_factory=FileChoice)  # Result of the file selection.

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def here(self) -> int:
        """Return the number of bytes of these files that are already in the local cache.

        The bytes of incomplete downloads are included.
        """
        return sum(self.held(file) for file in self.files)

    @property
    def missing(self) -> dict[str, int]:
        """Return the bytes of each file that are not in the local cache, by the file's hash.

        A file that two checkpoints share has the same hash in both.
        """
        return {file.hash: file.size - self.held(file) for file in self.files}

    def held(self, file: HubFile) -> int:
        """Return the number of bytes of a file that are already in the local cache.

        A file with the same hash from another repository counts too.
        """
        if (self.folder / "snapshots" / self.commit / file.path).exists() or find_cached_copy(file):
            return file.size
        with suppress(OSError):
            return min(self.part(file).stat().st_size, file.size)
        return 0

    def names(self, *, weights: bool = True) -> list[str]:
        """Return the paths to download as glob patterns.

        Args:
            weights: True to include the weight files.
        """
        return [escape(file.path) for file in self.files if weights or not file.is_weights]

    @property
    def folder(self) -> Path:
        return cache_folder() / repo_folder_name(repo_id=self.name, repo_type="model")

    def blob(self, file: HubFile) -> Path:
        return self.folder / "blobs" / file.hash

    def part(self, file: HubFile) -> Path:
        return self.folder / "blobs" / f"{file.hash}.incomplete"


def find_cached_copy(file: HubFile) -> Path | None:
    """Find a cached file with the same hash that was downloaded from any repository.

    Published checkpoints have some files in common.

    Returns:
        Path of the file, or None.
    """
    if len(file.hash) != SHA256_LENGTH:
        return None
    return next((path for path in cache_folder().glob(f"models--*/blobs/{file.hash}") if path.exists()), None)


def request_listing(reference: str) -> HubListing:
    """Request the file list of a checkpoint from the Hub.

    Raises:
        CheckpointMissing, CheckpointUnsupported, CheckpointInvalid: The checkpoint cannot be loaded.
        HubRefused, HubUnreachable: The request failed.
    """
    listed = request_file_list(reference)
    if listed.choice.problems:
        raise listed.choice.problems[0]
    return listed


def request_file_list(reference: str) -> HubListing:
    """Request the file list of a checkpoint, even if the checkpoint cannot be loaded.

    Raises:
        CheckpointMissing: The repository does not exist.
        HubRefused, HubUnreachable: The request failed.
    """
    full_id = _whole(reference)
    listed = {file.path: file for file in full_id.files}

    def index_of(path: str) -> dict[str, Any]:
        with hub_errors(reference):
            return read_json(Path(hf_hub_download(full_id.name, path, revision=full_id.commit)))

    choice = choose_files(reference, listed.keys(), index_of)
    return replace(full_id, files=tuple(listed[path] for path in choice.read), choice=choice)


def request_whisper_listing(reference: str) -> HubListing:
    """Request the file list of a Whisper speech recognition model in CTranslate2 format.

    Raises:
        CheckpointMissing: The repository does not exist or has no model in this format.
        HubRefused, HubUnreachable: The request failed.
    """
    full_id = _whole(reference)
    files = [file for file in full_id.files if any(fnmatch(file.path, pattern) for pattern in RECOGNISER_FILES)]
    if not any(file.is_weights for file in files):
        raise CheckpointMissing(path=reference, what="model.bin", hint="It is not a Whisper model of CTranslate2.")
    return replace(full_id, files=tuple(files))


def _whole(reference: str) -> HubListing:
    """Request the list of all files of a repository."""
    name, _, revision = reference.partition("@")  # A revision may contain slashes, such as refs/pr/1.
    with hub_errors(reference):
        info = HfApi().model_info(name, revision=revision or None, files_metadata=True, timeout=QUERY_TIMEOUT_S)
    files = tuple(
        HubFile(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else (file.blob_id or ""))
        for file in info.siblings or []
    )
    return HubListing(name, revision or None, info.sha or revision or "main", files)


def require_disk_space(listings: Sequence[HubListing]) -> None:
    """Check that the disk has space for the missing files of several checkpoints.

    A file that several checkpoints share is counted once.

    Raises:
        DiskFull: There is not enough space.
    """
    missing = {name: size for listed in listings for name, size in listed.missing.items()}
    if (need := sum(missing.values())) > (free := free_cache_bytes()):
        raise DiskFull(need=round(need / GB, 1), free=round(free / GB, 1), path=cache_folder())


def download_headers(listed: HubListing, paths: Sequence[str]) -> Headers:
    """Download the safetensors headers of weight files from the Hub.

    Only the start of each file is downloaded.

    Raises:
        CheckpointInvalid: A file is not in safetensors format, or two files have the same tensor.
        HubRefused, HubUnreachable: The request failed.
    """
    merged: Headers = {}
    for path in paths:
        try:
            with hub_errors(listed.name):
                in_file = HfApi().parse_safetensors_file_metadata(listed.name, path, revision=listed.commit).tensors
        except SafetensorsParsingError:
            why = "it is not a readable safetensors file"
            raise CheckpointInvalid(path=f"{listed.name}/{path}", why=why) from None
        if merged.keys() & in_file.keys():
            raise CheckpointInvalid(path=listed.name, why="two of its files hold the same tensor")
        merged |= {key: TensorHeader(tuple(tensor.shape), tensor.dtype) for key, tensor in in_file.items()}
    return merged
