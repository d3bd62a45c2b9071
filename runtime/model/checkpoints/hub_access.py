"""Cache folder, disk space and error conversion for downloads from the Hugging Face Hub.

Files are stored in the cache of huggingface_hub, where other programs can also use them.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from filelock import Timeout
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars

from runtime.errors import CheckpointMissing, DiskFull, HubRefused, HubUnreachable, SetUpError

RESERVED_DISK_BYTES = 2**30  # Number of bytes of disk space that downloads must leave free.
GB = 10**9

disable_progress_bars()  # The progress bars are disabled, because the command `fetch` prints its own progress.


def cache_folder() -> Path:
    """Return the path of huggingface_hub's cache folder."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def free_cache_bytes() -> int:
    """Return the number of bytes that downloads may still use on the disk of the Hub's cache.

    Some disk space stays reserved for other purposes.
    """
    folder = cache_folder()
    while not folder.exists():
        folder = folder.parent
    return max(0, shutil.disk_usage(folder).free - RESERVED_DISK_BYTES)


@contextmanager
def hub_errors(reference: str) -> Iterator[None]:
    """Convert errors of Hub requests in the ``with`` block to subclasses of SetUpError.

    Raises:
        CheckpointMissing, HubRefused, HubUnreachable, DiskFull: A Hub request failed.
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
    except Timeout:
        raise HubRefused(name=reference, why="another program on this machine is fetching it now") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(need="more", free=round(free_cache_bytes() / GB, 1), path=cache_folder()) from None
        if isinstance(error.__cause__, HfHubHTTPError | httpx2.HTTPError):
            raise _unreachable(_why(error.__cause__)) from None
        # An OSError without a number comes from huggingface_hub, for example after a truncated response.
        if error.errno is None:
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
