"""Download of the speech recogniser's model from the Hugging Face Hub.

The host (the operator of the studio) starts the download. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from runtime.errors import OutOfOrder
from studio.fetching import fetching
from studio.transcribing.plugin import MODEL_BYTES, Choice

log = logging.getLogger(__name__)

FETCH = ("runtime.cli", "fetch", "--recogniser")


class ModelDownload:
    """Download of the speech recogniser's model into the cache of the Hugging Face Hub."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._work: asyncio.Task[None] | None = None
        self._got = 0
        self._of = MODEL_BYTES.get(choice.model, 0)
        self._problem: dict[str, Any] | None = None

    @property
    def is_here(self) -> bool:
        """True if the recogniser can be used without a download by the studio.

        This is the case if the model is in the cache, or if the recogniser downloads its own files.
        """
        if (hub_id := self._choice.hub_id) is None:
            return True
        from huggingface_hub import try_to_load_from_cache  # This import is slow.

        return isinstance(try_to_load_from_cache(hub_id, "model.bin"), str)

    def state(self) -> dict[str, Any]:
        """Return the state of the model download for the page, as a JSON object.

        The state is ``absent``, ``fetching``, ``failed`` or ``here``. The object also has the progress in bytes and the
        error.
        """
        if self._work is not None:
            state = "fetching"
        elif self.is_here:
            state = "here"
        else:
            state = "failed" if self._problem else "absent"
        return {"state": state, "got": self._got, "of": self._of, "problem": self._problem}

    def start(self) -> None:
        """Start the download of the model, or resume an interrupted download.

        Raises:
            OutOfOrder: The model is present, or the download is already running.
        """
        if self._choice.missing is not None or self.is_here or self._work is not None:
            raise OutOfOrder(what="Downloading", why="nothing is missing, or a download is already running")
        self._problem = None
        self._work = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop the download of the speech recogniser's model.

        Partial files are kept for the next download.
        """
        work, self._work = self._work, None
        self._problem = None
        if work is not None:
            work.cancel()
            await asyncio.wait({work})

    async def _run(self) -> None:
        try:
            await self._fetch(str(self._choice.hub_id))
        except (OSError, ValueError):
            log.exception("a download could not be started")
            self._fail("The download could not be started; the log says why.")
        self._work = None

    async def _fetch(self, hub_id: str) -> None:
        async with fetching(FETCH, [hub_id]) as events:
            async for event in events:
                if event["event"] == "failed":
                    self._problem = {name: event[name] for name in ("code", "message", "facts")}
                elif event["event"] == "ended":
                    if event["status"] and self._problem is None:
                        self._fail(event["message"] or f"The download ended with status {event['status']}.")
                else:
                    self._got, self._of = event["got"], event["of"]

    def _fail(self, message: str) -> None:
        self._problem = {"code": "fetch_failed", "message": message, "facts": {}}
