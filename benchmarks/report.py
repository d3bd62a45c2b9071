"""Rows as tables, and what they were measured on."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.lanes import Arm
from runtime.settings import Settings

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def markdown(report: Mapping[str, Any]) -> str:
    """A report as text: machine, settings, and a table a suite."""
    about = [*report["machine"].items(), *report["setup"].items()]
    head = ", ".join(f"{name} {value}" for name, value in about)
    if report["weights"]:
        head += f"\n\nAll rows: **{report['weights']}**, utterances of fixed lengths, leading silence not trimmed."
    return head + "\n" + tables_of(report["tables"])


def tables_of(tables: Mapping[str, Sequence[Row]]) -> str:
    """Each under its name; a column that a row does not have is a dash."""
    lines: list[str] = []
    for name, rows in tables.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        lines.append(f"\n### {name}\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
        lines += ["| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine() -> Row:
    """Where this runs, and what."""
    commit = "unknown"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "rev-parse", "--short", "HEAD"]
        here = Path(__file__).parent
        commit = subprocess.run(command, cwd=here, capture_output=True, check=True, text=True).stdout.strip()
    return {
        "card": card(),
        "cpu": f"{os.cpu_count()} x {platform.processor() or platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit,
    }


def card() -> str:
    """The name of the card or NPU."""
    if not torch.accelerator.is_available():
        return "none"
    return str(torch.get_device_module(torch.accelerator.current_accelerator()).get_device_name())


def setup(settings: Settings, arms: Sequence[Arm]) -> Row:
    """The settings that every row shares, and those of each arm."""
    engine = settings.engine
    return {
        "models": " ".join(Path(model).name for model in settings.models),
        "dtype": engine.dtype,
        "slots": engine.max_slots,
        "positions": engine.max_model_len,
        "arms": "; ".join(f"{arm.name} {dict(arm.environment) or ''}".strip() for arm in arms),
    }


def tell(step: str) -> None:
    """What is done now, beside the tables."""
    print(f"  {step}", file=sys.stderr, flush=True)


def show(tables: Mapping[str, Sequence[Row]], file: Path | None, written: object) -> None:
    """Print tables, and write the figures into a file where one is asked for."""
    print(tables_of(tables))
    if file is not None:
        file.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _cell(value: object) -> str:
    return "-" if value is None else str(value)
