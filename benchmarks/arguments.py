"""Reads what several benchmarks ask for on their command lines, and makes settings of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from runtime.knobs import override
from runtime.settings import Settings

Value = TypeVar("Value")


def parser_of(docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help is a module's docstring as it stands, with a file for the figures."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def several(kind: Callable[[str], Value]) -> Callable[[str], tuple[Value, ...]]:
    """The type of an argument that is several of a kind, with commas between them."""

    def values(text: str) -> tuple[Value, ...]:
        return tuple(kind(word) for word in text.split(","))

    return values


def add_arms(parser: argparse.ArgumentParser) -> None:
    """Let checkpoints be named, settings that are compared, and where all of them run."""
    parser.add_argument("--model", action="append", metavar="[MODE=]PATH_OR_ID")
    parser.add_argument("--arm", action="append", metavar="NAME[:VARIABLE=VALUE,…]", help="settings to compare")
    parser.add_argument("--device")
    parser.add_argument("--dtype")


def variables_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What every arm shares of what `add_arms` asked for, as variables of the environment."""
    shared = {name: value for name in ("device", "dtype") if (value := getattr(arguments, name))}
    if arguments.model:
        shared["model"] = " ".join(arguments.model)
    return {f"VOICEWRIGHT_{name.upper()}": value for name, value in shared.items()}


def settings_of_checkpoint(model: str, slots: int, length: int, quantize: str | None = None) -> Settings:
    """What the environment says, for one checkpoint with so many slots of ``length`` positions.

    Args:
        quantize: bits of the weights; None: as the environment says.
    """
    settings = Settings.from_env()
    engine = override(settings.engine, max_slots=slots, max_model_len=length, quantize=quantize)
    return Settings(models=(model,), limits=settings.limits, engine=engine, modes=settings.modes)
