"""Command ``voicewright doctor``, which reports if this machine can serve a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from runtime.engine.capacity.doctor import Diagnosis, MemoryRow, Problem, diagnose
from runtime.errors import SetUpError
from runtime.settings import EngineSettings

GB = 10**9
COLUMN_CHARS = 20
MAX_LISTED = 12  # Maximum number of list items that are printed in one line. The option --json prints all items.


def doctor(models: Sequence[str], settings: EngineSettings, *, as_json: bool) -> bool:
    """Print a diagnosis and return True if the checkpoint can be served.

    Args:
        models: Name of the checkpoint, or names of several adapters that share one checkpoint.
        settings: Settings of the engine.
        as_json: True to print JSON.

    Raises:
        SetUpError: The checkpoint or the device does not exist.
    """
    try:
        diagnosis = diagnose(models[0], settings, models[1:])
    except SetUpError as error:
        if as_json:
            print(json.dumps({"name": models[0], "servable": False, "problems": [asdict(Problem.of(error))]}))
        raise
    if as_json:
        print(json.dumps(asdict(diagnosis)))
    else:
        for name, words in _lines(diagnosis):
            print(f"{name:{COLUMN_CHARS}}{words}")
    return diagnosis.servable


def _lines(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield the lines of the report as pairs of name and text."""
    yield diagnosis.name, "can be served" if diagnosis.servable else "cannot be served"
    for problem in diagnosis.problems:
        yield "  problem", f"{problem.message} [{problem.code}]"
    if (served := diagnosis.served) is not None:
        yield "  modes", ", ".join(served.modes) + (f" ({served.size})" if served.size else "")
        yield "  speakers", _some(served.speakers)
        yield "  languages", _some(served.languages)
        yield "  layouts", ", ".join(served.layouts)
        yield "  instruct", "supported" if served.takes_instruct else "ignored"
        if not served.speaks:
            yield "  speaks", "no: its weights are random"
    yield "  files", f"{len(diagnosis.files.read)}, {_size(sum(diagnosis.files.read.values()))} in all"
    yield "  missing", _some(diagnosis.files.missing)
    yield "  ignored", _some(diagnosis.files.ignored)
    if unapplied := diagnosis.files.unapplied:
        yield "  not applied", f"{_some(unapplied)}: name the folder with its adapter_config.json as the model"
    for adapter in diagnosis.adapters:
        yield "  adapter", f"{adapter.folder}, merged into {adapter.base} in float32: {', '.join(adapter.changes)}"
        if len(diagnosis.adapters) > 1:
            yield "", f"speakers: {_some(adapter.speakers)}"
    if (download := diagnosis.download) is not None:
        remaining = _size(download.size - download.here)
        yield "  to be fetched", f"{remaining} of {_size(download.size)}; the disk has room for {_size(download.room)}"
    for name, weights in (("  weights", diagnosis.weights), ("  speech tokenizer", diagnosis.speech_tokenizer)):
        if weights is not None:
            dtypes = ", ".join(f"{count} {dtype}" for dtype, count in sorted(weights.dtypes.items()))
            yield name, f"{weights.tensors} tensors ({dtypes}) in {len(weights.files)} file(s)"
            if weights.unread:
                yield "", f"unused tensors: {_some(weights.unread)}"
    if diagnosis.text_ids is not None:
        yield "  text tokenizer", f"{diagnosis.text_ids} ids"
    yield "  default values", _some(diagnosis.defaulted)
    yield "  unknown fields", _some(diagnosis.unknown)
    memory = diagnosis.memory
    yield "  device", f"{memory.device}, {_size(memory.free)} free of {_size(memory.may_have)} usable"
    for row in memory.rows:
        yield f"  {row.dtype}", _memory(row)


def _memory(row: MemoryRow) -> str:
    slots = f"{row.slots} slots" if row.slots else "does not fit"
    pace = "" if row.rtf is None else f", {row.rtf:.2f} s of computation per second of speech"
    return f"{_size(row.once)}, and {_size(row.slot)} per slot: {slots}{pace}" + (", chosen" if row.is_chosen else "")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MAX_LISTED
    return (", ".join(names[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")) or "none"


def _size(count: int) -> str:
    return f"{count / GB:.2f} GB" if count >= GB / 100 else f"{count / 10**6:.2f} MB"
