"""Command-line parser, progress output, tables and JSON files of the benchmarks."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Value = TypeVar("Value")


def create_parser(docstring: str | None) -> argparse.ArgumentParser:
    """Return an argument parser with the option `--json FILE` and the docstring as its help."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def comma_separated(kind: Callable[[str], Value]) -> Callable[[str], tuple[Value, ...]]:
    """Return an argparse type function that parses a comma-separated list of values.

    `kind` parses one value.
    """

    def values(text: str) -> tuple[Value, ...]:
        return tuple(kind(word) for word in text.split(","))

    return values


def log_step(step: str) -> None:
    """Print the name of the benchmark's current step to stderr."""
    print(f"  {step}", file=sys.stderr, flush=True)


def markdown(tables: Mapping[str, Sequence[Row]]) -> str:
    """Format tables as Markdown with their names as headings.

    Missing values are shown as dashes.
    """
    lines: list[str] = []
    for name, rows in tables.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        lines.append(f"\n### {name}\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
        for row in rows:
            cells = ("-" if (value := row.get(column)) is None else str(value) for column in columns)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_report(
    tables: Mapping[str, Sequence[Row]], file: Path | None, *, shown: Sequence[str] = (), **about: Any
) -> None:
    """Print result tables, and write them and a description of the machine to a JSON file.

    Long benchmarks call this function after each table, so an interrupted run only loses one table.

    Args:
        tables: Tables by name, each with a list of rows.
        file: Path of the JSON file, or None.
        shown: Names of the tables to print, or empty to print all tables.
        about: Further values for the JSON file.
    """
    print(markdown({name: rows for name, rows in tables.items() if not shown or name in shown}), flush=True)
    if file is not None:
        part_file = file.with_name(f"{file.name}.part")
        part_file.write_text(
            json.dumps({"machine": machine_description(), **about, "tables": tables}, indent=1) + "\n", "utf-8"
        )
        os.replace(part_file, file)


def machine_description() -> Row:
    """Return the hardware, the software versions and the commit of this run."""
    import torch

    commit = "unknown"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "rev-parse", "--short", "HEAD"]
        here = Path(__file__).parent
        commit = subprocess.run(command, cwd=here, capture_output=True, check=True, text=True).stdout.strip()
    return {
        "accelerator": accelerator_name(),
        "cpu": f"{os.cpu_count()} x {platform.processor() or platform.machine()}",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit,
    }


def accelerator_name() -> str:
    """Return the name of the GPU or NPU, or "none"."""
    import torch

    if not torch.accelerator.is_available():
        return "none"
    return str(torch.get_device_module(torch.accelerator.current_accelerator()).get_device_name())
