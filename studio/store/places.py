"""Detection of folders that do not survive the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Gone with the machine or its container.
FLEETING = {"overlay", "tmpfs", "ramfs", "aufs"}


def is_lasting(folder: Path, env: Mapping[str, str] | None = None, mounts: str = "/proc/self/mounts") -> bool:
    """Tell whether what lies in the folder is still there after a restart.

    On a Hugging Face Space it is only where a volume is mounted, as on /data; elsewhere a disk is taken for a disk.
    """
    env = os.environ if env is None else env
    if not env.get("SPACE_ID"):
        return True
    try:
        lines = [line.split() for line in Path(mounts).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False
    kinds = {_unescaped(place): kind for _, place, kind, *_ in (line for line in lines if len(line) > 3)}
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if str(place) in kinds:
            return str(place) != "/" and kinds[str(place)] not in FLEETING
    return False


def _unescaped(place: str) -> str:
    return place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
