"""Background task that computes the prompts of stored voices while no request is active.

Prompts are computed one at a time. A prompt is only valid for the checkpoint that computed it. If the checkpoint
changes, all prompts are computed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial

from runtime.errors import GenerationFailed, SpeechError
from runtime.request import Mode, Reference, VoicePrompt
from runtime.server.speech_engine import SpeechEngine
from runtime.voices.library import Library

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 10.0  # Interval in seconds between searches for voices that another process has stored.
BUSY_POLL_INTERVAL_S = 0.5
PROMPT_TIMEOUT_S = 120.0


class PromptWorker:
    """Background task that computes the missing prompts of stored voices.

    Thread: event loop.
    """

    def __init__(self, libraries: Callable[[], Iterable[Library]], engine: SpeechEngine, workers: Executor) -> None:
        self._libraries = libraries
        self._engine = engine
        self._workers = workers
        self._woken = asyncio.Event()
        # Pairs of voice id and fingerprint whose prompt could not be computed. They are tried again only after the next
        # upload.
        self._failed: set[tuple[str, str]] = set()

    def wake(self) -> None:
        """Start the search for stored voices without a prompt."""
        self._failed.clear()
        self._woken.set()

    async def run(self) -> None:
        """Compute missing prompts until the task is cancelled."""
        while True:
            self._woken.clear()
            while (found := self._next()) is not None:
                if self._engine.load().active:
                    await asyncio.sleep(BUSY_POLL_INTERVAL_S)
                else:
                    await self._make(*found)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._woken.wait()

    def _next(self) -> tuple[Library, str, str] | None:
        """Return (library, voice id, checkpoint fingerprint) of a missing prompt, or None."""
        bases = (card.fingerprint for card in self._engine.cards if Mode.BASE in card.modes and card.loaded)
        fingerprint = next(bases, None)
        if fingerprint is None:
            return None
        for library in self._libraries():
            library.fingerprint = fingerprint
            for voice_id in library.without_prompt(fingerprint):
                if (voice_id, fingerprint) not in self._failed:
                    return library, voice_id, fingerprint
        return None

    async def _make(self, library: Library, voice_id: str, fingerprint: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            reference = await loop.run_in_executor(self._workers, library.reference, voice_id)
            prompt = await self._prepared(reference)
            keep = partial(library.keep_prompt, voice_id, prompt, made_from=reference)
            await loop.run_in_executor(self._workers, keep)
        except SpeechError as error:
            log.warning("no prompt was stored for voice %s: %s", voice_id, error.code)
            self._failed.add((voice_id, fingerprint))
        except Exception:
            log.exception("no prompt was stored for voice %s", voice_id)
            self._failed.add((voice_id, fingerprint))

    async def _prepared(self, reference: Reference) -> VoicePrompt:
        """Request a prompt from the engine and wait for the result.

        Raises:
            SpeechError: The prompt cannot be computed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[VoicePrompt | SpeechError] = loop.create_future()

        def settle(result: VoicePrompt | SpeechError) -> None:
            if not future.done():
                future.set_result(result)

        def done(result: VoicePrompt | SpeechError) -> None:
            with contextlib.suppress(RuntimeError):  # At shutdown, the event loop may already be closed.
                loop.call_soon_threadsafe(settle, result)

        self._engine.prepare(reference, Mode.BASE, done)
        try:
            async with asyncio.timeout(PROMPT_TIMEOUT_S):
                result = await future
        except TimeoutError:
            raise GenerationFailed from None
        if isinstance(result, SpeechError):
            raise result
        return result
