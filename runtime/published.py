"""Lists the checkpoints that Qwen has published for 12 Hz, and what each weighs before anything of it is here.

The figures follow from the published shapes (docs/model.md 1): they stand where the Hub cannot be asked, and the Hub's
own listing takes their place where it can.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.request import Mode

LICENCE = "Apache-2.0"
OWNER = "Qwen"

SPEECH_TOKENIZER = 170_557_441  # numbers, float32 always; the same file in every repository
SOUND_NARROWED = {"float32": 0, "bfloat16": 105_812_640, "float16": 73_904_128}  # of them, by Code2Wav's dtype on a CPU
TEXT_TABLE = 151_936 * 2048  # numbers of the text embedding of every size
SMALL_FILES = 5 * 10**6  # bytes of configurations and vocabulary
POSITION = 2 * 28 * 8 * 128  # numbers that the talker keeps of a position: keys and values
TALKER_LAYERS = 28
PREDICTOR_LAYERS = 5
PREDICTOR_STEPS = 15
SOUND_OPERATIONS = 5.2e9  # of Code2Wav for a frame
FRAME_S = 0.08


@dataclass(frozen=True, slots=True)
class Published:
    """One checkpoint."""

    size: str
    kind: str  # the end of its name
    mode: Mode
    parameters: int  # of model.safetensors, in bfloat16

    @property
    def id(self) -> str:
        return f"{OWNER}/Qwen3-TTS-12Hz-{self.size}-{self.kind}"

    @property
    def download(self) -> int:
        """Bytes of the files that are needed."""
        return 2 * self.parameters + 4 * SPEECH_TOKENIZER + SMALL_FILES

    @property
    def common(self) -> int:
        """Bytes of them that every published checkpoint has, and that come once."""
        return 4 * SPEECH_TOKENIZER


PUBLISHED = tuple(
    Published(size, kind, mode, parameters)
    for size, kind, mode, parameters in (
        ("0.6B", "CustomVoice", Mode.CUSTOM_VOICE, 905_788_672),
        ("1.7B", "CustomVoice", Mode.CUSTOM_VOICE, 1_916_676_352),
        ("1.7B", "VoiceDesign", Mode.VOICE_DESIGN, 1_916_676_352),
        ("0.6B", "Base", Mode.BASE, 914_643_008),
        ("1.7B", "Base", Mode.BASE, 1_928_677_440),
    )
)
