"""Runs ``voicewright fetch``: checkpoints from the Hub into its cache, or what is published and how it does here."""

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
from runtime.model import hub, hub_download
from runtime.model.hub_access import GB, room
from runtime.published import PUBLISHED
from runtime.settings import EngineSettings

TELL_S = 0.25  # between two words of how far it is

Say = Callable[[dict[str, Any]], None]


def fetch(references: Sequence[str], *, as_json: bool) -> int:
    """Fetch checkpoints one after the other. All are listed and their configurations read before anything large comes.

    Raises:
        SetUpError: one does not come; the sentence says why, and what has come is kept.
    """
    say = _Teller(as_json)
    try:
        listings = [hub.listing(reference) for reference in references]
        for name, listed in zip(references, listings, strict=True):
            say({"event": "listed", "id": name, "got": listed.here, "of": listed.size})
        hub.require_room(listings)
        for name, listed in zip(references, listings, strict=True):
            config = hub_download.fetch_small(listed)
            say({"event": "checked", "id": name, "modes": [str(mode) for mode in config.modes]})
        for name, listed in zip(references, listings, strict=True):
            hub_download.fetch_weights(listed, say.progress(name))
            say({"event": "done", "id": name, "got": listed.size, "of": listed.size})
    except SetUpError as error:
        if as_json:
            say({"event": "failed", "code": error.code, "message": str(error), "facts": told(error)})
        raise
    return 0


def plan(settings: EngineSettings) -> dict[str, Any]:
    """What is published: how much of it has to be fetched, what it needs, how fast it would be here.

    Raises:
        SetUpError: there is no such device.
    """
    from runtime.engine.capacity.offers import machine_offers  # torch is slow to import; fetching needs none of it

    with ThreadPoolExecutor(len(PUBLISHED)) as asking:
        answers = asking.map(_listed, [checkpoint.id for checkpoint in PUBLISHED])
        here = machine_offers(settings)
        by_id = dict(zip([checkpoint.id for checkpoint in PUBLISHED], answers, strict=True))
    problem = next((answer for answer in by_id.values() if isinstance(answer, SetUpError)), None)
    return asdict(here) | {
        "offers": [asdict(offer) | _sizes(by_id[offer.id]) for offer in here.offers],
        "room": room(),
        "problem": None if problem is None else {"code": problem.code, "message": str(problem), "facts": told(problem)},
    }


def told(error: SetUpError) -> dict[str, str | float | bool]:
    """Return the facts of an error, paths among them: only the operator is told."""
    return {name: fact if isinstance(fact, int | float) else str(fact) for name, fact in error.facts.items()}


def _listed(name: str) -> hub.Listing | SetUpError:
    try:
        return hub.listing(name)
    except SetUpError as error:
        return error


def _sizes(found: hub.Listing | SetUpError) -> dict[str, Any]:
    """Each file by its hash, for what two checkpoints have in common is fetched once."""
    if isinstance(found, SetUpError):
        return {"files": None}
    return {"files": [{"hash": file.hash, "size": file.size, "held": found.held(file)} for file in found.files]}


class _Teller:
    """Says how far it is, on standard output: as JSON a line, or in words."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._said_at = 0.0
        self._lock = threading.Lock()

    def __call__(self, told: dict[str, Any]) -> None:
        with self._lock:
            if self._as_json:
                print(json.dumps(told), flush=True)
            elif told["event"] in {"progress", "done"}:
                size = f"{told['got'] / GB:.2f} of {told['of'] / GB:.2f} GB"
                word = "here" if told["event"] == "done" else told["step"]
                print(f"{told['id']}: {size}, {word}", file=sys.stderr, flush=True)

    def progress(self, name: str) -> hub_download.Tell:
        """Tell of one checkpoint, not more often than anybody reads it."""
        last = ""

        def tell(step: str, got: int, size: int) -> None:
            nonlocal last
            now = time.monotonic()
            pause = TELL_S if self._as_json else 20 * TELL_S
            if step != last or got >= size or now - self._said_at >= pause:
                self._said_at, last = now, step
                self({"event": "progress", "id": name, "step": step, "got": got, "of": size})

        return tell
