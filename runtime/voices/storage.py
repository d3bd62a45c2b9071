"""Reading of voice files, limited to regular files of a maximum size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from runtime.errors import VoiceFileInvalid, VoiceNotFound
from runtime.shared.system import flags

# Why a file is no voice now, and may be one later: a disk or a network failed, a right is missing, too many are open.
CANNOT_BE_READ = "it cannot be read"
NO_FILE = "it is no regular file"


def read_file(path: Path, most: int) -> bytes:
    """Read a regular file of at most so many bytes.

    Raises:
        VoiceNotFound: there is none.
        VoiceFileInvalid: it is larger, no regular file, or cannot be read.
    """
    try:
        # Neither a link nor a pipe is followed or waited for.
        descriptor = os.open(path, os.O_RDONLY | flags("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        try:
            # Looked at before Python's own file is made of it, which leaves a folder open that it refuses.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise VoiceFileInvalid(why=NO_FILE)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(most + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise VoiceNotFound from None
    except OSError as error:
        if error.errno == errno.ELOOP:  # A symbolic link.
            raise VoiceFileInvalid(why=NO_FILE) from None
        raise VoiceFileInvalid(why=CANNOT_BE_READ) from None
    if len(data) > most:
        raise VoiceFileInvalid(why=f"it has more than {most // 2**20} MB")
    return data
