"""Download of the speech recogniser's model from the Hugging Face Hub.

The host (the operator of the studio) starts the download. Thread: event loop.
"""

from __future__ import annotations

from typing import Any

from runtime.errors import OutOfOrder
from studio.fetching import FETCH_COMMAND, Download, DownloadPart, DownloadRecord, DownloadState
from studio.transcribing.plugin import MODEL_BYTES, Choice


class ModelDownload(Download):
    """Download of the speech recogniser's model into the cache of the Hugging Face Hub."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._part = DownloadPart(choice.hub_id or "", of=MODEL_BYTES.get(choice.model, 0))
        super().__init__(DownloadRecord(parts=[self._part]), (*FETCH_COMMAND, "--recogniser"))

    @property
    def is_here(self) -> bool:
        """True if the recogniser can be used without a download by the studio.

        This is the case if the model is in the cache, or if the recogniser downloads its own files.
        """
        if (hub_id := self._choice.hub_id) is None:
            return True
        from huggingface_hub import try_to_load_from_cache  # This import is slow.

        return isinstance(try_to_load_from_cache(hub_id, "model.bin"), str)

    @property
    def _is_running(self) -> bool:
        return self.record.state is DownloadState.FETCHING

    def state(self) -> dict[str, Any]:
        """Return the state of the model download for the page, as a JSON object.

        The state is ``absent``, ``fetching``, ``failed`` or ``here``. The object also has the progress in bytes and the
        error.
        """
        if self._is_running:
            state = "fetching"
        elif self.is_here:
            state = "here"
        else:
            state = "failed" if self.problem else "absent"
        return {"state": state, "got": self._part.got, "of": self._part.of, "problem": self.problem}

    def start(self) -> None:
        """Start the download of the model, or resume an interrupted download.

        Raises:
            OutOfOrder: The model is present, or the download is already running.
        """
        if self._choice.missing is not None or self.is_here or self._is_running:
            raise OutOfOrder(what="Downloading", why="nothing is missing, or a download is already running")
        self._begin()

    async def stop(self) -> None:
        """Stop the download of the speech recogniser's model.

        Partial files are kept for the next download.
        """
        await self._halt()
        self.problem = None
        self._become(DownloadState.NONE)
