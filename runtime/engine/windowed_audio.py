"""Decoding of codec frames in windows, as in the official package (docs/model.md 6.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.engine.audio.voice_cache import reference_key
from runtime.engine.engine import Engine
from runtime.model.code2wav_interface import ROW_COLUMNS, TorchCode2Wav
from runtime.model.native_code2wav import native_code2wav
from runtime.request import SpeechRequest

WINDOW_FRAMES = 300  # Number of frames per window (docs/model.md 6.1).
CONTEXT_FRAMES = 25  # Number of frames before each window that are decoded again.


@torch.inference_mode()
def windowed_audio(engine: Engine, request: SpeechRequest, codes: NDArray[np.int64]) -> bytes:
    """Decode the frames of a request in overlapping windows, and return 16-bit PCM bytes.

    For a cloned voice, the reference frames are decoded first, and their audio is cut off.

    Shapes: codes [n, Q].
    """
    core = engine.registry.usable(request.mode).core
    assert core is not None, "the checkpoint has generated these codes"
    code2wav = core.checkpoint.speech_tokenizer.code2wav
    all_codes, reference_frames = torch.from_numpy(codes).to(engine.device.torch_device), 0
    voice = None if request.reference is None else core.voice_cache.get(reference_key(request.reference))
    if voice is not None and voice.codes is not None:
        all_codes, reference_frames = torch.cat((voice.codes, all_codes)), len(voice.codes)
    if not len(all_codes):
        return b""
    # The network is the same as in the engine, but has a single slot and no graphs.
    network = native_code2wav(code2wav, 1) or TorchCode2Wav(code2wav, 1)
    row = torch.zeros((1, ROW_COLUMNS), dtype=torch.int32, device=all_codes.device)

    def decode(window: Tensor) -> Tensor:
        network.reset(0)
        return network.decode(row, window)[:, :-1]

    samples = code2wav.config.samples_per_frame
    pcm = decode_in_windows(decode, all_codes.unsqueeze(0).to(torch.int32), samples)[0, reference_frames * samples :]
    return pcm.cpu().numpy().astype("<i2").tobytes()


def decode_in_windows(decode: Callable[[Tensor], Tensor], codes: Tensor, samples_per_frame: int) -> Tensor:
    """Decode frames in windows of `WINDOW_FRAMES`, each after `CONTEXT_FRAMES` earlier frames.

    The earlier frames only provide context: their audio in the window is cut off.

    Args:
        decode: Function that decodes codes [B, m, Q] of new streams to audio [B, m * samples_per_frame].

    Shapes: codes [B, n, Q]; result [B, n * samples_per_frame].
    """
    windows = []
    for begin in range(0, codes.shape[1], WINDOW_FRAMES):
        context = min(begin, CONTEXT_FRAMES)
        audio = decode(codes[:, begin - context : begin + WINDOW_FRAMES])
        windows.append(audio[:, context * samples_per_frame :])
    return torch.cat(windows, dim=1)
