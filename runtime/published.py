"""Qwen's published 12 Hz checkpoints (docs/model.md 1) and their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.request import Mode

LICENCE = "Apache-2.0"
# Size in bytes of the speech tokenizer. It is the same in all repositories and is downloaded once.
SPEECH_TOKENIZER_BYTES = 4 * 170_557_441
SMALL_FILES_BYTES = 5 * 10**6  # Total size in bytes of the configuration and vocabulary files.


@dataclass(frozen=True, slots=True)
class Published:
    """Size and mode of one checkpoint that Qwen has published."""

    size: str
    kind: str  # Last part of the checkpoint's name, such as Base.
    mode: Mode
    parameters: int  # Number of parameters in model.safetensors, which have the dtype bfloat16.

    @property
    def id(self) -> str:
        return f"Qwen/Qwen3-TTS-12Hz-{self.size}-{self.kind}"

    @property
    def download(self) -> int:
        """Return the total size of the required files in bytes."""
        return 2 * self.parameters + SPEECH_TOKENIZER_BYTES + SMALL_FILES_BYTES


PUBLISHED = (
    Published("0.6B", "CustomVoice", Mode.CUSTOM_VOICE, 905_788_672),
    Published("1.7B", "CustomVoice", Mode.CUSTOM_VOICE, 1_916_676_352),
    Published("1.7B", "VoiceDesign", Mode.VOICE_DESIGN, 1_916_676_352),
    Published("0.6B", "Base", Mode.BASE, 914_643_008),
    Published("1.7B", "Base", Mode.BASE, 1_928_677_440),
)
