"""Diagnosis of checkpoints before loading: capabilities, memory, speed and problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from runtime.device import open_device
from runtime.device.open_device import choose_dtype
from runtime.device.quantized import supported_quantizations
from runtime.engine.capacity.memory import MemoryBudget, MemoryRequirement
from runtime.engine.capacity.probe import Weights
from runtime.engine.capacity.weights import WeightsSelector, weights_name
from runtime.engine.loading.registry import Registry
from runtime.errors import SetUpError
from runtime.model.checkpoints.adapters import describe_changes
from runtime.model.checkpoints.checkpoint import DECODER, TALKER, find_local_source, find_source, public_name
from runtime.model.checkpoints.composition import combine_adapters, compose_config
from runtime.model.checkpoints.files import CheckpointSource, unapplied_adapters
from runtime.model.checkpoints.inspection import Download, WeightsSummary, inspect, inspect_source
from runtime.model.checkpoints.weights import read_adapters, require_finite
from runtime.model.config import ModelConfig
from runtime.settings import EngineSettings, Settings

DTYPES = (torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a checkpoint cannot be served, with a stable code."""

    code: str
    message: str

    @classmethod
    def of(cls, error: SetUpError) -> Problem:
        return cls(error.code, str(error))


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """Relative paths of a checkpoint's files, divided into read, missing and ignored files."""

    read: dict[str, int]  # Size in bytes of each file, by relative path.
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    unapplied: tuple[str, ...]  # Folders of adapters that are not merged into the weights.


@dataclass(frozen=True, slots=True)
class AdapterSummary:
    """Summary of an adapter, which is merged into the weights of its base checkpoint."""

    folder: str
    base: str  # Folder of the base checkpoint.
    changes: tuple[str, ...]
    speakers: tuple[str, ...]

    @classmethod
    def all_of(cls, source: CheckpointSource) -> Iterator[AdapterSummary]:
        """Yield a description of each adapter of a checkpoint.

        The iteration ends at the first adapter that cannot be read.
        """
        with suppress(SetUpError):  # The inspection of the checkpoint has already reported this error.
            for folder, adapter in zip(source.adapters, read_adapters(source), strict=True):
                speakers = tuple(compose_config(find_local_source(folder)).config.talker.spk_id)
                yield cls(str(folder), str(source.folder), tuple(describe_changes(adapter)), speakers)


@dataclass(frozen=True, slots=True)
class CheckpointCapabilities:
    """Modes, text layouts, speakers and languages that a checkpoint supports."""

    size: str | None  # Size of the model as in its configuration, such as 0b6 or 1b7.
    modes: tuple[str, ...]
    layouts: tuple[str, ...]
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    takes_instruct: bool
    speaks: bool

    @classmethod
    def of(cls, config: ModelConfig) -> CheckpointCapabilities:
        speakers, languages = tuple(config.talker.spk_id), tuple(config.talker.codec_language_id)
        modes, layouts = tuple(config.modes), tuple(config.layouts)
        return cls(config.size, modes, layouts, speakers, languages, config.takes_instruct, config.speaks)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Memory in bytes and speed of a checkpoint with one dtype or quantization."""

    dtype: str  # Name of the dtype, or int8 or int4.
    is_chosen: bool  # True if the settings select this row.
    # Bytes of memory that do not depend on the number of slots: the weights, and either the process (CPU) or its
    # graphs.
    once: int
    slot: int
    slots: int  # Number of slots if all allowed memory is used, or 0 if the checkpoint does not fit.
    # Estimated compute time divided by the duration of the speech, or None on a GPU and for small checkpoints.
    rtf: float | None


@dataclass(frozen=True, slots=True)
class DeviceMemoryReport:
    """Device memory in bytes: allowed, free, and needed by a checkpoint."""

    device: str
    may_have: int
    free: int
    # One row for each dtype or quantization. Empty if the checkpoint's configuration cannot be read.
    rows: tuple[MemoryRow, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Report of `voicewright doctor` for one checkpoint."""

    name: str
    servable: bool
    problems: tuple[Problem, ...]
    served: CheckpointCapabilities | None
    files: CheckpointFiles
    adapters: tuple[AdapterSummary, ...]
    download: Download | None  # Sizes of the files to download for a Hub id, or None for a local folder.
    weights: WeightsSummary | None
    speech_tokenizer: WeightsSummary | None
    text_ids: int | None  # Vocabulary size of the text tokenizer.
    defaulted: tuple[str, ...]
    unknown: tuple[str, ...]
    memory: DeviceMemoryReport


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Names, modes and memory of checkpoints that can be loaded together."""

    names: tuple[str, ...]
    modes: tuple[str, ...]
    need: int  # Memory in bytes for the weights and all slots.
    free: int  # Free memory in bytes that this process may use.
    fits_alongside: bool  # True if the checkpoints and all their slots fit into the memory that is free now.


def check_checkpoints(settings: Settings) -> CheckResult:
    """Check that all checkpoints in the settings can be loaded together.

    The check takes seconds, and downloads missing Hub checkpoints.

    Raises:
        SetUpError: The checkpoints cannot be loaded; the message gives the reason.
    """
    engine = settings.engine
    device = open_device(engine.device, eager=True)
    registry = Registry.read(settings.models)
    found = [inspect_source(entry.source) for entry in registry.entries]
    for inspection in found:
        inspection.require()
    names, budget = tuple(entry.name for entry in registry.entries), MemoryBudget.of(device, engine)
    bits = WeightsSelector(engine, device)
    chosen = [
        (inspection, bits.choose(entry.config, entry.name, inspection.types.values()))
        for entry, inspection in zip(registry.entries, found, strict=True)
    ]
    requirement = MemoryRequirement.of(budget, *chosen)
    requirement.require(", ".join(names), budget)
    need = requirement.with_slots(engine.max_slots or budget.max_slots)
    return CheckResult(names, registry.modes, need, budget.free, need <= budget.free)


def diagnose(reference: str, settings: EngineSettings, others: Sequence[str] = ()) -> Diagnosis:
    """Diagnose a checkpoint in a local folder or on the Hub without downloading weights.

    The diagnosis takes seconds.

    Args:
        others: Other adapters that should share one base checkpoint with `reference`. If there are any, missing
            checkpoints are downloaded.

    Raises:
        CheckpointMissing: The folder or Hub id does not exist.
        HubRefused, HubUnreachable, DiskFull: The Hub cannot be used, and there is no local copy.
        DeviceUnavailable, InvalidSetting: The settings cannot be used on this machine.
    """
    device = open_device(settings.device, eager=True)
    dtype, budget = choose_dtype(settings.dtype, device), MemoryBudget.of(device, settings)
    bits = WeightsSelector(settings, device)
    if others:
        source = combine_adapters(*map(find_source, (reference, *others)))
        found, name = inspect_source(source), source.name
    else:
        found, name = inspect(reference), public_name(reference)
    stored = found.quantization
    chosen: Weights = dtype, stored or bits.known
    with found.record_error():
        if found.config is not None:
            chosen = bits.choose(found.config, name, found.types.values())
    own = [*map(found.folder.joinpath, found.weights.files), *found.source.adapter_weights] if found.weights else []
    for paths, placed_rows in ((own, found.rows), (found.speech_files, None)):
        if paths and all(path.is_file() for path in paths):
            with found.record_error():
                require_finite(paths, placed_rows)
    rows: list[MemoryRow] = []
    if found.config is not None and {TALKER, DECODER} <= found.networks.keys():
        kinds: list[Weights] = [] if stored else [(other, None) for other in DTYPES]
        kinds += [(dtype, kind) for kind in supported_quantizations(device.name) if stored in (None, kind)]
        for kind in kinds:
            need = MemoryRequirement.of(budget, (found, kind))
            rtf = bits.probe.rtf(found.config, kind) if bits.is_measured(found.config) else None
            row = MemoryRow(weights_name(kind), kind == chosen, need.once, need.slot, need.slots_in(budget), rtf)
            rows.append(row)
        with found.record_error():
            MemoryRequirement.of(budget, (found, chosen)).require(name, budget)
    notes = [part.notes for part in (found.config, found.speech) if part is not None]
    return Diagnosis(
        name=name,
        servable=not found.problems,
        problems=tuple(map(Problem.of, found.problems)),
        served=None if found.config is None else CheckpointCapabilities.of(found.config),
        files=CheckpointFiles(
            found.sizes, found.files.missing, found.files.ignored, tuple(unapplied_adapters(found.source))
        ),
        adapters=tuple(AdapterSummary.all_of(found.source)),
        download=found.download,
        weights=found.weights,
        speech_tokenizer=found.speech_weights,
        text_ids=None if found.text_tokenizer is None else found.text_tokenizer.ids,
        defaulted=tuple(field for note in notes for field in note.defaulted),
        unknown=tuple(field for note in notes for field in note.unknown),
        memory=DeviceMemoryReport(budget.device, budget.may_have, budget.free, tuple(rows)),
    )
