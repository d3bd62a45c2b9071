"""Tests for the voice encoders: padding of the buffer does not change the result."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.extent import masked_mean, pad_reflect, pad_replicate, zero_padding
from runtime.model.speaker_encoder import FFT, MEL_MAX_HZ, slaney_filters
from runtime.model.speech_encoder import PaddedConv
from tests.conftest import Loaded
from tests.support.signals import voice

# Tolerance of x-vectors, because a padded buffer adds zeros to the sums, which changes their rounding.
X_VECTOR_ATOL = 2e-6
BUFFER = 20 * 3840  # Number of samples in 3.2 s: a whole number of frames of both encoders.

# Number of samples: whole frames, one sample more, one sample less, half a frame of the last downsampling, and an odd
# number.
LENGTHS = (24_000, 38_400, 38_401, 38_399, 39_360, 57_123)


@pytest.fixture(params=["tiny", "odd"])
def checkpoint(request: pytest.FixtureRequest, loaded: Loaded) -> Checkpoint:
    return loaded(request.param, "base")


def buffered(samples: Tensor, behind: float) -> tuple[Tensor, Tensor]:
    """Return a buffer that starts with a recording, and the number of its samples.

    The rest of the buffer is noise with an amplitude of at most `behind`.
    """
    noise = torch.from_numpy(np.random.default_rng(1).uniform(-behind, behind, BUFFER).astype(np.float32))
    noise[: len(samples)] = samples
    return noise, torch.tensor(len(samples))


@pytest.mark.parametrize("length", LENGTHS)
@torch.inference_mode()
def test_recording_in_a_padded_buffer_is_encoded_like_an_unpadded_one(checkpoint: Checkpoint, length: int) -> None:
    speaker, speech = checkpoint.speaker_encoder, checkpoint.speech_tokenizer.encoder
    assert speaker is not None
    samples = torch.from_numpy(voice(3.0, 7)[:length])
    alone = speaker(samples), speech(samples)
    for behind in (0.0, 0.9):
        x_vector, codes = speaker(*buffered(samples, behind)), speech(*buffered(samples, behind))
        np.testing.assert_allclose(x_vector, alone[0], rtol=0, atol=X_VECTOR_ATOL)
        assert np.array_equal(codes[: len(alone[1])], alone[1])


@torch.inference_mode()
def test_buffer_content_after_the_recording_does_not_change_its_encoding(checkpoint: Checkpoint) -> None:
    assert checkpoint.speaker_encoder is not None
    samples = torch.from_numpy(voice(2.0, 3))
    silent, loud = (checkpoint.speaker_encoder(*buffered(samples, behind)) for behind in (0.0, 0.9))
    assert np.array_equal(silent, loud)


@pytest.mark.parametrize("length", [6, 9, 12])
def test_sequence_in_a_longer_buffer_is_padded_after_its_last_step(length: int) -> None:
    x = torch.randn(2, 3, 12)
    own, count = x[..., :length], torch.tensor(length)
    for padded, mode in ((pad_reflect, "reflect"), (pad_replicate, "replicate")):
        assert torch.equal(padded(x, 4, 2, count)[..., : length + 6], F.pad(own, (4, 2), mode=mode))
        assert torch.equal(padded(own, 4, 2, None), F.pad(own, (4, 2), mode=mode))
    assert not zero_padding(x, count)[..., length:].any()
    assert torch.allclose(masked_mean(x, count), own.mean(dim=-1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize("pad", ["constant", "replicate"])
@pytest.mark.parametrize(("length", "stride"), [(8, 4), (9, 4), (11, 4), (7, 2), (5, 1)])
def test_convolution_of_a_padded_buffer_equals_convolution_of_the_unpadded_sequence(
    pad: str, length: int, stride: int
) -> None:
    conv = PaddedConv(2, 3, 2 * stride, stride=stride, pad=pad)
    x, count = torch.randn(1, 2, 16), torch.tensor(length)
    alone, made = conv(x[..., :length]), conv.output_length(count)
    assert made is not None
    assert int(made) == alone.shape[-1]
    assert torch.allclose(conv(x, count)[..., : int(made)], alone, atol=1e-6)


@pytest.mark.parametrize(("filters", "sample_rate"), [(128, 24_000), (80, 24_000), (64, 32_000)])
def test_mel_filters_are_bitwise_equal_to_transformers(filters: int, sample_rate: int) -> None:
    from transformers.audio_utils import mel_filter_bank

    limits = (FFT // 2 + 1, filters, 0.0, float(MEL_MAX_HZ), sample_rate)
    assert np.array_equal(slaney_filters(filters, sample_rate), mel_filter_bank(*limits, "slaney", "slaney"))
