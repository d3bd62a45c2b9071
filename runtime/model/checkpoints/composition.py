"""Composition of several adapters into one checkpoint that shares the base weights.

A speaker is a row of ``codec_embedding`` that only prompts read (docs/model.md 3.2). Adapters that change only such
rows share all other weights. If two adapters use the same row, one of the rows moves to a free index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from runtime.errors import InvalidSetting
from runtime.model.checkpoints.adapters import TABLE, MergedTensors, PlacedRows, read_adapter
from runtime.model.checkpoints.config_files import MODE_FIELDS, read_model_config
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import ADAPTER_WEIGHTS, CONFIG, CheckpointSource, weight_files
from runtime.model.checkpoints.headers import list_some
from runtime.model.checkpoints.weights import open_weight_files, open_weights
from runtime.model.config import ModelConfig, TalkerConfig
from runtime.request import Mode


@dataclass(frozen=True, slots=True)
class Composition:
    """Configuration of a base checkpoint together with the speakers of its adapters."""

    content: dict[str, Any]  # Content of config.json with the speakers of all adapters.
    config: ModelConfig
    # Rows of codec_embedding from several adapters, or None if at most one adapter is merged into all tensors.
    rows: PlacedRows | None = None
    # Names of speakers, by the name of the adapter or base to which they belong.
    speakers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    adapters: dict[Path, _Part] = field(default_factory=dict)  # Adapters by folder.


@dataclass(frozen=True, slots=True)
class _Part:
    """Base checkpoint or adapter that is served."""

    folder: Path
    name: str
    content: dict[str, Any]
    config: ModelConfig
    changed: frozenset[int] = frozenset()  # Indices of the rows of codec_embedding that the adapter changes.
    others: tuple[str, ...] = ()  # Names of the other tensors that the adapter changes.

    def origin(self, speaker: str) -> tuple[Path | None, int]:
        """Return the file and the row of a speaker's embedding.

        The file is None for an unchanged row of the base checkpoint.
        """
        row = self.config.talker.spk_id[speaker]
        return self.folder / ADAPTER_WEIGHTS if row in self.changed else None, row


def compose_config(source: CheckpointSource, *known: Composition) -> Composition:
    """Return the configuration of a checkpoint together with the speakers of its adapters.

    The speakers of an adapter come from the adapter's config.json. If this file is missing, they come from the base
    checkpoint. In that case, if the adapter changes a speaker row that has no name, the row gets the name of the
    adapter's folder.

    Args:
        known: Compositions on the same base checkpoint, whose adapters are not read again.

    Raises:
        CheckpointMissing, CheckpointInvalid: A file is missing or invalid.
        CheckpointUnsupported: An adapter is not supported.
        InvalidSetting: The adapters cannot share the base checkpoint.
    """
    content, config = read_json(source.folder / CONFIG), read_model_config(source.folder)
    if not source.adapters:
        return Composition(content, config)
    base = _Part(source.folder, source.base, content, config)
    adapters = {folder: part for composition in known for folder, part in composition.adapters.items()}
    with open_weight_files(weight_files(source.folder)) as files:
        adapters = {folder: adapters.get(folder) or _read_part(base, folder, files) for folder in source.adapters}
    parts = [base, *adapters.values()] if source.has_base else [*adapters.values()]
    if len(parts) == 1:
        return Composition(parts[0].content, parts[0].config, adapters=adapters)
    return replace(_share(base, parts), adapters=adapters)


def combine_adapters(
    first: CheckpointSource, *others: CheckpointSource, known: Iterable[Composition] = ()
) -> CheckpointSource:
    """Combine several adapters into one checkpoint that serves the speakers of all of them.

    One of the sources may be the base checkpoint itself.

    Args:
        known: See `compose_config`.

    Raises:
        InvalidSetting: The adapters cannot share the weights. Its field `why` names the tensor or speaker that prevents
            it.
    """
    source = reduce(_join, others, first)
    compose_config(source, *known)
    return source


def _join(first: CheckpointSource, second: CheckpointSource) -> CheckpointSource:
    if not first.adapters and not second.adapters:
        why = "only adapters share the weights of their base checkpoint"
        raise _refusal(second.folder, why)
    if not first.folder.samefile(second.folder):
        why = f"{second.name} is of the base checkpoint {second.folder}, and {first.name} of {first.folder}"
        raise _refusal(second.folder, why)
    named = [{folder.resolve() for folder in source.adapters} for source in (first, second)]
    if named[0] & named[1] or (first.has_base and second.has_base):
        raise _refusal(second.folder, "it is named twice", "name it once")
    return CheckpointSource(
        first.folder, first.adapters + second.adapters, first.base, first.base, first.has_base or second.has_base
    )


def _read_part(base: _Part, folder: Path, files: dict[str, Any]) -> _Part:
    path = folder / ADAPTER_WEIGHTS
    with open_weights(path) as adapter:
        changes = read_adapter(files, path, adapter).changes
        changed: frozenset[int] = frozenset()
        if TABLE in changes:
            published = files[TABLE].get_tensor(TABLE).float()
            merged = MergedTensors(files[TABLE], adapter, changes[TABLE]).get_tensor(TABLE)
            changed = frozenset((merged != published).any(1).nonzero().flatten().tolist())
    content = _speaking(base, folder, changed)
    config = read_model_config(base.folder, content, folder / CONFIG)
    others = tuple(sorted(changes.keys() - {TABLE}))
    return _Part(folder, folder.resolve().name, content, config, changed, others)


def _speaking(base: _Part, folder: Path, changed: frozenset[int]) -> dict[str, Any]:
    """Return the content of config.json with the speakers and the modes of an adapter."""
    path, talker = folder / CONFIG, base.config.talker
    content = read_json(path) if folder != base.folder and path.is_file() else {}
    section = content.get("talker_config")
    if isinstance(section, dict) and section.get("spk_id"):
        return _with_speakers(base.content, section["spk_id"], section.get("spk_is_dialect"), content)
    unnamed = sorted(changed - set(talker.spk_id.values()))
    if not unnamed or changed & _reserved(talker):
        return base.content
    name = folder.resolve().name
    named = {name: unnamed[0]} if len(unnamed) == 1 else {f"{name}-{row}": row for row in unnamed}
    modes = [*dict.fromkeys((*base.config.modes, Mode.CUSTOM_VOICE))]
    return _with_speakers(base.content, talker.spk_id | named, talker.spk_is_dialect, {"voicewright_modes": modes})


def _with_speakers(
    content: dict[str, Any], speakers: object, dialects: object, modes_content: dict[str, Any]
) -> dict[str, Any]:
    modes = {name: modes_content[name] for name in MODE_FIELDS if name in modes_content}
    others = {name: value for name, value in content.items() if not (modes and name in MODE_FIELDS)}
    talker = content["talker_config"] | {"spk_id": speakers, "spk_is_dialect": dialects or {}}
    return others | modes | {"talker_config": talker}


def _share(base: _Part, parts: Sequence[_Part]) -> Composition:
    talker = base.config.talker
    reserved = _reserved(talker)
    for part in parts:
        if part.others:
            why = list_some(f"{part.name} changes more than speakers:", part.others)
            raise _refusal(part.folder, why)
        if wrong := part.changed & reserved:
            why = f"{part.name} changes row {min(wrong)} of codec_embedding, which is not a speaker's"
            raise _refusal(part.folder, why)
    owners = _owners(parts)
    origins = {name: part.origin(name) for name, part in owners.items()}
    used = {*talker.spk_id.values(), *(row for path, row in origins.values() if path is None)}
    requested = {row for _, row in origins.values()}
    free = sorted({*range(talker.codes, talker.vocab_size)} - reserved - used - requested)
    places: dict[tuple[Path | None, int], int] = {}
    for origin in origins.values():
        if origin[0] is not None and origin not in places:
            if (row := origin[1]) in used:
                if not free:
                    raise _refusal(base.folder, "codec_embedding has no free row for a speaker")
                row = free.pop()
            places[origin] = row
            used.add(row)
    speakers = {name: places.get(origin, origin[1]) for name, origin in origins.items()}
    dialects = {
        name: dialect
        for name, part in owners.items()
        if (dialect := part.config.talker.spk_is_dialect.get(name)) is not None
    }
    modes = [mode for mode in Mode if any(mode in part.config.modes for part in parts)]
    content = _with_speakers(base.content, speakers, dialects, {"voicewright_modes": modes})
    rows = {place: (path, row) for (path, row), place in places.items() if path is not None}
    named: dict[str, tuple[str, ...]] = {}
    for part in parts:
        named[part.name] = tuple(dict.fromkeys((*named.get(part.name, ()), *part.config.talker.spk_id)))
    return Composition(content, read_model_config(base.folder, content), rows, named)


def _owners(parts: Iterable[_Part]) -> dict[str, _Part]:
    """Return the first part of every speaker by the speaker's name.

    Raises:
        InvalidSetting: Two parts have different speakers of the same name.
    """
    owners: dict[str, _Part] = {}
    known: dict[str, tuple[str, _Part]] = {}
    for part in parts:
        for name in part.config.talker.spk_id:
            other, owner = known.setdefault(name.lower(), (name, part))
            if (other, owner.origin(other), _dialect(owner, other)) != (name, part.origin(name), _dialect(part, name)):
                why = f"{owner.folder} and {part.folder} both have a speaker {name}"
                raise _refusal(part.folder, why, "rename one in spk_id of its config.json")
            owners.setdefault(name, part)
    return owners


def _dialect(part: _Part, speaker: str) -> str | bool:
    return part.config.talker.spk_is_dialect.get(speaker, False)


def _reserved(talker: TalkerConfig) -> frozenset[int]:
    """Return the rows of codec_embedding that are audio codes, special tokens or languages."""
    return frozenset((*range(talker.codes), *talker.special_ids.values()))


def _refusal(folder: Path, why: str, advice: str = "a second runtime can serve it") -> InvalidSetting:
    return InvalidSetting(name="model", value=repr(str(folder)), why=f"{why}; {advice}")
