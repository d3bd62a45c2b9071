"""Utterances whose reference outputs are stored, grouped by purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests.support.checkpoints import ODD, SPECS, TINY, TINY_0B6, TINY_EOS, CheckpointSpec

SEEDS = {TINY.name: 1, TINY_0B6.name: 1, TINY_EOS.name: 1, ODD.name: 0}

ENGLISH = "McDonald's iPhone 12 costs 3.50 in Los Angeles."
CHINESE = "\u4f60\u597d\uff0c\u4eca\u5929\u7684\u58f0\u97f3\u5f88\u6e05\u695a\u3002"
MIXED = "\u8bf7\u8bf4 Hello world, \u597d\uff1f"
LONG = (
    "You speak and the old phone is in the world: hello, clear and calm, low and slow. "
    "A happy young voice is warm; the user costs nothing, and I say it again, it is so."
)
INSTRUCT = "Speak in a calm, low voice."
DESIGN = "A warm young voice, happy and clear."
DESIGN_ZH = "\u6e29\u548c\u7684\u58f0\u97f3\uff0c\u8bf4\u5f97\u6162\u3002"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Parameters of reference audio that `tests.support.signals.voice` generates."""

    seconds: float
    seed: int
    sample_rate: int = 24000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Utterance with a checkpoint and all input parameters."""

    name: str
    mode: str
    text: str
    layout: str = "non_streaming"
    language: str | None = None
    voice: str | None = None
    instruct: str | None = None
    reference: Reference | None = None
    reference_text: str | None = None
    x_vector_only: bool = False
    max_frames: int = 12
    checkpoint: str = TINY.name
    keeps_waveform: bool = False
    same_as: str | None = None  # Name of a case that must have the same result.

    @property
    def spec(self) -> CheckpointSpec:
        """Return the specification of the checkpoint."""
        return SPECS[self.checkpoint]

    @property
    def seed(self) -> int:
        """Return the seed of the random checkpoint."""
        return SEEDS[self.checkpoint]

    def inputs(self) -> dict[str, Any]:
        """Return all inputs of the case as JSON values."""
        return {**asdict(self), "seed": self.seed}


SHORT = Reference(seconds=1.2, seed=11)
MIDDLE = Reference(seconds=3.0, seed=12)
LENGTHY = Reference(seconds=6.5, seed=13)
NARROW = Reference(seconds=2.5, seed=14, sample_rate=16000)
# Reference audio with 48,001 samples at 24 kHz, for which one more codec frame is needed than for 48,000 samples.
WIDE = Reference(seconds=2.0, seed=15, sample_rate=44100)


def cases() -> Iterator[Case]:
    """Yield all utterances whose reference outputs are stored."""
    yield from _custom_voice()
    yield from _voice_design()
    yield from _x_vector()
    yield from _icl()
    yield from _eos()
    yield from _odd()


def _custom_voice() -> Iterator[Case]:
    mode = "custom_voice"
    yield Case(name="cv_auto", mode=mode, text=ENGLISH, voice="serena", keeps_waveform=True)
    yield Case(name="cv_english", mode=mode, text=ENGLISH, voice="serena", language="English")
    yield Case(name="cv_other_voice", mode=mode, text=ENGLISH, voice="Ryan", language="english")
    yield Case(name="cv_chinese", mode=mode, text=CHINESE, voice="vivian", language="Chinese")
    yield Case(name="cv_mixed_auto", mode=mode, text=MIXED, voice="uncle_fu", language="Auto")
    yield Case(name="cv_stream_auto", mode=mode, text=ENGLISH, voice="serena", layout="streaming", max_frames=60)
    yield Case(name="cv_stream_german", mode=mode, text=ENGLISH, voice="ryan", language="German", layout="streaming")
    yield Case(
        name="cv_stream_chinese",
        mode=mode,
        text=CHINESE,
        voice="vivian",
        language="Chinese",
        layout="streaming",
        max_frames=40,
    )
    yield Case(name="cv_instruct", mode=mode, text=ENGLISH, voice="serena", instruct=INSTRUCT)
    yield Case(
        name="cv_stream_instruct",
        mode=mode,
        text=MIXED,
        voice="serena",
        language="English",
        instruct=INSTRUCT,
        layout="streaming",
    )
    yield Case(name="cv_dialect_auto", mode=mode, text=MIXED, voice="eric")
    yield Case(
        name="cv_dialect_chinese",
        mode=mode,
        text=MIXED,
        voice="eric",
        language="Chinese",
        same_as="cv_dialect_auto",
    )
    yield Case(name="cv_dialect_english", mode=mode, text=MIXED, voice="eric", language="English")
    yield Case(
        name="cv_dialect_stream",
        mode=mode,
        text=CHINESE,
        voice="dylan",
        layout="streaming",
        instruct=DESIGN_ZH,
    )
    yield Case(name="cv_one_token", mode=mode, text="a", voice="ryan", keeps_waveform=True)
    yield Case(name="cv_one_token_stream", mode=mode, text="a", voice="ryan", layout="streaming")
    yield Case(name="cv_long", mode=mode, text=LONG, voice="vivian", language="English")
    yield Case(name="cv_long_stream", mode=mode, text=LONG, voice="vivian", layout="streaming", max_frames=24)
    yield Case(name="cv_penalty", mode=mode, text="Hello world.", voice="ryan", max_frames=160)
    yield Case(
        name="cv_0b6_instruct_dropped",
        mode=mode,
        text=ENGLISH,
        voice="serena",
        instruct=INSTRUCT,
        checkpoint=TINY_0B6.name,
        same_as="cv_auto",
    )


def _voice_design() -> Iterator[Case]:
    mode = "voice_design"
    yield Case(name="vd_auto", mode=mode, text=ENGLISH, instruct=DESIGN, keeps_waveform=True)
    yield Case(name="vd_english", mode=mode, text=ENGLISH, instruct=DESIGN, language="English")
    yield Case(name="vd_chinese", mode=mode, text=CHINESE, instruct=DESIGN_ZH, language="Chinese")
    yield Case(name="vd_stream", mode=mode, text=ENGLISH, instruct=DESIGN, layout="streaming")
    yield Case(
        name="vd_stream_chinese",
        mode=mode,
        text=CHINESE,
        instruct=DESIGN,
        language="Chinese",
        layout="streaming",
        max_frames=40,
    )
    yield Case(name="vd_no_instruct", mode=mode, text=MIXED)
    yield Case(name="vd_one_token", mode=mode, text="a", instruct=DESIGN, layout="streaming")


def _x_vector() -> Iterator[Case]:
    shared: dict[str, Any] = {"mode": "base", "x_vector_only": True}
    yield Case(name="xv_auto", text=ENGLISH, reference=MIDDLE, layout="streaming", **shared)
    yield Case(name="xv_short_reference", text=ENGLISH, reference=SHORT, layout="streaming", **shared)
    yield Case(name="xv_english", text=ENGLISH, reference=MIDDLE, language="English", keeps_waveform=True, **shared)
    yield Case(name="xv_chinese", text=CHINESE, reference=LENGTHY, language="Chinese", **shared)
    yield Case(name="xv_resampled", text=ENGLISH, reference=NARROW, layout="streaming", **shared)
    yield Case(
        name="xv_text_ignored",
        text=ENGLISH,
        reference=MIDDLE,
        reference_text="hello",
        layout="streaming",
        same_as="xv_auto",
        **shared,
    )


def _icl() -> Iterator[Case]:
    mode, said = "base", "The old phone is slow."
    yield Case(
        name="icl_short_stream",  # The text is longer than the reference audio.
        mode=mode,
        text=ENGLISH,
        reference=SHORT,
        reference_text=said,
        layout="streaming",
        max_frames=30,
        keeps_waveform=True,
    )
    yield Case(
        name="icl_long_stream",  # The reference audio is longer than the text.
        mode=mode,
        text="Hello you.",
        reference=LENGTHY,
        reference_text=said,
        layout="streaming",
        keeps_waveform=True,
    )
    yield Case(
        name="icl_even_stream",
        mode=mode,
        text=CHINESE,
        reference=MIDDLE,
        reference_text=CHINESE,
        language="Chinese",
        layout="streaming",
    )
    yield Case(name="icl_short", mode=mode, text=ENGLISH, reference=SHORT, reference_text=said)
    yield Case(name="icl_long", mode=mode, text=ENGLISH, reference=LENGTHY, reference_text=said, language="English")
    yield Case(name="icl_one_token", mode=mode, text="a", reference=MIDDLE, reference_text="b")
    yield Case(
        name="icl_resampled",
        mode=mode,
        text=ENGLISH,
        reference=NARROW,
        reference_text=said,
        layout="streaming",
    )
    yield Case(
        name="icl_resampled_wide",
        mode=mode,
        text=ENGLISH,
        reference=WIDE,
        reference_text=said,
        layout="streaming",
    )


def _eos() -> Iterator[Case]:
    shared: dict[str, Any] = {"mode": "custom_voice", "checkpoint": TINY_EOS.name, "max_frames": 40}
    yield Case(name="eos_late", text=ENGLISH, voice="ryan", **shared)
    # EOS already has the highest logit in the second frame, in which EOS is still forbidden.
    yield Case(name="eos_forbidden", text=ENGLISH, voice="serena", layout="streaming", **shared)
    yield Case(name="eos_at_once", text="you and I", voice="serena", layout="streaming", **shared)


def _odd() -> Iterator[Case]:
    shared: dict[str, Any] = {"checkpoint": ODD.name, "text": ENGLISH}
    cv, vd = {**shared, "mode": "custom_voice"}, {**shared, "mode": "voice_design", "instruct": DESIGN}
    yield Case(name="odd_cv_auto", voice="ada", keeps_waveform=True, **cv)
    yield Case(name="odd_cv_stream", voice="bob_2", language="French", layout="streaming", max_frames=60, **cv)
    yield Case(name="odd_cv_dialect", voice="mei", instruct=INSTRUCT, **cv)
    yield Case(name="odd_cv_penalty", voice="bob_2", language="Korean", max_frames=120, **cv)
    yield Case(name="odd_vd_auto", **vd)
    yield Case(name="odd_vd_stream", language="Chinese", layout="streaming", **vd)
    base = {**shared, "mode": "base", "reference": SHORT}
    yield Case(name="odd_xv_stream", x_vector_only=True, layout="streaming", **base)
    yield Case(name="odd_xv_english", x_vector_only=True, language="English", **base)
    yield Case(name="odd_icl_stream", reference_text="hello", layout="streaming", keeps_waveform=True, **base)
    yield Case(name="odd_icl", reference_text="hello", language="English", **base)
