"""Tests for the CUDA device, compared with the CPU: equal codes and nearly equal audio."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from runtime.device.quantized import Quantization
from runtime.engine.engine import Engine
from runtime.model.checkpoints.quantize import quantize
from runtime.request import Mode, Reference, Sampling, SpeechRequest, VoicePrompt
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.golden.stored import CASES, arrays, request_of
from tests.support.checkpoints.tiny import TINY
from tests.support.cuda import needs_gpu
from tests.support.engines import speak, speak_together

pytestmark = needs_gpu

SOUND_ATOL = 2e-3  # Tolerance of the audio, because convolutions on the GPU may use TF32.


@pytest.fixture(scope="module", autouse=True)
def exact_convolutions() -> Iterator[None]:
    """Disable TF32 for convolutions.

    With TF32, Mimi would select other codes if two codebook vectors are almost equally near.
    """
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def engine_on(*folders: str, device: str, dtype: str = "float32", slots: int = 8) -> Engine:
    """Open an engine on a device, with one dtype for the talker and for Code2Wav.

    By default, Code2Wav on a GPU uses bfloat16.
    """
    settings = EngineSettings(device=device, dtype=dtype, sound_dtype=dtype, max_slots=slots)
    return Engine.open(Settings(models=folders, engine=settings))


@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
@pytest.mark.parametrize("name", ["tiny", "odd"])
def test_codes_on_cuda_equal_the_reference_implementation(folder_of: FolderOf, name: str, mode: str) -> None:
    cases = [case for case in CASES.values() if (case["checkpoint"], case["mode"]) == (name, mode)]
    engine = engine_on(str(folder_of(name, mode, cases[0]["seed"])), device="cuda", slots=len(cases))
    for case in cases:
        recorder = speak(engine, request_of(case))
        assert np.array_equal(recorder.codes, arrays(case["name"])["codes"]), case["name"]
        if case["keeps_waveform"]:
            waveform = arrays(case["name"])["waveform"]
            ours = recorder.pcm[len(recorder.pcm) - len(waveform) :] / 32767
            np.testing.assert_allclose(ours, waveform, rtol=0, atol=SOUND_ATOL)
    for case, recorder in zip(cases, speak_together(engine, *map(request_of, cases), apart=1), strict=True):
        assert np.array_equal(recorder.codes, arrays(case["name"])["codes"]), case["name"]


def test_seed_gives_the_same_codes_on_cuda_and_cpu(folder_of: FolderOf) -> None:
    folder = str(folder_of("tiny", "custom_voice"))
    requests = [
        SpeechRequest(text="A seed is a promise.", mode=engine_mode, seed=seed, max_frames=30, sampling=sampling)
        for engine_mode in [engine_on(folder, device="cpu").cards[0].modes[0]]
        for seed in (0, 7, 2**63 - 1)
        for sampling in (Sampling(), Sampling(top_p=0.8, temperature=1.1), Sampling(top_k=0, repetition_penalty=1.3))
    ]
    on_cpu = speak_together(engine_on(folder, device="cpu", slots=len(requests)), *requests)
    on_card = speak_together(engine_on(folder, device="cuda", slots=len(requests)), *requests)
    for here, there in zip(on_cpu, on_card, strict=True):
        assert np.array_equal(here.codes, there.codes)


def test_cuda_engine_speaks_with_bfloat16(folder_of: FolderOf) -> None:
    engine = engine_on(str(folder_of("tiny", "voice_design")), device="cuda", dtype="bfloat16")
    recorder = speak(engine, SpeechRequest(text="Half the bits.", mode=engine.cards[0].modes[0], seed=1, max_frames=12))
    assert recorder.codes.shape[0] > 2
    assert np.abs(recorder.pcm).max() > 100


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cuda_engine_speaks_with_int8_quantized_at_load_or_read_from_a_file(
    folder_of: FolderOf, tmp_path: Path, dtype: str
) -> None:
    """The GPU kernels run with bfloat16, and PyTorch's matrix multiplications with float32."""
    folder, written = folder_of("tiny", "custom_voice"), tmp_path / "rounded"
    quantize(str(folder), Quantization.INT8, written)
    request = SpeechRequest(text="A quarter of the bits.", mode=Mode.CUSTOM_VOICE, voice="ryan", seed=1, max_frames=20)
    spoken = []
    for model, word in ((folder, "int8"), (written, "auto")):
        settings = EngineSettings(device="cuda", dtype=dtype, sound_dtype=dtype, max_slots=4, quantize=word)
        engine = Engine.open(Settings(models=(str(model),), engine=settings))
        assert [card.dtype for card in engine.cards] == ["int8"]
        spoken += [recorder.codes for recorder in speak_together(engine, request, request)]
    assert len(spoken[0]) > 2
    assert all(np.array_equal(codes, spoken[0]) for codes in spoken)


def test_cross_checkpoint_embeddings_in_graphs_give_the_codes_of_the_cpu(folder_of: FolderOf) -> None:
    """The other rows of each batch use their own embedding tables.

    The CPU uses the plain PyTorch implementation.
    """
    folders = str(folder_of("tiny", "custom_voice")), str(folder_of("tiny", "base", 2))
    said_there = []
    for device in ("cpu", "cuda"):
        engine = engine_on(*folders, device=device)
        [base] = (card for card in engine.cards if Mode.BASE in card.modes)
        x_vector = np.random.default_rng(3).normal(size=TINY.talker.hidden).astype(np.float32)
        prompt = VoicePrompt(fingerprint=base.fingerprint, x_vector=x_vector)
        reference = Reference(samples=np.zeros(24000, np.float32), prompt=prompt)
        requests = [
            SpeechRequest(
                text="The old phone is slow, and the kettle is on.",
                mode=Mode.CUSTOM_VOICE,
                voice=None,
                instruct="slowly",
                reference=reference,
                graft=row % 2 == 1,
                seed=row // 2,
                max_frames=30,
            )
            for row in range(6)
        ]
        said_there.append([recorder.codes for recorder in speak_together(engine, *requests)])
    for here, there in zip(*said_there, strict=True):
        assert np.array_equal(here, there)
    for plain, grafted in zip(said_there[1][::2], said_there[1][1::2], strict=True):
        assert not np.array_equal(plain, grafted)
