"""Tests for Code2Wav in 16-bit dtypes: close to float32, and equal for all chunk sizes."""

from __future__ import annotations

import pytest
import torch

from runtime.device import open_device
from runtime.device.cpu import has_bfloat16_instructions
from runtime.device.open_device import choose_code2wav_dtype
from runtime.device.quantized import Quantization, supports_float16
from runtime.model.checkpoints.checkpoint import load_checkpoint
from tests.conftest import FolderOf

CPU = torch.device("cpu")


@pytest.mark.parametrize(("dtype", "most"), [(torch.bfloat16, 0.1), (torch.float16, 0.01)])
@torch.inference_mode()
def test_half_precision_audio_is_close_to_float32_and_chunk_and_batch_invariant(
    folder_of: FolderOf, dtype: torch.dtype, most: float
) -> None:
    folder = str(folder_of("tiny", "custom_voice"))
    whole = load_checkpoint(folder, CPU, torch.float32).speech_tokenizer.code2wav
    narrow = load_checkpoint(folder, CPU, torch.float32, code2wav_dtype=dtype).speech_tokenizer.code2wav
    if not any(getattr(module, "product", None) for module in narrow.modules()):
        pytest.skip("this processor has no such products that keep a row's bits")
    config = narrow.config
    codes = torch.randint(
        config.codebook_size, (3, 9, config.num_quantizers), generator=torch.Generator().manual_seed(1)
    )
    expected, made = whole(codes, whole.fresh_state(3)), narrow(codes, narrow.fresh_state(3))
    assert made.dtype is torch.float32
    # These bounds are for random weights. The embedded voice has an error of 0.008 in bfloat16 and of 0 in float16, the
    # dtype of its files.
    assert 0 < (made - expected).norm() < most * expected.norm()
    state = narrow.fresh_state(1)
    chunks = torch.split(codes[1:2], [1, 4, 1, 3], dim=1)
    assert torch.equal(torch.cat([narrow(chunk, state) for chunk in chunks], dim=1), made[1:2])


def test_audio_dtype_follows_the_talker_and_cpu_support() -> None:
    cpu, half = open_device("cpu"), torch.float16 if supports_float16() else torch.float32
    fewer = torch.bfloat16 if has_bfloat16_instructions() else half
    assert choose_code2wav_dtype("auto", cpu, torch.float32, None) is torch.float32
    assert choose_code2wav_dtype("auto", cpu, torch.float32, Quantization.FLOAT16) is half
    assert choose_code2wav_dtype("auto", cpu, torch.float32, Quantization.INT8) is fewer
    assert choose_code2wav_dtype("auto", cpu, torch.bfloat16, None) is fewer
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        assert choose_code2wav_dtype(name, cpu, torch.bfloat16, None) is dtype
