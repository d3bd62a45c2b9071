"""Variants that a benchmark compares, such as two values of a setting."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from runtime.settings import Settings
from runtime.variables import of_the_runtime

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Variant:
    """Variant of a comparison, with a name and the environment variables that it sets."""

    name: str
    environment: Environment

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a variant such as `NAME[:VARIABLE=VALUE,…]`.

        The prefix `VOICEWRIGHT_` of a variable may be omitted.

        Raises:
            SystemExit: A variable is not a setting of the runtime, so it would have no effect.
        """
        name, _, rest = text.partition(":")
        prefix = "VOICEWRIGHT_"
        pairs = dict(pair.split("=", 1) for pair in rest.split(",") if "=" in pair)
        pairs = {prefix + variable.removeprefix(prefix): value for variable, value in pairs.items()}
        if unknown := sorted(set(pairs) - of_the_runtime()):
            raise SystemExit(f"unknown settings: {', '.join(unknown)}")
        return cls(name, pairs)

    def settings(self, shared: Environment) -> Settings:
        """Return the engine settings of this variant.

        The variables of the variant override those in `shared`, which override the environment of this process.
        """
        return Settings.from_env({**os.environ, **shared, **self.environment})


def add_variants(parser: argparse.ArgumentParser) -> None:
    """Add the command-line arguments for checkpoints, variants and device to a parser."""
    parser.add_argument("--model", action="append", metavar="[MODE=]PATH_OR_ID")
    parser.add_argument("--variant", action="append", metavar="NAME[:VARIABLE=VALUE,…]", help="settings to compare")
    parser.add_argument("--device")
    parser.add_argument("--dtype")


def variants_of(arguments: argparse.Namespace) -> list[Variant]:
    """Parse the variants of a comparison from the command-line arguments."""
    return [Variant.parse(text) for text in arguments.variant or ["ours"]]


def shared_environment(arguments: argparse.Namespace, **settings: object) -> dict[str, str]:
    """Return the environment variables that are the same for all variants.

    They contain the arguments that `add_variants` has defined, and the values in `settings` that are not None.
    """
    named = {"device": arguments.device, "dtype": arguments.dtype, **settings}
    if arguments.model:
        named["model"] = " ".join(arguments.model)
    return {f"VOICEWRIGHT_{name.upper()}": str(value) for name, value in named.items() if value is not None}
