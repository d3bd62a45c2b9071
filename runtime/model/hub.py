"""Lists what a repository of the Hub has of a checkpoint, and how much of that is here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import SafetensorsParsingError
from huggingface_hub.file_download import repo_folder_name

from runtime.errors import CheckpointInvalid, DiskFull
from runtime.model.config_reader import read_json
from runtime.model.files import FileChoice, choose_files
from runtime.model.headers import Headers, TensorHeader
from runtime.model.hub_access import GB, asking, cache, room

ASK_S = 10.0  # for the Hub to answer what it has
WEIGHTS = "*.safetensors"
SHA256_LENGTH = 64


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the Hub lists it. ``hash`` is its SHA-256, or git's SHA-1 where it is small."""

    path: str
    size: int
    hash: str

    @property
    def is_weights(self) -> bool:
        return fnmatch(self.path, WEIGHTS)


@dataclass(frozen=True, slots=True)
class Listing:
    """What of a repository is needed, at one commit, as far as it is there."""

    name: str
    revision: str | None
    commit: str
    files: tuple[HubFile, ...]
    choice: FileChoice = field(default_factory=FileChoice)  # by which they are needed

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def here(self) -> int:
        """Bytes that need not be fetched any more, beginnings of files among them."""
        return sum(self.held(file) for file in self.files)

    def held(self, file: HubFile) -> int:
        """Bytes of a file that are here, whichever repository brought them."""
        if (self.folder / "snapshots" / self.commit / file.path).exists() or elsewhere(file):
            return file.size
        with suppress(OSError):
            return min(self.part(file).stat().st_size, file.size)
        return 0

    def names(self, *, weights: bool = True) -> list[str]:
        """What is fetched, as patterns that nothing else matches; with or without the weights."""
        return [escape(file.path) for file in self.files if weights or not file.is_weights]

    @property
    def folder(self) -> Path:
        return cache() / repo_folder_name(repo_id=self.name, repo_type="model")

    def blob(self, file: HubFile) -> Path:
        return self.folder / "blobs" / file.hash

    def part(self, file: HubFile) -> Path:
        return self.folder / "blobs" / f"{file.hash}.incomplete"


def elsewhere(file: HubFile) -> Path | None:
    """Return a file with this hash from any repository in the cache; all published ones share the speech tokenizer."""
    if len(file.hash) != SHA256_LENGTH:
        return None
    return next((path for path in cache().glob(f"models--*/blobs/{file.hash}") if path.exists()), None)


def listing(reference: str) -> Listing:
    """Ask the Hub what a checkpoint consists of.

    Raises:
        CheckpointMissing, CheckpointUnsupported, CheckpointInvalid: it is none that could be loaded.
        HubRefused, HubUnreachable: it does not say.
    """
    listed = contents(reference)
    if listed.choice.problems:
        raise listed.choice.problems[0]
    return listed


def contents(reference: str) -> Listing:
    """As `listing`, of whatever there is.

    Raises:
        CheckpointMissing: there is no such repository.
        HubRefused, HubUnreachable: it does not say.
    """
    name, _, revision = reference.partition("@")  # a revision may hold slashes (refs/pr/1)
    with asking(reference):
        info = HfApi().model_info(name, revision=revision or None, files_metadata=True, timeout=ASK_S)
    listed = {
        file.rfilename: HubFile(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else (file.blob_id or ""))
        for file in info.siblings or []
    }
    commit = info.sha or revision or "main"

    def index_of(path: str) -> dict[str, Any]:
        with asking(reference):
            return read_json(Path(hf_hub_download(name, path, revision=commit)))

    choice = choose_files(reference, listed.keys(), index_of)
    read = tuple(listed[path] for path in choice.read)
    return Listing(name, revision or None, commit, read, choice)


def require_room(listings: Sequence[Listing]) -> None:
    """Refuse what the disk cannot hold; what several have in common counts once.

    Raises:
        DiskFull: it cannot.
    """
    missing = {file.hash: file.size - listed.held(file) for listed in listings for file in listed.files}
    if (need := sum(missing.values())) > (free := room()):
        raise DiskFull(need=round(need / GB, 1), free=round(free / GB, 1), path=cache())


def headers(listed: Listing, paths: Sequence[str]) -> Headers:
    """What files of weights on the Hub say of their tensors; of each no more than its beginning is fetched.

    Raises:
        CheckpointInvalid: one is no safetensors file, or two hold the same tensor.
        HubRefused, HubUnreachable: the Hub does not give it.
    """
    found: Headers = {}
    for path in paths:
        try:
            with asking(listed.name):
                told = HfApi().parse_safetensors_file_metadata(listed.name, path, revision=listed.commit).tensors
        except SafetensorsParsingError:
            why = "it is not a readable safetensors file"
            raise CheckpointInvalid(path=f"{listed.name}/{path}", why=why) from None
        if found.keys() & told.keys():
            raise CheckpointInvalid(path=listed.name, why="two of its files hold the same tensor")
        found |= {key: TensorHeader(tuple(tensor.shape), tensor.dtype) for key, tensor in told.items()}
    return found
