"""Tests for the speech tokenizer and the speaker encoder, compared with the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.speaker_encoder import log_mel
from tests.conftest import Loaded
from tests.golden.cases import LENGTHY, MIDDLE, SEEDS, SHORT
from tests.golden.stored import arrays
from tests.support.signals import voice

MEL_ATOL = 1e-5  # Tolerance of the log-mel values, which are logarithms between -11.5 and 3.
# A Fourier transform rounds each bin relative to the loudest bin of its frame, and the logarithm amplifies the error in
# quiet bins. On machines that add in another order, results differed by two ULPs of the frame's peak.
MEL_ULPS = 4 * float(np.finfo(np.float32).eps)
X_VECTOR_ATOL = 1e-5
WAVEFORM_ATOL = 2e-5  # Tolerance of the waveform, whose maximum is 1.
WINDOW_FRAMES = 300  # Number of frames per window of the official package (docs/model.md 6.1).
CONTEXT_FRAMES = 25  # Number of frames before each window that are decoded again.

REFERENCES = {"short": SHORT, "middle": MIDDLE, "lengthy": LENGTHY}


@pytest.fixture(params=["tiny", "odd"])
def checkpoint(request: pytest.FixtureRequest, loaded: Loaded) -> Checkpoint:
    return loaded(request.param, "base", SEEDS[request.param])


def stored(checkpoint: Checkpoint, kind: str) -> dict[str, np.ndarray]:
    return arrays(f"{kind}_{checkpoint.name.split('-')[0]}")


@pytest.mark.parametrize("name", REFERENCES)
def test_x_vectors_equal_the_reference_implementation(checkpoint: Checkpoint, name: str) -> None:
    reference = REFERENCES[name]
    assert checkpoint.speaker_encoder is not None
    with torch.inference_mode():
        vector = checkpoint.speaker_encoder(torch.from_numpy(voice(reference.seconds, reference.seed)))
    expected = stored(checkpoint, "references")[f"x_vector_{name}"]
    np.testing.assert_allclose(vector.numpy(), expected, rtol=0, atol=X_VECTOR_ATOL)


def test_log_mel_spectrogram_equals_the_reference_implementation(checkpoint: Checkpoint) -> None:
    assert checkpoint.speaker_encoder is not None
    mel = log_mel(torch.from_numpy(voice(SHORT.seconds, SHORT.seed)), checkpoint.speaker_encoder.prepare())
    expected = stored(checkpoint, "references")["log_mel_short"].T
    loudness = np.exp(expected)
    rounding = MEL_ULPS * loudness.max(axis=1, keepdims=True) / loudness
    assert (np.abs(mel.numpy() - expected) <= MEL_ATOL + rounding).all()


@pytest.mark.parametrize("seconds", [3, 14])
def test_codes_of_reference_audio_equal_the_reference_implementation(checkpoint: Checkpoint, seconds: int) -> None:
    """The recording of 14 s has more than 250 positions.

    Newer versions of `transformers` would truncate the attention of such a recording.
    """
    with torch.inference_mode():
        codes = checkpoint.speech_tokenizer.encoder(torch.from_numpy(voice(float(seconds), 21)))
    assert np.array_equal(codes.numpy(), stored(checkpoint, "references")[f"codes_{seconds}s"])


@pytest.mark.parametrize("frames", ["1", "5", "longest"])
def test_full_decodes_equal_the_reference_implementation(checkpoint: Checkpoint, frames: str) -> None:
    expected = stored(checkpoint, "code2wav")
    if frames == "longest":
        frames = str(max(int(name.split("_")[1]) for name in expected))
    codes = torch.from_numpy(expected[f"codes_{frames}"]).unsqueeze(0)
    code2wav = checkpoint.speech_tokenizer.code2wav
    with torch.inference_mode():
        wave = code2wav(codes, code2wav.fresh_state(1))[0]
    np.testing.assert_allclose(wave.numpy(), expected[f"waveform_{frames}"], rtol=0, atol=WAVEFORM_ATOL)
    assert len(wave) == int(frames) * code2wav.config.samples_per_frame


@pytest.mark.slow("tiny")
def test_windowed_decodes_equal_the_reference_implementation(checkpoint: Checkpoint) -> None:
    expected = stored(checkpoint, "windows")
    windowed, _ = decoded_both_ways(checkpoint, expected["codes"])
    np.testing.assert_allclose(windowed[:: int(expected["every"])], expected["samples"], rtol=0, atol=WAVEFORM_ATOL)


def test_full_decode_equals_the_windowed_decode_up_to_the_first_seam(loaded: Loaded) -> None:
    checkpoint = loaded("tiny", "base", SEEDS["tiny"])
    windowed, whole = decoded_both_ways(checkpoint, stored(checkpoint, "windows")["codes"][: WINDOW_FRAMES + 40])
    seam = WINDOW_FRAMES * checkpoint.speech_tokenizer.code2wav.config.samples_per_frame
    assert np.array_equal(windowed[:seam], whole[:seam])
    assert np.abs(windowed[seam:] - whole[seam:]).max() > 10 * WAVEFORM_ATOL


@torch.inference_mode()
def decoded_both_ways(checkpoint: Checkpoint, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the audio of codes that are decoded in windows and in one pass."""
    rows, code2wav = torch.from_numpy(codes.astype(np.int64)).unsqueeze(0), checkpoint.speech_tokenizer.code2wav

    def decode(codes: Tensor) -> Tensor:
        return code2wav(codes, code2wav.fresh_state(1))

    samples, windows = code2wav.config.samples_per_frame, []
    for begin in range(0, rows.shape[1], WINDOW_FRAMES):
        context = min(begin, CONTEXT_FRAMES)
        window = decode(rows[:, begin - context : begin + WINDOW_FRAMES])
        windows.append(window[:, context * samples :])
    return torch.cat(windows, dim=1)[0].numpy(), decode(rows)[0].numpy()
