"""Decodes one audio file in a process of its own, which is limited and ends afterwards.

stdin: one JSON line with the limit in seconds, then the file. stdout: one JSON line, then float32 samples.
FFmpeg decodes what anybody sent; a fault in it can reach no further than here.
"""

from __future__ import annotations

import io
import json
import sys

from runtime.shared.system import confine

MEMORY_BYTES = 768 * 2**20  # of address space; numpy and FFmpeg take 320 MB of it
CPU_S = 5
TOO_LARGE = f"it needs more than {MEMORY_BYTES // 2**20} MB to decode; send it as WAV"
ANSWER_BYTES = 64 * 2**20  # a minute at 192 kHz is 46 MB


class Seekable(io.BytesIO):
    """Bytes in which damaged headers may send FFmpeg anywhere without a traceback on stderr."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def main() -> None:
    """Decode stdin and write the answer."""
    confine(MEMORY_BYTES, CPU_S)
    from runtime.errors import BadReferenceAudio
    from runtime.shared.ffmpeg_reader import read_any  # After the limits, which hold for FFmpeg's start too.

    limit_s = json.loads(sys.stdin.buffer.readline())["limit_s"]
    data = sys.stdin.buffer.read()
    try:
        sound = read_any(Seekable(data), limit_s=limit_s)
    except BadReferenceAudio as error:
        answer: dict[str, object] = {"code": error.code, "facts": error.facts}
        samples = b""
    except MemoryError:
        answer, samples = {"code": BadReferenceAudio.code, "facts": {"why": TOO_LARGE}}, b""
    else:
        answer, samples = {"rate": sound.rate}, sound.samples.tobytes()
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + samples)


if __name__ == "__main__":
    main()
