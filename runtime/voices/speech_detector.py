"""Speech detection with the neural network of Silero VAD.

This is the only module outside the engine's packages that imports torch. The weights come from the package silero-vad
6. The code of this package is not used, for two reasons. Its network is in TorchScript, which torch has deprecated.
Importing the package also limits torch to one thread in the whole process.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from runtime.request import SAMPLE_RATE
from runtime.shared.audio.samples import DecodedAudio, resample
from runtime.shipped import shipped
from runtime.voices.activity import SpeechActivity, detect_speech_by_probability

RATE_HZ = 16_000  # Sample rate in Hz of the detection network.
WINDOW_SAMPLES = 512  # Number of samples in a window of 32 ms.
CONTEXT_SAMPLES = 64  # Number of samples before a window that the network also receives.
WEIGHTS = shipped("runtime", "assets/silero-vad") / "model.safetensors"


def find_speech(samples: NDArray[np.float32]) -> SpeechActivity:
    """Detect speech in a recording, and return the recording's speech activity.

    A minute of audio takes about 0.3 s of CPU time.

    Shapes: samples [N] float32, mono, 24 kHz.

    Thread: worker thread.
    """
    resampled = resample(DecodedAudio(samples, SAMPLE_RATE), RATE_HZ).samples
    return detect_speech_by_probability(_likelihood(resampled), WINDOW_SAMPLES / RATE_HZ)


def _likelihood(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the likelihood of speech for each window.

    Shapes: samples [N] at 16 kHz -> [ceil(N / 512)].
    """
    padded = torch.from_numpy(np.pad(samples, (CONTEXT_SAMPLES, -len(samples) % WINDOW_SAMPLES)))
    with torch.inference_mode():
        return _network()(padded.unfold(0, CONTEXT_SAMPLES + WINDOW_SAMPLES, WINDOW_SAMPLES)).numpy()


class _Network(nn.Module):
    """Network of Silero VAD for 16 kHz.

    The network consists of a short-time Fourier transform (magnitudes), four convolutions and an LSTM.
    """

    def __init__(self) -> None:
        super().__init__()
        # The output channels are the real parts, followed by the imaginary parts.
        self.stft = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        sizes = ((129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(inputs, outputs, 3, stride, padding=1) for inputs, outputs, stride in sizes
        )
        self.lstm = nn.LSTM(128, 128)
        self.output = nn.Conv1d(128, 1, 1)

    def forward(self, windows: Tensor) -> Tensor:
        """Return the likelihood of speech for each window.

        Shapes: windows [N, 576] in order of time -> [N].
        """
        padded = functional.pad(windows[:, None], (0, CONTEXT_SAMPLES), "reflect")
        features = self.stft(padded).unflatten(1, (2, -1)).norm(dim=1)
        for convolution in self.convolutions:
            features = convolution(features).relu()
        states, _ = self.lstm(features.squeeze(-1))
        return self.output(states.relu().T).sigmoid().squeeze(0)


@cache
def _network() -> _Network:
    network = _Network().eval()
    network.load_state_dict(load_file(WEIGHTS))
    return network
