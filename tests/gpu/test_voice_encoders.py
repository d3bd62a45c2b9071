"""Tests for the voice encoders' CUDA graphs with random weights of the published size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from runtime.device.cuda import CudaDevice
from runtime.device.interface import Stream
from runtime.engine.audio.voice_encoders import VoiceEncoders
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from tests.support.checkpoints import few_layers
from tests.support.checkpoints.files import write_drawn
from tests.support.checkpoints.torch_draw import TorchDraw
from tests.support.cuda import needs_gpu
from tests.support.signals import voice

pytestmark = needs_gpu

ENCODERS = few_layers("encoders", 1)
# Tolerance relative to the largest value, in float32. The library's order of additions depends on the length.
X_VECTOR_RTOL = 1e-5


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("checkpoints") / ENCODERS.name
    write_drawn(folder, ENCODERS, "base", TorchDraw(1, torch.device("cuda")), "bfloat16")
    return load_checkpoint(str(folder), torch.device("cuda"), torch.bfloat16)


@pytest.fixture(scope="module")
def encoders(checkpoint: Checkpoint) -> VoiceEncoders:
    torch.backends.cudnn.allow_tf32 = False
    made = VoiceEncoders(checkpoint, CudaDevice())
    made.prepare()
    assert made.lengths, "nothing was captured"
    return made


@pytest.mark.parametrize("seconds", [1.3, 3.0, 7.301, 10.0, 15.55])
def test_graph_output_equals_the_encoder_networks(
    checkpoint: Checkpoint, encoders: VoiceEncoders, seconds: float
) -> None:
    assert checkpoint.speaker_encoder is not None
    samples, device = voice(seconds, 5), CudaDevice()
    with torch.inference_mode(), device.stream(Stream.VOICES):
        sound = torch.from_numpy(samples).cuda()
        x_vector, codes = checkpoint.speaker_encoder(sound), checkpoint.speech_tokenizer.encoder(sound)
        ours, ours_codes = encoders.encode(samples, x_vector_only=False)
        again, _ = encoders.encode(samples, x_vector_only=True)
        torch.cuda.synchronize()
    assert (ours - x_vector).abs().max() <= X_VECTOR_RTOL * x_vector.abs().max()
    assert torch.equal(ours, again)
    assert ours_codes is not None
    assert torch.equal(ours_codes, codes)


@pytest.mark.parametrize("seconds", [1.3, 7.301, 15.55])
def test_voice_is_bitwise_identical_without_graphs(
    checkpoint: Checkpoint, encoders: VoiceEncoders, seconds: float
) -> None:
    """Eager and graph execution yield the same codes only if the voice is bitwise equal."""
    # The runtime allows TF32, so cuDNN can choose among more algorithms.
    torch.backends.cudnn.allow_tf32 = True
    samples, device = voice(seconds, 5), CudaDevice(eager=True)
    eagerly = VoiceEncoders(checkpoint, device)
    eagerly.prepare()
    graphs = VoiceEncoders(checkpoint, CudaDevice())
    graphs.prepare()
    with torch.inference_mode(), device.stream(Stream.VOICES):
        (x_vector, codes), (ours, ours_codes) = (
            each.encode(samples, x_vector_only=False) for each in (graphs, eagerly)
        )
        torch.cuda.synchronize()
    assert torch.equal(x_vector, ours)
    assert codes is not None
    assert ours_codes is not None
    assert torch.equal(codes, ours_codes)
