"""Tests for the first and the last kernel of a frame, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from runtime.device.fused import SampleOutput
from runtime.device.kernels.frame_io import begin_frame, finish_frame
from tests.support.kernel_references import (
    DEVICE,
    TOLERANCE,
    begin_reference,
    copy_of,
    finish_reference,
    interpreted,
    random_state,
)

pytestmark = pytest.mark.slow

SLOTS, CODES, TEXTS = 9, 40, 70
SCRATCH = SLOTS


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("groups", "width"), [(16, 2048), (16, 300), (3, 256), (1, 20)])
def test_frame_input_is_the_sum_of_code_and_text_embeddings(groups: int, width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(groups)
    state = random_state(generator, SLOTS, groups, CODES, TEXTS)
    frames = torch.randn(groups, CODES, width, generator=generator).to(DEVICE, dtype)
    text = torch.randn(TEXTS, width, generator=generator).to(DEVICE, dtype)
    rows = torch.tensor([4, 0, 8, SCRATCH, 7, SCRATCH], device=DEVICE)
    before = copy_of(state)
    x, positions = begin_frame(rows, state, frames, text)
    expected, places = begin_reference(rows, before, frames, text)
    torch.testing.assert_close(x, expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=1e-5)
    assert torch.equal(positions, places)
    assert all(torch.equal(now, then) for now, then in zip(state, before, strict=True))
    alone, _ = begin_frame(rows[2:3].clone(), state, frames, text)
    assert torch.equal(alone, x[2:3])


@interpreted
def test_ended_row_reads_only_within_the_embedding_tables() -> None:
    """EOS is not a code of codebook 0, but a row may run in one more frame after EOS."""
    generator = torch.Generator().manual_seed(0)
    state = random_state(generator, SLOTS, 1, CODES, TEXTS)
    state.codes[3, 0] = 10**9
    frames, text = (torch.randn(*shape, generator=generator).to(DEVICE) for shape in ((1, CODES, 32), (TEXTS, 32)))
    x, _ = begin_frame(torch.tensor([3], device=DEVICE), state, frames, text)
    torch.testing.assert_close(x[0], frames[0, -1] + text[state.trailing[3, state.frame[3] - 1]])


@pytest.mark.parametrize("groups", [16, 3])
def test_row_state_advances_and_reports_its_frame(groups: int) -> None:
    """Slot 8 generates its first frame, which takes no position."""
    generator = torch.Generator().manual_seed(groups)
    eos = CODES + 2
    state = random_state(generator, SLOTS, groups, CODES, TEXTS)
    rows = torch.tensor([4, 0, SCRATCH, 8, SCRATCH], device=DEVICE)
    state.frame[8] = 0
    codes = torch.randint(0, CODES, (5, groups), generator=generator).to(DEVICE)
    codes[1, 0] = eos
    codes[4] = codes[2]  # Two rows write to the scratch slot in any order, so they get equal codes.
    finite = torch.ones(5, groups, dtype=torch.bool, device=DEVICE)
    finite[3, groups - 1] = finite[0, 0] = False
    expected = copy_of(state)
    stops = state.position[rows] + torch.tensor([1, 1, 0, 0, 0], device=DEVICE)
    output = finish_frame(rows, state, SampleOutput(codes, finite), eos)
    assert torch.equal(output, finish_reference(rows, expected, codes, finite, eos, stops))
    assert output[:, -2].tolist() == [0, 1, 0, 0, 0]
    assert output[:, -1].tolist() == [0, 1, 1, 0, 1]
    assert all(torch.equal(now, then) for now, then in zip(state, expected, strict=True))
    assert state.position[SCRATCH] == state.frame[SCRATCH] == 0
