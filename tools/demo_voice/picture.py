"""Stage 8: the card's samples and its picture: teacher, resynthesis and text to speech of one held-out sentence.

Run: python picture.py   (after stage 6)
"""

from __future__ import annotations

import argparse
import random

import matplotlib
import numpy as np
import soundfile
import torch
from PIL import Image

from checkpoints import load_voice
from config import CONFIG, HERE
from evaluate import resynthesise, spoken
from generate import Ask, Sampling, generate
from phonemes import read_lines
from speak import SPEAKERS, draw_mixture
from spectral import mel_matrix
from train_codec import load

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = HERE.parents[1] / "assets" / "demo-voice" / "samples"


def spectrogram(audio: np.ndarray) -> np.ndarray:
    """Return log-mels in dB, 80 bands to 12 kHz."""
    s = torch.stft(torch.from_numpy(audio), 1024, 256, window=torch.hann_window(1024), return_complex=True).abs()
    return (20 * torch.log10(mel_matrix(513, 80) @ s + 1e-4)).numpy()


@torch.no_grad()
def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    OUT.mkdir(exist_ok=True)
    work, cpu = HERE / CONFIG["paths"]["work"], torch.device("cpu")
    codec, (voice, vocabulary) = load(work / "decoder.pt", cpu), load_voice(work / "lm.pt", cpu)
    files = argparse.Namespace(
        model=work / "kokoro.onnx", voices=work / "voices_ja.npz", held_out=work / "held_out.npz"
    )
    lines, _ = read_lines(files.held_out)
    teacher, reference = spoken(files, [0, 1], [SPEAKERS["clara"], draw_mixture(random.Random(7))])
    codes = codec.encode(torch.from_numpy(reference)[None])[0].numpy()
    asks = {
        "clara": Ask("Hello, I am Clara. This voice was made by a small model.", "clara"),
        "angus": Ask("Good morning. I am Angus, and I read what you type.", "angus"),
        "design_low_slow": Ask("The sea was calm this morning.", instruct="A man with a low voice, speaking slowly."),
        "design_high_fast": Ask("Hurry up, the train is about to leave!",
                                instruct="A woman with a high voice, speaking quickly."),
        "clone": Ask("The children played in the garden until the sun went down.", reference=reference,
                     reference_text=lines[1], reference_codes=codes),
        "held_out": Ask(lines[0], "clara"),
    }  # fmt: skip
    made = generate(voice, vocabulary, list(asks.values()), Sampling(0.6, 0.4, seed=3))
    waves = {
        n: codec.decode(torch.from_numpy(c)[None])[0].clamp(-1, 1).numpy() for n, (c, _) in zip(asks, made, strict=True)
    }
    for name, wave in waves.items():
        if name != "held_out":
            soundfile.write(OUT / f"{name}.wav", wave, 24000, subtype="PCM_16")
    rows = (
        ("teacher (Kokoro)", teacher),
        ("codec, resynthesis", resynthesise(codec, teacher)),
        ("text to speech", waves["held_out"]),
    )
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    for axis, (title, wave) in zip(axes, rows, strict=True):
        axis.imshow(spectrogram(wave), origin="lower", aspect="auto", cmap="magma", vmin=-60, vmax=35,
                    extent=(0, len(wave) / 24000, 0, 80))  # fmt: skip
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_ylabel("mel band")
    axes[-1].set_xlim(0, max(len(wave) for _, wave in rows) / 24000)
    axes[-1].set_xlabel(f'seconds: "{lines[0]}"')
    path = OUT / "spectrograms.png"
    figure.savefig(path, dpi=84)
    Image.open(path).convert("RGB").quantize(32).save(path, optimize=True)


if __name__ == "__main__":
    main()
