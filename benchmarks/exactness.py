"""Compares scores of talker and code predictor with fewer bits against float32, draw by draw.

python -m benchmarks.exactness MODEL [--weights bfloat16,int8,int4] [--positions 2000] [--json FILE]

``int8-card`` is what a card makes of eight bits: rows of bfloat16 that are not rounded themselves. A CPU takes the
products to which the card's kernels are held.

float32 speaks some texts side by side, and every other kind of weights is led along the same codes: each draw of each
codebook is a position. What is compared are the scores behind the sampling rules, as probabilities: the divergence of
the other's from float32's (KL, nats a draw), and how often both have the same most probable code.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.arguments import parser_of, several
from benchmarks.laptop import settings_of
from benchmarks.parts import Parts
from benchmarks.prompts import sentences
from benchmarks.report import show, tell
from runtime.device import quantized
from runtime.device.quantized import DequantizedInt8
from runtime.engine import frame
from runtime.engine.sampling import LevelSettings, pick

ROWS = 8  # texts that are spoken side by side
KINDS = ("bfloat16", "int8", "int4")
CARD = "int8-card"

Pick = Callable[[Tensor, LevelSettings, Tensor | None], Tensor]


@dataclass(slots=True)
class Draws:
    """Draws in their order: what each codebook's scores make probable, and the codes that were taken."""

    probabilities: list[Tensor] = field(default_factory=list)  # logarithms, [B, V] each
    codes: list[Tensor] = field(default_factory=list)  # [B] each

    def recording(self, led_by: Draws | None = None) -> Pick:
        """`pick`, which also writes down its scores, and takes the codes of others where it is led by them.

        On the caller's thread only: another engine of this process draws as ever.
        """
        mine = threading.get_ident()

        def drawing(scores: Tensor, level: LevelSettings, noise: Tensor | None) -> Tensor:
            if threading.get_ident() != mine:
                return pick(scores, level, noise)
            codes = pick(scores, level, noise) if led_by is None else led_by.codes[len(self.codes)]
            self.probabilities.append(scores.double().log_softmax(dim=-1))
            self.codes.append(codes)
            return codes

        return drawing


def drawn(model: str, weights: str, positions: int, led_by: Draws | None = None) -> Draws:
    """The draws of one kind of weights, at least so many."""
    with patch.object(frame, "scripted_frame", lambda predictor, dtype: None):  # TorchScript draws by itself
        parts = _on_a_card(model) if weights == CARD else Parts(settings_of(model, weights, ROWS))
    draws = Draws()
    groups = parts.core.checkpoint.config.talker.num_code_groups
    prompts = [parts.prompt(text) for text in sentences()[:ROWS]]
    with patch.object(frame, "pick", draws.recording(led_by)):
        parts.speak(prompts, -(-positions // (ROWS * groups)))
    return draws


def _on_a_card(model: str) -> Parts:
    """Rows of bfloat16 and weights of eight bits, multiplied as a card does."""
    settings = settings_of(model, "int8", ROWS)
    engine = replace(settings.engine, dtype="bfloat16", sound_dtype="float32")
    with patch.object(quantized, "product_of", DequantizedInt8):
        return Parts(replace(settings, engine=engine))


def compare(truth: Draws, other: Draws) -> dict[str, float]:
    """How far the others' probabilities are from the truth's, over every row of every draw.

    Codes that the rules ban have no probability on either side, and add nothing.
    """
    diverged: list[Tensor] = []
    agreed: list[Tensor] = []
    for mine, theirs in zip(truth.probabilities, other.probabilities, strict=True):
        known = mine.isfinite()
        diverged.append(torch.where(known, mine.exp() * (mine - theirs), 0.0).nan_to_num(nan=0.0).sum(dim=-1))
        agreed.append((mine.argmax(dim=-1) == theirs.argmax(dim=-1)).double())
    divergence, agreement = torch.cat(diverged), torch.cat(agreed)
    count = len(divergence)
    return {
        "draws": count,
        "kl": round(divergence.mean().item(), 5),
        "kl_p95": round(divergence.quantile(0.95).item(), 5),
        "same_first": round(agreement.mean().item(), 4),
        "error": round((agreement.var() / count).sqrt().item(), 4),
    }


def measure(
    model: str, kinds: Sequence[str], positions: int, tell: Callable[[str], None] = lambda step: None
) -> list[dict[str, Any]]:
    """A row for each kind of weights; one checkpoint is in memory at a time."""
    tell("float32")
    truth, rows = drawn(model, "float32", positions), []
    for kind in kinds:
        tell(kind)
        rows.append({"weights": kind, **compare(truth, drawn(model, kind, positions, truth))})
    return rows


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("model", help="a folder")
    parser.add_argument(
        "--weights", type=several(str), default=KINDS, help="of bfloat16, int8, int4, int8-card, float32"
    )
    parser.add_argument("--positions", type=int, default=2000, help="draws that are compared, at least")
    arguments = parser.parse_args()
    rows = measure(arguments.model, arguments.weights, arguments.positions, tell)
    show({"against float32": rows}, arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
