"""Processor time of the imports that a start consists of, each in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

PROGRAM = """
import sys, time
{imports}
print(time.process_time(), len(sys.modules))
"""
IMPORTS = {
    "studio.server": "import studio.server",
    "studio.page, with Gradio": """
from studio.page_app import without_stub_files
with without_stub_files():
    import studio.page
""",
    "runtime.server.app": "import runtime.server.app",
    "torch": "import torch",
    "runtime.engine.engine": "import runtime.engine.engine",
}
ROUNDS = 3


def measure_imports() -> list[dict[str, Any]]:
    """Return the least processor time of a few rounds, with the interpreter's own start, and the number of modules."""
    rows = []
    for name, imports in IMPORTS.items():
        command = [sys.executable, "-c", PROGRAM.format(imports=imports)]
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(ROUNDS)
        ]
        rows.append(
            {"imports": name, "cpu_s": round(min(float(run[0]) for run in runs), 2), "modules": int(runs[0][1])}
        )
    return rows
