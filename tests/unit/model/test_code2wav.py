"""Tests for streaming with Code2Wav: equal to a full decode for any chunks and batches.

The network is described in docs/model.md 6.
"""

from __future__ import annotations

from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from runtime.device import native
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.cloned_voice import ClonedVoice
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.model.checkpoints.weights import on_meta
from runtime.model.code2wav import Code2Wav
from runtime.model.code2wav_interface import to_s16
from runtime.model.products import Conv, TransposedConv
from runtime.settings import DEMO_CHECKPOINT
from tests.conftest import FolderOf, Loaded
from tests.unit.model.published import speech_tokenizer_config

# Number of frames. It exceeds the number that the attention windows (16 and 7 frames) and the following convolutions
# cover together.
FRAMES = 60

# Tolerance for rounding in float64. A wrong chunk boundary causes far larger errors.
EXACT = 1e-9


@pytest.fixture(scope="module", params=["tiny", "odd"])
def precise(request: pytest.FixtureRequest, folder_of: FolderOf) -> Code2Wav:
    """Return a Code2Wav network in float64."""
    return in_float64(folder_of(request.param, "base"))


def in_float64(folder: Path) -> Code2Wav:
    """Load a Code2Wav network with PyTorch's weight layout, and convert it to float64."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(native, "supports_convolution", lambda dtype: False)
        return load_checkpoint(str(folder), torch.device("cpu"), torch.float32).speech_tokenizer.code2wav.double()


def codes_of(code2wav: Code2Wav, rows: int, frames: int = FRAMES, seed: int = 0) -> Tensor:
    config = code2wav.config
    stream = np.random.RandomState(seed)
    return torch.from_numpy(stream.randint(0, config.codebook_size, (rows, frames, config.num_quantizers)))


def cuts_of(schedule: object, frames: int) -> list[tuple[int, int]]:
    """Return the start and end frame of each chunk.

    The last chunk ends at the last frame.
    """
    ends = [0]
    for size in schedule:  # type: ignore[attr-defined]
        ends.append(min(ends[-1] + size, frames))
        if ends[-1] == frames:
            break
    assert ends[-1] == frames
    return list(pairwise(ends))


@torch.inference_mode()
def decoded(code2wav: Code2Wav, codes: Tensor, cuts: list[tuple[int, int]] | None = None) -> Tensor:
    state = code2wav.fresh_state(len(codes))
    return torch.cat([code2wav(codes[:, start:end], state) for start, end in cuts or [(0, codes.shape[1])]], dim=1)


@pytest.mark.slow("odd")
@settings(max_examples=8, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(1, 25), min_size=1, max_size=12), rows=st.integers(1, 4), seed=st.integers(0, 99))
def test_random_chunk_schedules_equal_the_full_decode(
    precise: Code2Wav, sizes: list[int], rows: int, seed: int
) -> None:
    frames = min(sum(sizes), 80)
    codes = codes_of(precise, rows, frames, seed)
    streamed = decoded(precise, codes, cuts_of(sizes, frames))
    torch.testing.assert_close(streamed, decoded(precise, codes), rtol=0, atol=EXACT)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    spec=st.sampled_from(["tiny", "odd"]),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=12),
    members=st.lists(st.integers(0, 7), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_stream_is_bitwise_independent_of_chunking_and_batch(
    loaded: Loaded, spec: str, sizes: list[int], members: list[int], seed: int
) -> None:
    code2wav = loaded(spec, "base").speech_tokenizer.code2wav
    frames = min(sum(sizes), 40)
    codes = codes_of(code2wav, 8, frames, seed)
    alone = {member: decoded(code2wav, codes[member : member + 1])[0] for member in set(members)}
    together = decoded(code2wav, codes[members], cuts_of(sizes, frames))
    for member, wave in zip(members, together, strict=True):
        assert torch.equal(wave, alone[member])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1,), (1, 2, 4, 8, 16), (3,), (16,), (5, 1)], ids=str)
def test_embedded_voice_is_bitwise_independent_of_chunking_and_batch(demo: Checkpoint, sizes: tuple[int, ...]) -> None:
    code2wav, frames = demo.speech_tokenizer.code2wav, 33
    codes = codes_of(code2wav, 4, frames)
    whole = decoded(code2wav, codes[:1], [(0, frames)])[0]
    assert whole.std() > 0.01
    for rows in (1, 3, 4):
        assert torch.equal(decoded(code2wav, codes[:rows], cuts_of(cycle(sizes), frames))[0], whole), rows


@pytest.mark.slow
def test_torch_convolutions_give_the_same_audio_up_to_rounding(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPUs run the network with ``nn.Conv1d`` and ``nn.ConvTranspose1d``.

    In float64, all results must agree.
    """

    def upsampled(conv: TransposedConv, x: Tensor) -> Tensor:
        left = conv.kernel_size[0] // conv.stride[0] - 1
        wave = nn.ConvTranspose1d.forward(conv, x.transpose(1, 2)).transpose(1, 2)
        return wave[:, left * conv.stride[0] : x.shape[1] * conv.stride[0]]

    for folder in (folder_of("tiny", "base"), folder_of("odd", "base"), DEMO_CHECKPOINT):
        network = in_float64(folder)
        codes = codes_of(network, 2, 24)
        ours = decoded(network, codes, cuts_of(cycle((1, 7, 3)), 24))
        with monkeypatch.context() as patched:
            patched.setattr(Conv, "forward", lambda conv, x: nn.Conv1d.forward(conv, x.transpose(1, 2)).transpose(1, 2))
            patched.setattr(TransposedConv, "forward", upsampled)
            theirs = decoded(network, codes)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)


def test_audio_is_neither_silent_nor_clipped(precise: Code2Wav) -> None:
    """If the audio were silent or clipped, the comparisons of the other tests could not fail."""
    wave = decoded(precise, codes_of(precise, 2))
    assert wave.std() > 0.01
    assert (wave.abs() == 1).double().mean() < 0.05
    assert not torch.allclose(wave[0], wave[1], atol=1e-3)


def test_frame_affects_only_samples_within_its_window(precise: Code2Wav) -> None:
    config, codes = precise.config, codes_of(precise, 1)
    changed = codes.clone()
    changed[0, 10] = (changed[0, 10] + 1) % config.codebook_size
    differs = (decoded(precise, codes) != decoded(precise, changed))[0].nonzero()[:, 0] // config.samples_per_frame
    assert int(differs.min()) == 10
    # Each layer extends the influence of a frame by its window. Then pre_conv and the convolutions extend it further.
    through_layers = config.num_hidden_layers * (config.sliding_window - 1)
    assert through_layers <= int(differs.max()) - 10 <= through_layers + 2 + precise.tail_frames - 1


@pytest.mark.quick("tiny-11", "odd-10")
@pytest.mark.slow
@pytest.mark.parametrize("reference", [1, 2, 5, 10, 11, 12, 13, 16, 17, 40])
def test_warm_state_equals_decoding_the_reference_and_dropping_its_audio(precise: Code2Wav, reference: int) -> None:
    codes = codes_of(precise, 2)
    expected = decoded(precise, codes)[:, reference * precise.config.samples_per_frame :]
    with torch.inference_mode():
        state = precise.fresh_state(2)
        precise.warm(codes[:, :reference], state)
        for start, end in cuts_of(cycle((1, 2, 5)), FRAMES - reference):
            samples = slice(start * precise.config.samples_per_frame, end * precise.config.samples_per_frame)
            wave = precise(codes[:, reference + start : reference + end], state)
            torch.testing.assert_close(wave, expected[:, samples], rtol=0, atol=EXACT)


def test_warm_up_needs_exactly_the_receptive_field_of_the_convolutions(precise: Code2Wav) -> None:
    """``tail_frames`` includes a margin of one frame.

    Therefore one frame less is sufficient, but a few frames less are not.
    """
    reference, tail = 40, precise.tail_frames

    def after(kept: int) -> Tensor:
        codes = codes_of(precise, 1)
        with torch.inference_mode():
            state = precise.fresh_state(1)
            latents = precise.latents(codes[:, :reference], state)
            precise.vocode(latents[:, -kept:], state)
            return precise(codes[:, reference:], state)

    whole = after(reference)
    torch.testing.assert_close(after(tail - 1), whole, rtol=0, atol=EXACT)
    assert (after(tail - 4) - whole).abs().max() > 100 * EXACT


def test_published_decoder_has_a_receptive_field_of_ten_frames() -> None:
    """``tail_frames`` is 11, because it includes a margin of one frame."""
    with on_meta():
        code2wav = Code2Wav(speech_tokenizer_config().code2wav)
    assert code2wav.tail_frames == 11
    assert code2wav.config.samples_per_frame == 1920
    kept = code2wav.fresh_state(1)
    assert sum(part.numel() for part in kept.convs) == 1_024 + 12_288 + 6_144 + 2_880 + 112_320 + 576
    assert sum(part.numel() for part in (*kept.keys, *kept.values)) == 1_163_264


@torch.inference_mode()
def test_code2wav_shapes_are_correct_on_the_meta_device() -> None:
    """The meta device takes the same branches of the code as a GPU."""
    with on_meta():
        code2wav = Code2Wav(speech_tokenizer_config().code2wav)
        state, codes = code2wav.fresh_state(2), torch.zeros(2, 3, code2wav.config.num_quantizers, dtype=torch.int64)
    shapes = [part.shape for part in state.tensors()]
    assert code2wav(codes, state).shape == (2, 3 * 1920)
    assert [part.shape for part in state.tensors()] == shapes


def test_streams_batch_chunks_of_different_sizes(cloner: Checkpoint) -> None:
    code2wav = cloner.speech_tokenizer.code2wav
    codes = codes_of(code2wav, 4, 20)
    alone, streams = Code2WavStreams(code2wav, 4), Code2WavStreams(code2wav, 6)
    whole = [alone.decode([row], codes[row : row + 1])[0] for row in range(4)]
    slots = [5, 1, 2, 4]
    for slot in slots:
        streams.open(slot)
    sounds = [b""] * 4
    for ends in ([0, 0, 0, 0], [1, 3, 1, 3], [3, 4, 2, 10], [20, 20, 20, 20]):
        if not any(ends):
            begins = ends
            continue
        for size in {end - begin for begin, end in zip(begins, ends, strict=True)}:
            members = [row for row in range(4) if ends[row] - begins[row] == size]
            chunk = torch.stack([codes[row, begins[row] : ends[row]] for row in members])
            for row, pcm in zip(members, streams.decode([slots[row] for row in members], chunk), strict=True):
                sounds[row] += pcm
        begins = ends
    assert sounds == whole


def test_reopened_stream_has_no_old_state(cloner: Checkpoint) -> None:
    code2wav = cloner.speech_tokenizer.code2wav
    first, second = codes_of(code2wav, 2, 10)
    streams = Code2WavStreams(code2wav, 2)
    streams.open(1)
    fresh = streams.decode([1], second[None])
    streams.open(1, ClonedVoice(torch.zeros(1), first, "Words."))
    warmed = streams.decode([1], second[None])
    streams.open(1)
    assert streams.decode([1], second[None]) == fresh
    assert warmed != fresh


@pytest.mark.parametrize(
    ("wave", "steps"),
    [(0.0, 0), (1.0, 32767), (-1.0, -32767), (0.5 / 32767, 0), (0.6 / 32767, 1), (float("nan"), 0)],
)
def test_full_scale_audio_becomes_the_sample_value_32767(wave: float, steps: int) -> None:
    assert to_s16(torch.tensor([wave])).tolist() == [steps]
