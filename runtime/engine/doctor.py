"""Says of one checkpoint what it would serve here, what it is made of, and what keeps it from being served."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from runtime.device import open_device
from runtime.device.open_device import choose_dtype
from runtime.device.quantized import kinds_on
from runtime.engine.frame_shape import FrameShape, Weights
from runtime.engine.memory import MemoryNeed, MemoryRoom
from runtime.engine.probe import Probe
from runtime.engine.weight_bits import FEW, WeightBits, can_round, word_of
from runtime.errors import SetUpError
from runtime.model.checkpoint import DECODER, TALKER, public_name
from runtime.model.config import ModelConfig
from runtime.model.inspection import Download, WeightsSeen, inspect
from runtime.model.weights import require_finite
from runtime.published import FRAME_S
from runtime.settings import EngineSettings

DTYPES = (torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why it cannot be served, in a sentence with a stable code."""

    code: str
    message: str

    @classmethod
    def of(cls, error: SetUpError) -> Problem:
        return cls(error.code, str(error))


@dataclass(frozen=True, slots=True)
class FilesSeen:
    """Files by their names from the root on."""

    read: dict[str, int]  # and their bytes
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """What clients could ask of it."""

    size: str | None  # as its configuration calls it: 0b6, 1b7
    modes: tuple[str, ...]
    layouts: tuple[str, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    takes_instruct: bool
    speaks: bool

    @classmethod
    def of(cls, config: ModelConfig) -> Served:
        return cls(
            size=config.size,
            modes=tuple(config.modes),
            layouts=tuple(config.layouts),
            speakers=tuple(config.talker.spk_id),
            languages=tuple(config.talker.codec_language_id),
            takes_instruct=config.takes_instruct,
            speaks=config.speaks,
        )


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """What it would take of the device in one dtype, or with weights of fewer bits. Bytes."""

    dtype: str  # or int8, int4
    is_chosen: bool  # by the settings
    once: int  # for weights and what the process or its graphs need beside them
    slot: int
    slots: int  # that would be taken, with all the memory that the process may have; 0: it does not fit
    rtf: float | None  # seconds of computing for a second of speech, estimated; None: a card, or a small checkpoint
    rtf_now: float | None  # the same beside what else was at work


@dataclass(frozen=True, slots=True)
class DeviceMemorySeen:
    """The device's memory, as far as this process may have it, and what the checkpoint would take of it. Bytes."""

    device: str
    may_have: int
    free: int
    rows: tuple[MemoryRow, ...]  # none where its configurations cannot be read


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that can be said of a checkpoint before it is loaded."""

    name: str
    servable: bool
    problems: tuple[Problem, ...]
    served: Served | None
    files: FilesSeen
    download: Download | None  # of a Hub id
    weights: WeightsSeen | None
    speech_tokenizer: WeightsSeen | None
    text_ids: int | None  # of the text tokenizer
    defaulted: tuple[str, ...]
    unknown: tuple[str, ...]
    memory: DeviceMemorySeen


def diagnose(reference: str, settings: EngineSettings) -> Diagnosis:
    """Inspect a folder or a Hub id; no weights are fetched and none are loaded. Takes seconds, some for its pace here.

    Raises:
        CheckpointMissing: there is neither.
        HubRefused, HubUnreachable, DiskFull: the Hub does not say, and nothing of it is here.
        DeviceUnavailable, InvalidSetting: the settings cannot be used.
    """
    device = open_device(settings.device, eager=True)
    dtype, room = choose_dtype(settings.dtype, device), MemoryRoom.of(device, settings)
    bits, probe = WeightBits(settings, device), Probe(device, settings.threads, settings.sound_dtype)
    found, name = inspect(reference), public_name(reference)
    stored = found.quantization
    chosen: Weights = dtype, stored or bits.known
    with found.noting():
        if found.config is not None:
            chosen = bits.of(found.config, name, found.types.values())
    for seen in (found.weights, found.speech_weights):
        paths = [found.folder / name for name in seen.files] if seen else []
        if paths and all(path.is_file() for path in paths):
            with found.noting():
                require_finite(paths)
    rows: tuple[MemoryRow, ...] = ()
    if {TALKER, DECODER} <= found.networks.keys():
        kinds: list[Weights] = [] if stored else [(other, None) for other in DTYPES]
        kinds += [(dtype, kind) for kind in kinds_on(device.name) if stored in (None, kind)]
        needs = {kind: MemoryNeed.of([found], room, settings, [kind]) for kind in kinds}
        assert found.config is not None
        shape = FrameShape.of(found.config)
        is_measured = can_round(device) and shape.reads >= FEW
        rows = tuple(
            MemoryRow(
                dtype=word_of(kind),
                is_chosen=kind == chosen,
                once=need.once,
                slot=need.slot,
                slots=need.slots_in(room, settings),
                rtf=probe.rtf(shape, kind, FRAME_S) if is_measured else None,
                rtf_now=probe.rtf_now(shape, kind, FRAME_S) if is_measured else None,
            )
            for kind, need in needs.items()
        )
        with found.noting():
            needs[chosen].require(name, room, settings)
    notes = [part.notes for part in (found.config, found.speech) if part is not None]
    return Diagnosis(
        name=name,
        servable=not found.problems,
        problems=tuple(map(Problem.of, found.problems)),
        served=None if found.config is None else Served.of(found.config),
        files=FilesSeen(found.sizes, found.files.missing, found.files.ignored),
        download=found.download,
        weights=found.weights,
        speech_tokenizer=found.speech_weights,
        text_ids=None if found.text_tokenizer is None else found.text_tokenizer.ids,
        defaulted=tuple(field for note in notes for field in note.defaulted),
        unknown=tuple(field for note in notes for field in note.unknown),
        memory=DeviceMemorySeen(room.device, room.may_have, room.free, rows),
    )
