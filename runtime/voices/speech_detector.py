"""Speech detection by the network of the package silero-vad.

The network is TorchScript, so this is the only module outside of the engine's packages that imports torch. We do not
import silero-vad itself, because it sets torch to one thread for the whole process.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib.metadata import distribution
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.audio import DecodedAudio, resample
from runtime.voices.activity import Activity, by_likelihood

RATE = 16_000  # Sample rate of the network in Hz.
WINDOW = 512  # Number of samples in a window (32 ms).
NETWORK = "silero_vad/data/silero_vad.jit"

_turn = threading.Lock()  # The network keeps state between windows, so only one recording is processed at a time.


def find_speech(samples: NDArray[np.float32]) -> Activity:
    """Detect speech. A minute of audio takes 0.6 s of CPU time.

    Shapes: samples [N] float32, mono, 24 kHz.
    Thread: a worker.
    """
    heard = resample(DecodedAudio(samples, SAMPLE_RATE), RATE).samples
    return by_likelihood(_likelihood(heard), WINDOW / RATE)


def _likelihood(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the likelihood of speech for each window. Shapes: samples [N] at 16 kHz -> [ceil(N / 512)]."""
    windows = torch.from_numpy(np.pad(samples, (0, -len(samples) % WINDOW))).view(-1, 1, WINDOW)
    with _turn, torch.inference_mode():
        network = _network()
        network.reset_states()
        return np.array([network(window, RATE).item() for window in windows], np.float32)


@cache
def _network() -> Any:
    return torch.jit.load(str(distribution("silero-vad").locate_file(NETWORK))).eval()  # type: ignore[no-untyped-call]
