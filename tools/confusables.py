"""Generator of runtime/shared/text/confusables.tsv: characters that look alike (TR39).

The data comes from an installed ICU library. Run `python tools/confusables.py` again after an update of ICU. The first
line of the file has its Unicode version.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

TABLE = Path("runtime/shared/text/confusables.tsv")
MAX_BYTES = 1024


class Icu:
    """Spoof checker of the ICU library, called with ctypes.

    The names of its C functions end with ICU's version.
    """

    def __init__(self) -> None:
        name = ctypes.util.find_library("icui18n")
        if name is None:
            raise OSError("There is no ICU on this machine; install it (on Debian: apt install libicu-dev).")
        self._library = ctypes.CDLL(name)
        self._version = "".join(re.findall(r"\d+", name)[-1:])
        self._checker = ctypes.c_void_p(self._call("uspoof_open", ctypes.c_void_p)())

    def unicode_version(self) -> str:
        """Return the Unicode version of the ICU library."""
        version = (ctypes.c_uint8 * 4)()
        getattr(ctypes.CDLL(ctypes.util.find_library("icuuc")), f"u_getUnicodeVersion_{self._version}")(version)
        return ".".join(map(str, version[:3]))

    def skeleton(self, text: str) -> str:
        """Return the skeleton of a text as defined by TR39.

        Texts that look alike have the same skeleton.
        """
        data, found = text.encode(), ctypes.create_string_buffer(MAX_BYTES)
        size = self._call("uspoof_getSkeletonUTF8", ctypes.c_int32)(
            self._checker, 0, data, len(data), found, len(found)
        )
        return found.raw[:size].decode()

    def _call(self, name: str, result: type) -> Callable[..., int]:
        function = getattr(self._library, f"{name}_{self._version}")
        function.restype = result

        def call(*args: object) -> int:
            error = ctypes.c_int(0)
            value: int = function(*args, ctypes.byref(error))
            if error.value > 0:
                raise ValueError(f"{name}: ICU error {error.value}")
            return value

        return call


def table(icu: Icu) -> str:
    """Return the content of the table of confusable characters.

    It has one line per character, with the character and the text that it looks like, separated by a tab.
    """
    lines = [f"# Unicode {icu.unicode_version()}, confusables of TR39; © Unicode, Inc., unicode.org/license.txt"]
    for character in map(chr, range(sys.maxunicode + 1)):
        is_whole = unicodedata.category(character) not in {"Cs", "Cc", "Cn", "Co"}
        if is_whole and unicodedata.normalize("NFD", character) == character:
            found = icu.skeleton(character)
            if found != character:
                lines.append(f"{character}\t{found}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(Icu()), encoding="utf-8", newline="\n")
