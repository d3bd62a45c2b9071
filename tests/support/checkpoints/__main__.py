"""Command that writes checkpoints with random weights in the published tensor shapes.

`python -m tests.support.checkpoints FOLDER --size 1.7B --mode custom_voice` writes every file of the published
repository. Use these checkpoints to measure speed: every utterance ends at its frame limit (`endless.py`), so all runs
have equal lengths.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.support.checkpoints.published import PUBLISHED
from tests.support.checkpoints.spec import MODES
from tests.support.checkpoints.torch_draw import write_synthetic

SPEECH_TOKENIZER = "speech_tokenizer/model.safetensors"


def main() -> int:
    """Write one checkpoint for each selected mode.

    The checkpoints share the file of the speech tokenizer by a hard link.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="target; several modes become subfolders")
    parser.add_argument("--size", choices=list(PUBLISHED), default="1.7B")
    parser.add_argument("--mode", choices=MODES, action="append", help="can be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="device of the random numbers: cpu or cuda; default: a GPU, if available")
    arguments = parser.parse_args()
    modes = arguments.mode or ["custom_voice"]
    first: Path | None = None
    for mode in modes:
        start = time.perf_counter()
        folder = arguments.folder / mode if len(modes) > 1 else arguments.folder
        write_synthetic(folder, arguments.size, mode, arguments.seed, arguments.device)
        if first is not None:
            (folder / SPEECH_TOKENIZER).unlink()
            os.link(first / SPEECH_TOKENIZER, folder / SPEECH_TOKENIZER)
        first = first or folder
        print(f"{arguments.size} {mode} in {folder}: {time.perf_counter() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
