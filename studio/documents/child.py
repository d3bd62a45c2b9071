"""Child process that reads one document within limits on memory and CPU time.

stdin is the file. The first argument contains the keyword arguments of `reading.read` as JSON. stdout is a JSON object
with ``title``, ``chapters`` and ``notes``. If the file is unreadable, the exit status is `UNREADABLE_STATUS` and stdout
has the reason. If a reader raises an unexpected error, the status is `FAULT_STATUS` and stdout has the traceback.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict

from runtime.shared.system import confine, lower_priority

MEMORY_BYTES = 2**30
CPU_S = 20
NICE_STEPS = 10
UNREADABLE_STATUS = 3
FAULT_STATUS = 4


def main() -> int:
    """Read a document from stdin, write the result to stdout and return the exit status."""
    confine(MEMORY_BYTES, CPU_S)
    lower_priority(NICE_STEPS)
    # This import follows `confine`, because the limits must also apply to the imported libraries.
    from studio.documents.reading import read
    from studio.documents.values import TOO_LONG, ContentChoice, UnreadableError

    status = 0
    try:
        options = json.loads(sys.argv[1])
        spoken = ContentChoice(**options.pop("spoken", {}))
        output = json.dumps(asdict(read(sys.stdin.buffer.read(), spoken=spoken, **options)), ensure_ascii=False)
    except UnreadableError as error:
        status, output = UNREADABLE_STATUS, str(error)
    except (MemoryError, RecursionError):
        status, output = UNREADABLE_STATUS, TOO_LONG
    except Exception as error:  # Libraries raise errors of any type for damaged files.
        # The message of the error may quote the document, so it is omitted.
        status, output = FAULT_STATUS, f"{''.join(traceback.format_tb(error.__traceback__))}{type(error).__name__}"
    sys.stdout.buffer.write(output.encode("utf-8", "replace"))
    return status


if __name__ == "__main__":
    sys.exit(main())
