"""Fetches checkpoints from the Hub into its cache, and goes on where an earlier attempt stopped.

The cache is huggingface_hub's own, in its layout, so that other programs use what is here and this one what they have
fetched. Its ``snapshot_download`` begins a file anew after every end of a process; weights are therefore written into
``blobs/HASH.incomplete`` by its ``http_get``, which can go on in the middle, compared with their hash, and then found
by ``snapshot_download`` as if it had fetched them itself.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
from filelock import Timeout
from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    IncompleteSnapshotError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.utils import WeakFileLock, build_hf_headers, disable_progress_bars

from runtime.errors import (
    CheckpointInvalid,
    CheckpointMissing,
    DiskFull,
    DownloadDamaged,
    HubRefused,
    HubUnreachable,
    SetUpError,
)
from runtime.model.config import ModelConfig
from runtime.model.config_files import read_model_config, read_speech_tokenizer_config
from runtime.model.config_reader import read_json
from runtime.model.files import SPEECH_TOKENIZER, FileChoice, choose_files, names_in
from runtime.model.headers import Headers, TensorHeader

ASK_S = 10.0  # for the Hub to answer what it has
LOCK_S = 2.0  # for another process that fetches the same file
KEPT_FREE = 2**30  # bytes of the disk that are left to others
PIECE = 2**16  # bytes that are written at once, and lost where the process is ended: the library's 10 MB are minutes
WEIGHTS = "*.safetensors"
SHA256_LENGTH = 64
GB = 10**9

constants.DOWNLOAD_CHUNK_SIZE = PIECE
disable_progress_bars()  # how far it is says `fetch` itself

Tell = Callable[[str, int, int], None]  # a step, bytes that are here, bytes in all


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
        if (self.folder / "snapshots" / self.commit / file.path).exists() or _elsewhere(file):
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


def cache() -> Path:
    """The Hub's cache on this machine."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def room() -> int:
    """Bytes of the cache's disk that may be filled."""
    folder = cache()
    while not folder.exists():
        folder = folder.parent
    return max(0, shutil.disk_usage(folder).free - KEPT_FREE)


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
    with _asking(reference):
        info = HfApi().model_info(name, revision=revision or None, files_metadata=True, timeout=ASK_S)
    listed = {
        file.rfilename: HubFile(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else (file.blob_id or ""))
        for file in info.siblings or []
    }
    commit = info.sha or revision or "main"

    def index_of(path: str) -> dict[str, Any]:
        with _asking(reference):
            return read_json(Path(hf_hub_download(name, path, revision=commit)))

    choice = choose_files(reference, listed.keys(), index_of)
    read = tuple(listed[path] for path in choice.read)
    return Listing(name, revision or None, commit, read, choice)


def folder_of(reference: str) -> Path:
    """The folder of a whole checkpoint in the cache; what is not here is fetched.

    Where the Hub cannot be asked, what is here has to do.

    Raises:
        CheckpointMissing, CheckpointUnsupported, CheckpointInvalid: it is none that could be loaded.
        HubRefused, HubUnreachable, DiskFull: it does not come.
    """
    try:
        listed = listing(reference)
    except HubUnreachable:
        if (folder := _folder_here(reference)) is None:
            raise
        return folder
    with _asking(reference):
        return Path(snapshot_download(listed.name, revision=listed.revision, allow_patterns=listed.names()))


def _folder_here(reference: str) -> Path | None:
    """The folder of a checkpoint in the cache, if it is whole there."""
    name, _, revision = reference.partition("@")
    try:
        folder = Path(snapshot_download(name, revision=revision or None, local_files_only=True))
    except IncompleteSnapshotError as error:  # by all of the repository's files, of which not all are fetched
        folder = Path(error.snapshot_path)
    except (OSError, HFValidationError):
        return None
    choice = choose_files(folder, names_in(folder), lambda path: read_json(folder / path))
    return None if choice.problems else folder


def require_room(listings: Sequence[Listing]) -> None:
    """Refuse what the disk cannot hold; what several have in common counts once.

    Raises:
        DiskFull: it cannot.
    """
    missing = {file.hash: file.size - listed.held(file) for listed in listings for file in listed.files}
    if (need := sum(missing.values())) > (free := room()):
        raise DiskFull(need=round(need / GB, 1), free=round(free / GB, 1), path=cache())


def fetch_small(listed: Listing) -> ModelConfig:
    """Fetch all but the weights, and read the configurations, before anything large is asked for.

    Raises:
        CheckpointMissing, CheckpointInvalid: it is no checkpoint that could be loaded.
        HubRefused, HubUnreachable, DiskFull: it does not come.
    """
    folder = fetch_beside_weights(listed)
    read_speech_tokenizer_config(folder / SPEECH_TOKENIZER)
    return read_model_config(folder)


def fetch_beside_weights(listed: Listing) -> Path:
    """Fetch all but the weights; the folder of it.

    Raises:
        HubRefused, HubUnreachable, DiskFull: it does not come.
    """
    with _asking(listed.name):
        return Path(snapshot_download(listed.name, revision=listed.commit, allow_patterns=listed.names(weights=False)))


def headers(listed: Listing, paths: Sequence[str]) -> Headers:
    """What files of weights on the Hub say of their tensors; of each no more than its beginning is fetched.

    Raises:
        CheckpointInvalid: one is no safetensors file, or two hold the same tensor.
        HubRefused, HubUnreachable: the Hub does not give it.
    """
    found: Headers = {}
    for path in paths:
        try:
            with _asking(listed.name):
                told = HfApi().parse_safetensors_file_metadata(listed.name, path, revision=listed.commit).tensors
        except SafetensorsParsingError:
            why = "it is not a readable safetensors file"
            raise CheckpointInvalid(path=f"{listed.name}/{path}", why=why) from None
        if found.keys() & told.keys():
            raise CheckpointInvalid(path=listed.name, why="two of its files hold the same tensor")
        found |= {key: TensorHeader(tuple(tensor.shape), tensor.dtype) for key, tensor in told.items()}
    return found


def fetch_weights(listed: Listing, tell: Tell) -> Path:
    """Fetch the rest; the folder of the whole. A process that is ended here leaves what it has for the next.

    Raises:
        HubRefused, HubUnreachable, DiskFull: it does not come; what has come is kept.
        DownloadDamaged: what came is not what the Hub lists.
    """
    for file in sorted((file for file in listed.files if file.is_weights), key=lambda file: file.size):
        if listed.held(file) < file.size or not listed.blob(file).exists():
            _fetch_file(listed, file, tell)
        tell("fetching", listed.here, listed.size)
    with _asking(listed.name):
        return Path(snapshot_download(listed.name, revision=listed.revision, allow_patterns=listed.names()))


def _fetch_file(listed: Listing, file: HubFile, tell: Tell) -> None:
    blob, part = listed.blob(file), listed.part(file)
    lock = cache() / ".locks" / listed.folder.name / f"{file.hash}.lock"
    with _asking(listed.name):
        blob.parent.mkdir(parents=True, exist_ok=True)
        lock.parent.mkdir(parents=True, exist_ok=True)
        with _alone(lock, listed.name):
            if blob.exists():
                return
            if same := _elsewhere(file):
                _link(same, blob)
                return
            if part.exists() and part.stat().st_size > file.size:
                part.unlink()
            before = listed.here - listed.held(file)

            def count(got: int) -> None:
                tell("fetching", before + got, listed.size)

            with part.open("ab") as sink:
                http_get(
                    hf_hub_url(listed.name, file.path, revision=listed.commit),
                    sink,
                    resume_size=sink.tell(),
                    headers=build_hf_headers(),
                    expected_size=file.size,
                    tqdm_class=_counting(count),
                )
            tell("checking", before + file.size, listed.size)
            if _hash_of(part, file) != file.hash:
                part.unlink()
                raise DownloadDamaged(name=f"{listed.name}/{file.path}")
            os.replace(part, blob)


def _elsewhere(file: HubFile) -> Path | None:
    """The same bytes in any repository of the cache: every published one holds the same speech tokenizer."""
    if len(file.hash) != SHA256_LENGTH:
        return None
    return next((path for path in cache().glob(f"models--*/blobs/{file.hash}") if path.exists()), None)


def _link(same: Path, blob: Path) -> None:
    """Let one file on the disk serve both."""
    try:
        os.link(same.resolve(), blob)
    except OSError:
        part = blob.with_name(f"{blob.name}.copy")
        shutil.copyfile(same, part)
        os.replace(part, blob)


def _hash_of(path: Path, file: HubFile) -> str:
    sha256 = len(file.hash) == SHA256_LENGTH
    digest = hashlib.sha256() if sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as source:
        while piece := source.read(64 * PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _counting(tell: Callable[[int], None]) -> type[Any]:
    """What http_get takes for a progress bar."""

    class Bar:
        def __init__(self, *, initial: int = 0, **_: object) -> None:
            self.got = initial
            tell(self.got)

        def update(self, more: int | float | None = 1) -> None:
            self.got += int(more or 0)
            tell(self.got)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
            return None

    return Bar


@contextmanager
def _alone(lock: Path, name: str) -> Iterator[None]:
    held = WeakFileLock(lock, timeout=LOCK_S)
    try:
        held.__enter__()
    except Timeout:
        raise HubRefused(name=name, why="another program on this machine is fetching it now") from None
    try:
        yield
    finally:
        held.__exit__(None, None, None)


@contextmanager
def _asking(reference: str) -> Iterator[None]:
    """Turn what goes wrong with the Hub into our errors.

    Raises:
        CheckpointMissing, HubRefused, HubUnreachable, DiskFull: what it was.
    """
    try:
        yield
    except SetUpError:
        raise
    except GatedRepoError:
        why = "its owner asks for an agreement; accept it on the Hub's page and sign in here with `hf auth login`"
        raise HubRefused(name=reference, why=why) from None
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError):
        hint = "The Hub has no repository or revision of this name (owner/name), or it is private."
        raise CheckpointMissing(path=reference, what="the checkpoint", hint=hint) from None
    except HfHubHTTPError as error:
        raise _unreachable(f"it answered with {error.response.status_code}") from None
    except OfflineModeIsEnabled:
        raise _unreachable("HF_HUB_OFFLINE is set") from None
    except httpx2.HTTPError as error:
        raise _unreachable(_why(error)) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(need="more", free=round(room() / GB, 1), path=cache()) from None
        if isinstance(error.__cause__, HfHubHTTPError | httpx2.HTTPError):
            raise _unreachable(_why(error.__cause__)) from None
        if error.errno is None:  # huggingface_hub's own: a file that ended early, a Hub that did not answer
            raise _unreachable("the connection broke off") from None
        raise HubRefused(name=reference, why=f"the cache cannot be written ({error.strerror})") from None


def _why(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, httpx2.ConnectError):
        return "no connection could be made"
    return "the connection broke off"


def _unreachable(why: str) -> HubUnreachable:
    return HubUnreachable(where=urlsplit(constants.ENDPOINT).netloc, why=why)
