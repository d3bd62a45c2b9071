"""Functions that read and replace checkpoints in a runtime's command line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from runtime.errors import CheckpointMissing, no_folder
from runtime.request import Mode
from runtime.settings import Settings

BITS = "--quantize"


def models_of(args: Sequence[str]) -> list[str]:
    """Return the checkpoints in a runtime's command line.

    If the option ``--model`` is missing, the checkpoints in the environment variable are returned.
    """
    return named_in(args) or list(Settings.from_env().models)


def named_in(args: Sequence[str]) -> list[str]:
    """Return the values of the option ``--model`` in command-line arguments."""
    return values_of(args, "--model")


def values_of(args: Sequence[str], option: str) -> list[str]:
    """Return all values of an option, written as `--option=value` or as `--option value`."""
    values = [value for name, value in itertools.pairwise(args) if name == option]
    return values + [word.removeprefix(f"{option}=") for word in args if word.startswith(f"{option}=")]


def with_models(args: Sequence[str], models: Sequence[str]) -> list[str]:
    """Return a copy of the arguments in which the option ``--model`` has the values `models`."""
    return _without(args, "--model") + [word for model in models for word in ("--model", model)]


def with_bits(args: Sequence[str], word: str) -> list[str]:
    """Return a copy of the arguments in which ``--quantize`` has the value `word`.

    An empty `word` removes the option.
    """
    return _without(args, BITS) + ([f"{BITS}={word}"] if word else [])


def bits_of(args: Sequence[str]) -> str:
    """Return the last value of the option ``--quantize``, or an empty string if it is missing."""
    return next(iter(values_of(args, BITS)[-1:]), "")


def _without(args: Sequence[str], option: str) -> list[str]:
    others: list[str] = []
    remaining = iter(args)
    for word in remaining:
        if word == option:
            next(remaining, None)
        elif not word.startswith(f"{option}="):
            others.append(word)
    return others


def reference_of(model: str) -> str:
    """Return the folder or Hub id in a model argument such as ``MODE=REFERENCE``."""
    word, separator, rest = model.partition("=")
    return rest if separator and word in set(Mode) else model


def missing_folder(args: Sequence[str]) -> CheckpointMissing | None:
    """Return an error for the first checkpoint folder that does not exist.

    The result is None if no folder is missing. A reference that may be a Hub id is not checked here, because the
    runtime checks it.
    """
    for reference in map(reference_of, named_in(args)):
        if reference.startswith((".", "~", "/")) and not (path := Path(reference).expanduser()).is_dir():
            return no_folder(reference, is_file=path.exists())
    return None
