"""Makes the sound of a request that was spoken anew, in the official package's windows (docs/model.md 6.1)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.engine.voice_cache import reference_key
from runtime.model.sound import to_s16
from runtime.model.windows import decode_in_windows
from runtime.request import SpeechRequest


@torch.inference_mode()
def windowed_sound(engine: Engine, request: SpeechRequest, codes: NDArray[np.int64]) -> bytes:
    """The s16le sound of a request's frames; of a clone the windows begin with its reference, whose sound is cut off.

    Shapes: codes [n, Q].
    """
    core = engine.registry.usable(request.mode).core
    assert core is not None, "it has spoken"
    code2wav = core.checkpoint.speech_tokenizer.code2wav
    whole, behind = torch.from_numpy(codes).to(engine.device.torch_device), 0
    voice = None if request.reference is None else core.voice_cache.get(reference_key(request.reference))
    if voice is not None and voice.codes is not None:
        whole, behind = torch.cat((voice.codes, whole)), len(voice.codes)
    if not len(whole):
        return b""
    wave = decode_in_windows(code2wav, whole.unsqueeze(0))[0]
    return to_s16(wave[behind * code2wav.config.samples_per_frame :]).cpu().numpy().astype("<i2").tobytes()
