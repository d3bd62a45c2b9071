"""Reads one document in a process of its own, which is limited and then gone.

stdin: the file. First argument: the options of `read_text` as JSON. stdout: one JSON object with ``title``,
``chapters`` and ``notes``, or with ``why`` it cannot be read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from runtime.shared.confinement import confine

MEMORY_BYTES = 2**30  # of address space
CPU_S = 20


def main() -> None:
    """Read stdin and write the answer."""
    confine(MEMORY_BYTES, CPU_S)
    from studio.documents.reading import read  # after the limits: they hold for the libraries' own start too
    from studio.documents.values import TOO_LONG, UnreadableError

    answer: dict[str, Any]
    try:
        answer = asdict(read(sys.stdin.buffer.read(), **json.loads(sys.argv[1])))
    except UnreadableError as error:
        answer = {"why": str(error)}
    except (MemoryError, RecursionError):
        answer = {"why": TOO_LONG}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
