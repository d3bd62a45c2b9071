"""Takes documents in and has each read by a child process; the event loop waits for it and never works for it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from studio.documents.values import REASONS, TOO_LONG
from studio.errors import DocumentUnreadable

WALL_S = 30.0  # for the child, its start included, on a busy machine
AT_A_TIME = 2  # children; each may take its whole memory limit

COMMAND = (sys.executable, "-E", "-s", "-m", "studio.documents.child")
ROOT = Path(__file__).resolve().parents[2]  # where the child finds this package
ENVIRONMENT = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}


class Documents:
    """Reads documents. Thread: the event loop."""

    def __init__(self, wall_s: float = WALL_S) -> None:
        self._wall_s = wall_s
        self._turn = asyncio.Semaphore(AT_A_TIME)

    async def read(self, data: bytes, **options: Any) -> dict[str, Any]:
        """Return title, chapters and notes of a file; of a text its encoding, of subtitles their times as well.

        Args:
            data: an EPUB, a DOCX, subtitles or a text.
            options: of `read_text`.

        Raises:
            DocumentUnreadable: for one of the reasons in values.py.
        """
        async with self._turn:
            said = await self._read(data, json.dumps(options))
        try:
            answer = json.loads(said)
        except ValueError:  # killed, or out of memory
            answer = {"why": TOO_LONG}
        if (why := answer.get("why")) is not None:
            raise DocumentUnreadable(why=why if why in REASONS else TOO_LONG)
        return dict(answer)

    async def _read(self, data: bytes, options: str) -> bytes:
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(
            *COMMAND, options, cwd=ROOT, env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=null
        )
        try:
            async with asyncio.timeout(self._wall_s):
                return (await child.communicate(data))[0]
        except TimeoutError:
            return b""
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
