"""Decodes one compressed sound file in a process of its own, which is limited and then gone.

stdin: one JSON line with the limit in seconds, then the file. stdout: one JSON line, then float32 samples.
libsndfile, and FFmpeg for M4A, decode what anybody sent; a fault in them can reach no further than here.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.shared.confinement import confine

if TYPE_CHECKING:
    from runtime.shared.audio import Sound

MEMORY_BYTES = 768 * 2**20  # of address space; numpy and libsndfile take 300 MB of it
CPU_S = 5
ANSWER_BYTES = 64 * 2**20  # a minute at 192 kHz is 46 MB


class Seekable(io.BytesIO):
    """Bytes in which damaged headers may send libsndfile anywhere without a traceback on stderr."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def main() -> None:
    """Decode stdin and write the answer."""
    confine(MEMORY_BYTES, CPU_S)
    from runtime.errors import BadReferenceAudio
    from runtime.shared.audio import read_sound  # after the limits: they hold for libsndfile's own start too

    limit_s = json.loads(sys.stdin.buffer.readline())["limit_s"]
    data = sys.stdin.buffer.read()
    read: Callable[..., Sound] = read_sound
    if data[4:8] == b"ftyp":
        from runtime.shared.mp4_reader import read_mp4  # FFmpeg, for those that need it

        read = read_mp4
    try:
        sound = read(Seekable(data), limit_s=limit_s)
    except BadReferenceAudio as error:
        answer: dict[str, object] = {"code": error.code, "facts": error.facts}
        samples = b""
    else:
        answer, samples = {"rate": sound.rate}, sound.samples.tobytes()
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + samples)


if __name__ == "__main__":
    main()
