"""Reads a voice's file, unless it is too large or no regular file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runtime.errors import VoiceFileInvalid, VoiceNotFound
from runtime.shared.system import flags


def read_file(path: Path, most: int) -> bytes:
    """Read a regular file of at most so many bytes.

    Raises:
        VoiceNotFound: there is none.
        VoiceFileInvalid: it is larger, no regular file, or cannot be read.
    """
    try:
        # Neither a link nor a pipe is followed or waited for.
        descriptor = os.open(path, os.O_RDONLY | flags("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        with open(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise VoiceFileInvalid(why="it is no regular file")
            data = file.read(most + 1)
    except FileNotFoundError:
        raise VoiceNotFound from None
    except OSError:
        raise VoiceFileInvalid(why="it cannot be read") from None
    if len(data) > most:
        raise VoiceFileInvalid(why=f"it has more than {most // 2**20} MB")
    return data
