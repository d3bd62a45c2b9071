"""Command ``voicewright fetch``, which downloads checkpoints from the Hub or lists them."""

from __future__ import annotations

import json
import sys
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

JSON_INTERVAL_S, TEXT_INTERVAL_S = 0.25, 5.0  # Minimum intervals between two progress reports, in seconds.

Report = Callable[[dict[str, Any]], None]


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
    report, interval_s = (_report_as_json, JSON_INTERVAL_S) if as_json else (_report_as_text, TEXT_INTERVAL_S)
    try:
        listing = hub.request_whisper_listing if is_recogniser else hub.request_listing
        listings = {reference: listing(reference) for reference in references}
        for name, listed in listings.items():
            report({"event": "listed", "id": name, "got": listed.here, "of": listed.size})
        hub.require_disk_space([*listings.values()])
        for name, listed in () if is_recogniser else listings.items():
            config = hub_download.fetch_config_files(listed)
            report({"event": "checked", "id": name, "modes": [str(mode) for mode in config.modes]})
        for name, listed in listings.items():
            hub_download.fetch_weights(listed, _progress_reporter(name, report, interval_s))
            report({"event": "done", "id": name, "step": "here", "got": listed.size, "of": listed.size})
    except SetUpError as error:
        if as_json:
            report({"event": "failed", **_describe(error)})
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
        listings = [threads.submit(hub.request_listing, checkpoint.id) for checkpoint in PUBLISHED]
        found = asdict(estimate_published_checkpoints(settings)) | {"room": free_cache_bytes(), "problem": None}
    for offer, listing in zip(found["offers"], listings, strict=True):
        try:
            offer["missing"] = listing.result().missing
        except SetUpError as error:
            offer["missing"], found["problem"] = None, found["problem"] or _describe(error)
    return found


def _describe(error: SetUpError) -> dict[str, Any]:
    facts = {name: fact if isinstance(fact, int | float) else str(fact) for name, fact in error.facts.items()}
    return {"code": error.code, "message": str(error), "facts": facts}


def _report_as_json(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def _report_as_text(event: dict[str, Any]) -> None:
    if "step" in event:
        size = f"{event['got'] / GB:.2f} of {event['of'] / GB:.2f} GB"
        print(f"{event['id']}: {size}, {event['step']}", file=sys.stderr, flush=True)


def _progress_reporter(name: str, report: Report, interval_s: float) -> hub_download.OnProgress:
    """Return the progress callback of one checkpoint, which limits the rate of reports."""
    last_step, reported_at = "", 0.0

    def on_progress(step: str, got: int, size: int) -> None:
        nonlocal last_step, reported_at
        now = time.monotonic()
        if step != last_step or got >= size or now - reported_at >= interval_s:
            last_step, reported_at = step, now
            report({"event": "progress", "id": name, "step": step, "got": got, "of": size})

    return on_progress
