r"""Command like `voicewright say` that generates speech with the reference implementation.

    python -m tests.golden.oracle_say --random-checkpoint FOLDER --mode base --seed 3
    python -m tests.golden.oracle_say "Hello." --model FOLDER --mode base --ref-audio a.wav --ref-text Hi. \
        --greedy --max-frames 40 --codes-out codes.npy --out hello.wav

Run it with the Python of .venv-oracle, in the root of the repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import soundfile
import torch

from tests.golden.oracle import GREEDY, Oracle, Utterance
from tests.golden.random_checkpoint import random_checkpoint
from tests.support.checkpoints import MODES


def main() -> None:
    """Create a random checkpoint, or generate an utterance, as the command line selects."""
    arguments = _parser().parse_args()
    torch.set_num_threads(2)
    if arguments.random_checkpoint is not None:
        random_checkpoint(arguments.random_checkpoint, arguments.mode, arguments.seed)
        print(arguments.random_checkpoint)
        return
    if arguments.model is None or arguments.text is None:
        raise SystemExit("TEXT and --model are needed to speak")
    torch.manual_seed(arguments.seed)
    oracle = Oracle(arguments.model, getattr(torch, arguments.dtype))
    settings = GREEDY if arguments.greedy else dict.fromkeys(GREEDY, True)
    result = oracle.speak(_utterance(arguments), arguments.max_frames, **settings)
    print(
        f"prompt {len(result.prompt)} positions, {len(result.codes)} frames, {len(result.waveform)} samples,"
        f" smallest gap {result.smallest_gaps.min():.1e}"
    )
    if arguments.codes_out is not None:
        np.save(arguments.codes_out, result.codes)
    if arguments.out is not None:
        rate = oracle.speech_tokenizer.get_output_sample_rate()
        soundfile.write(arguments.out, result.waveform, rate, subtype="FLOAT")


def _utterance(arguments: argparse.Namespace) -> Utterance:
    # Default of the reference: non-streaming, except for Base.
    layout = arguments.layout or ("streaming" if arguments.mode == "base" else "non_streaming")
    return Utterance(
        mode=arguments.mode,
        text=arguments.text,
        language=arguments.language,
        non_streaming=layout == "non_streaming",
        speaker=arguments.voice,
        instruct=arguments.instruct,
        reference=arguments.ref_audio,
        reference_text=arguments.ref_text,
        x_vector_only=arguments.x_vector_only,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--voice")
    parser.add_argument("--language")
    parser.add_argument("--instruct")
    parser.add_argument("--ref-audio", help="path of a sound file; a bare name needs a ./ before it if long")
    parser.add_argument("--ref-text")
    parser.add_argument("--x-vector-only", action="store_true")
    parser.add_argument("--layout", choices=("streaming", "non_streaming"))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float64"), default="float32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--max-frames", type=int)
    parser.add_argument("--codes-out", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--random-checkpoint", type=Path, metavar="FOLDER", help="make one there, and stop")
    return parser


if __name__ == "__main__":
    main()
