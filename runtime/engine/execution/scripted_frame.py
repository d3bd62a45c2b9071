"""Code predictor of a frame with its sampling in one TorchScript call, for CPUs.

Between two passes, a code is sampled and embedded in some thirty operations. Called from Python, each has more overhead
than work, and waits for the interpreter lock that the Code2Wav worker also needs. The readable versions are
`CodePredictor.predict` and `Frame.codes` with `pick` of `sampling.py`; codes and scores are bitwise equal to theirs.
TorchScript's restrictions on source code are in `runtime/model/scripted.py`.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.model.code_predictor import CodePredictor
from runtime.model.products import Linear, Table
from runtime.model.scripted import PredictorPass, Same, can_script, products_of, scripted


class ScriptedFrame(Protocol):
    """`PredictorFrame` as TorchScript."""

    def __call__(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        cos: Tensor,
        sin: Tensor,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        greedy: Tensor,
        widest_k: int,
        any_top_p: bool,
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor]: ...


def keep_top_k(scores: Tensor, top_k: Tensor, widest_k: int) -> Tensor:
    if widest_k >= scores.shape[-1]:
        largest = scores.sort(dim=-1, descending=True)[0]
    else:
        largest = scores.topk(widest_k, dim=-1)[0]
    last = largest.gather(-1, (top_k[:, None] - 1).clamp(max=largest.shape[-1] - 1))
    return scores.masked_fill(scores < last, -float("inf"))


def keep_top_p(scores: Tensor, top_p: Tensor) -> Tensor:
    ascending = scores.sort(dim=-1)[0]
    up_to = torch.searchsorted(ascending, scores, right=True) - 1
    mass = ascending.softmax(dim=-1).cumsum(dim=-1).gather(-1, up_to)
    banned = (mass <= 1 - top_p[:, None]) & (top_p < 1)[:, None] & (scores < ascending[:, -1:])
    return scores.masked_fill(banned, -float("inf"))


class PredictorFrame(nn.Module):
    """Passes of the code predictor, each followed by its sampling."""

    def __init__(self, predictor: CodePredictor) -> None:
        super().__init__()
        self.one = PredictorPass(predictor)
        tables = [table for table in predictor.model.codec_embedding if isinstance(table, Table)]
        self.tables = [table.weight.detach() for table in tables]
        small = predictor.small_to_mtp_projection
        self.project = products_of([small]) if isinstance(small, Linear) else Same()
        self.last = len(predictor.lm_head)

    def forward(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        cos: Tensor,
        sin: Tensor,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        greedy: Tensor,
        widest_k: int,
        any_top_p: bool,
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return codes 1 to Q-1 of every row, and the sum of each code's scores, which is finite if all scores are.

        Shapes: x [B, 2, H'], the first two inputs; keys to sin as for `PredictorPass`; temperature to any_top_p as in
        `LevelSettings` of `sampling.py`; noise [B, Q - 1, V], or None if every row is greedy; results [B, Q - 1] int64,
        [Q - 1, B] float32.
        """
        codes: list[Tensor] = []
        sums: list[Tensor] = []
        used = 0
        for group in range(1, self.last + 1):
            scores = self.one(x, group, used, keys, values, cos, sin).float()
            used += x.shape[1]
            sums.append(scores.sum(dim=-1))
            if noise is None:
                code = scores.argmax(dim=-1)
            else:
                kept = keep_top_k(scores / temperature[:, None], top_k, widest_k)
                if any_top_p:
                    kept = keep_top_p(kept, top_p)
                code = torch.where(greedy[:, None], scores, kept + noise[:, group - 1]).argmax(dim=-1)
            codes.append(code)
            if group < self.last:
                embedded = F.embedding(code, self.tables[group - 1]).to(x.dtype)
                x = self.project(embedded, 0)[:, None]
        return torch.stack(codes, dim=-1), torch.stack(sums)


def scripted_frame(predictor: CodePredictor, dtype: torch.dtype) -> ScriptedFrame | None:
    """Return a `PredictorFrame` that shares the code predictor's weights; None if TorchScript is not available."""
    return scripted(PredictorFrame, predictor, dtype) if can_script(predictor, dtype) else None
