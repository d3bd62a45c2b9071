"""Child process that decodes one audio file within resource limits.

stdin is one JSON line with the limit in seconds, followed by the file. stdout is one JSON line, followed by float32
samples. Untrusted input is decoded in this process, so a crash of FFmpeg affects no other request.
"""

from __future__ import annotations

import io
import json
import sys

from runtime.shared.system import confine

MEMORY_BYTES = 768 * 2**20  # Maximum address space in bytes, of which numpy and FFmpeg need 320 MB.
CPU_S = 5
TOO_LARGE = f"it needs more than {MEMORY_BYTES // 2**20} MB to decode; send it as WAV"
ANSWER_BYTES = 64 * 2**20  # Maximum size of the output in bytes. A recording of one minute at 192 kHz needs 46 MB.


class Seekable(io.BytesIO):
    """Buffer that reports an error to FFmpeg if a damaged file requests an invalid position.

    Without this class, a traceback would be written to stderr.
    """

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def main() -> None:
    """Decode the file on stdin and write the result to stdout."""
    confine(MEMORY_BYTES, CPU_S)
    # These imports follow `confine`, because the limits must also apply to the import of FFmpeg.
    from runtime.errors import BadReferenceAudio
    from runtime.shared.audio.ffmpeg_reader import read_any

    limit_s = json.loads(sys.stdin.buffer.readline())["limit_s"]
    data = sys.stdin.buffer.read()
    try:
        decoded = read_any(Seekable(data), limit_s=limit_s)
    except BadReferenceAudio as error:
        answer: dict[str, object] = {"code": error.code, "facts": error.facts}
        samples = b""
    except MemoryError:
        answer, samples = {"code": BadReferenceAudio.code, "facts": {"why": TOO_LARGE}}, b""
    else:
        answer, samples = {"rate": decoded.rate}, decoded.samples.tobytes()
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + samples)


if __name__ == "__main__":
    main()
