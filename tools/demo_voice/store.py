"""Storage of training data: audio and labels in device tensors, and codes in files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from codec_model import Codec
from stage import save

LABEL_SAMPLES, FRAME_SAMPLES = 480, 1920  # Number of samples per phone label (50 per second), and per codec frame.
LABEL_COUNT = 178  # Number of phone labels, which are token ids of the teacher.
STYLE_SIZE = 256  # Number of dimensions of the teacher's style vectors.
STYLE_SCALE = 24  # Int8 value that represents one standard deviation.
ENCODED_ROWS = 32  # Number of utterances that are encoded at a time.


class Store:
    """Audio (int16) and labels of all shards that were read, in tensors on the device.

    `starts` has the first sample of each shard. `steps` is the number of labels that were read. It is a device tensor,
    so that captured graphs use shards that are added while training runs.
    """

    def __init__(self, folder: Path, device: torch.device, hours: float) -> None:
        self.folder, self.device = folder, device
        labels = int(hours * 3600 * 24000) // LABEL_SAMPLES
        self.audio = torch.zeros(labels * LABEL_SAMPLES, dtype=torch.int16, device=device)
        self.phones = torch.zeros(labels, dtype=torch.uint8, device=device)
        self.f0 = torch.zeros(labels, dtype=torch.float16, device=device)
        self.steps = torch.zeros((), dtype=torch.float64, device=device)
        self.starts: dict[Path, int] = {}
        self.filled = 0

    def take(self, limit: int = 1_000_000) -> int:
        """Read up to `limit` new shards of audio and labels, and return the number of shards."""
        fresh = sorted(set(self.folder.glob("*.pt")) - self.starts.keys())[:limit]
        for path in fresh:
            shard = torch.load(path)
            self.starts[path], first = self.filled, self.filled // LABEL_SAMPLES
            for name, at in (("audio", self.filled), ("phones", first), ("f0", first)):
                getattr(self, name)[at : at + len(shard[name])] = shard[name].to(self.device)
            self.filled += len(shard["audio"])
            self.steps.fill_(self.filled // LABEL_SAMPLES)
        return len(fresh)

    def crops(self, batch: int, frames: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return random crops of F codec frames: audio [B, 1920 F], phones [B, 4 F], F0 [B, 4 F].

        A CUDA graph can capture this function.
        """
        room = self.steps - 4 * frames
        start = (torch.rand(batch, dtype=torch.float64, device=self.device) * room).long()[:, None]
        labels = start + torch.arange(4 * frames, device=self.device)
        samples = start * LABEL_SAMPLES + torch.arange(FRAME_SAMPLES * frames, device=self.device)
        return self.audio[samples].float() / 32768.0, self.phones[labels].long(), self.f0[labels].float()

    def encode(self, codec: Codec, folder: Path) -> None:
        """Encode the shards that have no codes, and write the codes of each shard to a file.

        The file also has the first sample of the shard in this store. `prompts.Corpus` reads it in other processes.
        """
        for path, start in self.starts.items():
            if not (coded := folder / path.name).exists():
                shard = torch.load(path, map_location=self.device)
                codes = encode(codec, shard["audio"], [row["length"] for row in shard["rows"]])
                save({"start": start, "codes": codes}, coded)


def encode(codec: Codec, audio: Tensor, lengths: list[int]) -> Tensor:
    """Return the codes [frames, K] of consecutive utterances with `lengths` samples."""
    utterances, codes = (audio.float() / 32768.0).split(lengths), []
    for at in range(0, len(lengths), ENCODED_ROWS):
        made = codec.encode(pad_sequence(utterances[at : at + ENCODED_ROWS], batch_first=True))
        codes += [row[: n // FRAME_SAMPLES] for row, n in zip(made, lengths[at : at + ENCODED_ROWS], strict=False)]
    return torch.cat(codes).to(torch.int16).cpu()
