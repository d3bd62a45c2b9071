"""Command ``voicewright fetch``, which downloads checkpoints from the Hub or lists them."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from runtime.errors import SetUpError
from runtime.model.checkpoints import hub, hub_download
from runtime.model.checkpoints.hub_access import GB, free_cache_bytes
from runtime.published import PUBLISHED
from runtime.settings import EngineSettings

PROGRESS_INTERVAL_S = 0.25

Say = Callable[[dict[str, Any]], None]


def fetch(references: Sequence[str], *, as_json: bool, is_recogniser: bool = False) -> int:
    """Download checkpoints one after another, and return the exit status.

    All file lists and configurations are checked before the first download of weights.

    Args:
        references: Hub ids of the checkpoints.
        as_json: True to print the progress as lines of JSON.
        is_recogniser: True for speech recognition models, which have no Voicewright configuration.

    Raises:
        SetUpError: A download failed. Completed files are kept.
    """
    say = _ProgressReport(as_json)
    try:
        listing = hub.request_whisper_listing if is_recogniser else hub.request_listing
        listings = [listing(reference) for reference in references]
        for name, listed in zip(references, listings, strict=True):
            say({"event": "listed", "id": name, "got": listed.here, "of": listed.size})
        hub.require_disk_space(listings)
        for name, listed in () if is_recogniser else zip(references, listings, strict=True):
            config = hub_download.fetch_config_files(listed)
            say({"event": "checked", "id": name, "modes": [str(mode) for mode in config.modes]})
        for name, listed in zip(references, listings, strict=True):
            hub_download.fetch_weights(listed, say.progress(name))
            say({"event": "done", "id": name, "got": listed.size, "of": listed.size})
    except SetUpError as error:
        if as_json:
            say({"event": "failed", "code": error.code, "message": str(error), "facts": error_facts(error)})
        raise
    return 0


def plan(settings: EngineSettings) -> dict[str, Any]:
    """Return the published checkpoints with download size, memory use and speed.

    Memory use and speed are estimates for this machine.

    Raises:
        SetUpError: The device is not available.
    """
    # This import loads torch, which takes seconds.
    from runtime.engine.capacity.offers import estimate_published_checkpoints

    with ThreadPoolExecutor(len(PUBLISHED)) as threads:
        listings = threads.map(_listed, [checkpoint.id for checkpoint in PUBLISHED])
        here = estimate_published_checkpoints(settings)
        by_id = dict(zip([checkpoint.id for checkpoint in PUBLISHED], listings, strict=True))
    problem = next((answer for answer in by_id.values() if isinstance(answer, SetUpError)), None)
    return asdict(here) | {
        "offers": [asdict(offer) | _sizes(by_id[offer.id]) for offer in here.offers],
        "room": free_cache_bytes(),
        "problem": None
        if problem is None
        else {"code": problem.code, "message": str(problem), "facts": error_facts(problem)},
    }


def error_facts(error: SetUpError) -> dict[str, str | float | bool]:
    """Return the values in an error message by name, with paths as strings."""
    return {name: fact if isinstance(fact, int | float) else str(fact) for name, fact in error.facts.items()}


def _listed(name: str) -> hub.HubListing | SetUpError:
    try:
        return hub.request_listing(name)
    except SetUpError as error:
        return error


def _sizes(listing: hub.HubListing | SetUpError) -> dict[str, Any]:
    """Return the sizes and hashes of the files of a checkpoint.

    A file that two checkpoints share has the same hash and is downloaded once.
    """
    if isinstance(listing, SetUpError):
        return {"files": None}
    return {"files": [{"hash": file.hash, "size": file.size, "held": listing.held(file)} for file in listing.files]}


class _ProgressReport:
    """Progress report as JSON lines on stdout, or as text on stderr."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._reported_at = 0.0
        self._lock = threading.Lock()

    def __call__(self, event: dict[str, Any]) -> None:
        with self._lock:
            if self._as_json:
                print(json.dumps(event), flush=True)
            elif event["event"] in {"progress", "done"}:
                size = f"{event['got'] / GB:.2f} of {event['of'] / GB:.2f} GB"
                word = "here" if event["event"] == "done" else event["step"]
                print(f"{event['id']}: {size}, {word}", file=sys.stderr, flush=True)

    def progress(self, name: str) -> hub_download.OnProgress:
        """Return the progress callback of one checkpoint, which limits the rate of reports."""
        last = ""

        def report(step: str, got: int, size: int) -> None:
            nonlocal last
            now = time.monotonic()
            pause = PROGRESS_INTERVAL_S if self._as_json else 20 * PROGRESS_INTERVAL_S
            if step != last or got >= size or now - self._reported_at >= pause:
                self._reported_at, last = now, step
                self({"event": "progress", "id": name, "step": step, "got": got, "of": size})

        return report
