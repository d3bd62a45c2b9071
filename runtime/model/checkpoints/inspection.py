"""Inspection of a checkpoint's files, configurations and weight headers.

The steps are the same as for loading (`runtime.model.checkpoints.checkpoint`), but the inspection continues after a
failed step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from runtime.device.quantized import Quantization
from runtime.errors import CheckpointMissing, HubUnreachable, SetUpError
from runtime.model.checkpoints.adapters import PlacedRows
from runtime.model.checkpoints.checkpoint import (
    TALKER,
    check_compatibility,
    find_local_source,
    local_folder,
    model_networks,
    speech_tokenizer_networks,
)
from runtime.model.checkpoints.composition import compose_config
from runtime.model.checkpoints.config_files import read_speech_tokenizer_config
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import SPEECH_TOKENIZER, CheckpointSource, FileChoice, choose_files, list_files
from runtime.model.checkpoints.headers import Headers, check_headers
from runtime.model.checkpoints.weights import read_headers, required_tensors
from runtime.model.config import ModelConfig, SpeechTokenizerConfig
from runtime.model.text.text_tokenizer import TextTokenizer

# Function that returns the tensor headers of files, given their relative paths.
HeadersOf = Callable[[Sequence[str]], Headers]


@dataclass(frozen=True, slots=True)
class Download:
    """Download size, cached size and free disk space for a checkpoint, in bytes."""

    size: int
    here: int
    room: int  # Free disk space in bytes.


@dataclass(frozen=True, slots=True)
class WeightsSummary:
    """Summary of the tensor headers in one weight file or in all shards of the weights."""

    files: tuple[str, ...]
    tensors: int
    dtypes: dict[str, int]  # Number of tensors with each dtype, in the notation of safetensors.
    unread: tuple[str, ...]  # Names of tensors that belong to no network.


@dataclass(slots=True, eq=False)
class Inspection:
    """Result of the inspection of a checkpoint without loading its weights.

    A field that could not be read is None, and `problems` contains the error.
    """

    files: FileChoice
    sizes: dict[str, int]  # Size in bytes of each file that must be read.
    source: CheckpointSource
    config: ModelConfig | None = None
    speech: SpeechTokenizerConfig | None = None
    text_tokenizer: TextTokenizer | None = None
    # Networks on the meta device, by the prefix of their tensor names.
    networks: dict[str, nn.Module] = field(default_factory=dict)
    weights: WeightsSummary | None = None
    speech_weights: WeightsSummary | None = None
    types: dict[str, str] = field(default_factory=dict)  # Dtype of each tensor in model.safetensors, by name.
    download: Download | None = None
    problems: list[SetUpError] = field(default_factory=list)
    content: dict[str, Any] = field(default_factory=dict)  # Content of config.json, with the speakers of all adapters.
    rows: PlacedRows | None = None  # Rows of codec_embedding from several adapters (see `open_weight_files`).

    @property
    def quantization(self) -> Quantization | None:
        """Return the quantization of the stored weights, or None for published weights."""
        word = None if self.config is None else self.config.quantization
        return None if word is None else Quantization(word)

    @property
    def folder(self) -> Path:
        """Return the checkpoint folder with the published files."""
        return self.source.folder

    @property
    def speech_files(self) -> list[Path]:
        """Return the paths of the speech tokenizer's weight files."""
        return [self.folder / name for name in self.speech_weights.files] if self.speech_weights else []

    @contextmanager
    def record_error(self) -> Iterator[None]:
        """Add a SetUpError of the ``with`` block to `problems` instead of raising it.

        Errors about missing files are not added twice.
        """
        try:
            yield
        except SetUpError as error:
            if not (isinstance(error, CheckpointMissing) and self.files.problems):
                self.problems.append(error)

    def require(self) -> None:
        """Raise the first error in `problems`, or do nothing if `problems` is empty."""
        if self.problems:
            raise self.problems[0]


def inspect(reference: str) -> Inspection:
    """Inspect a checkpoint in a local folder or on the Hub without downloading weights.

    Raises:
        CheckpointMissing: The folder or repository does not exist.
        HubRefused, HubUnreachable, DiskFull: The request failed and the checkpoint is not cached.
    """
    folder = local_folder(reference)
    return _on_hub(reference) if folder is None else inspect_folder(folder)


def inspect_folder(folder: Path) -> Inspection:
    """Inspect the files of a checkpoint in a local folder.

    Raises:
        CheckpointMissing, CheckpointUnsupported, SetUpError: The folder has an adapter without its base checkpoint.
    """
    return inspect_source(find_local_source(folder))


def inspect_source(source: CheckpointSource) -> Inspection:
    """Inspect the files of a checkpoint in its local folders.

    Raises:
        CheckpointInvalid: An index of shards is damaged.
    """
    folder, added = source.folder, source.adapter_files
    names = [name for name in list_files(folder) if folder / name not in added]
    choice = choose_files(folder, names, lambda name: read_json(folder / name))
    sizes = {name: (folder / name).stat().st_size for name in choice.read}
    for path in added:
        name = path.name if len(source.adapters) == 1 else f"{path.parent.name}/{path.name}"
        sizes[name] = path.stat().st_size
    inspection = Inspection(choice, sizes, source)
    inspection.problems += choice.problems

    def headers_of(names: Sequence[str]) -> Headers:
        adapter_files = [] if any("/" in name for name in names) else source.adapter_weights
        return read_headers([*(folder / name for name in names), *adapter_files])

    return _read(inspection, headers_of)


def _on_hub(reference: str) -> Inspection:
    from runtime.model.checkpoints import hub, hub_download  # These imports are slow.
    from runtime.model.checkpoints.hub_access import free_cache_bytes

    try:
        listed = hub.request_file_list(reference)
    except HubUnreachable:
        return inspect_folder(hub_download.download_checkpoint(reference))
    folder = hub_download.fetch_snapshot(listed, weights=False)
    sizes = {file.path: file.size for file in listed.files}
    inspection = Inspection(listed.choice, sizes, CheckpointSource(folder), problems=list(listed.choice.problems))
    inspection.download = Download(listed.size, listed.here, free_cache_bytes())
    with inspection.record_error():
        hub.require_disk_space([listed])
    return _read(inspection, lambda names: hub.download_headers(listed, names))


def _read(inspection: Inspection, headers_of: HeadersOf) -> Inspection:
    folder = inspection.folder
    with inspection.record_error():
        composed = compose_config(inspection.source)
        inspection.content, inspection.config, inspection.rows = composed.content, composed.config, composed.rows
    with inspection.record_error():
        inspection.speech = read_speech_tokenizer_config(folder / SPEECH_TOKENIZER)
    if inspection.config is not None:
        with inspection.record_error():
            inspection.text_tokenizer = TextTokenizer(folder, inspection.config)
        with inspection.record_error():
            inspection.weights = _weights(inspection, "", model_networks(inspection.config), headers_of)
    if inspection.speech is not None:
        with inspection.record_error():
            inspection.speech_weights = _weights(
                inspection, f"{SPEECH_TOKENIZER}/", speech_tokenizer_networks(inspection.speech), headers_of
            )
    if inspection.config is not None and inspection.speech is not None and inspection.text_tokenizer is not None:
        with inspection.record_error():
            check_compatibility(folder, inspection.config, inspection.text_tokenizer, inspection.speech)
    return inspection


def _weights(
    inspection: Inspection, prefix: str, networks: dict[str, nn.Module], headers_of: HeadersOf
) -> WeightsSummary | None:
    """Return a summary of the weights in one folder, or None if there are no weights."""
    inspection.networks |= networks
    files = tuple(name for name in inspection.files.read if re.fullmatch(rf"{prefix}[^/]*\.safetensors", name))
    if not files:
        return None
    headers = headers_of(files)
    if not prefix:
        inspection.types = {key: header.dtype for key, header in headers.items()}
    location = inspection.folder / (files[0] if len(files) == 1 else prefix)
    rounded = {} if prefix or inspection.quantization is None else {TALKER: inspection.quantization}
    shapes, quantized = required_tensors(networks, rounded)
    unread = check_headers(location, shapes, headers, quantized)
    return WeightsSummary(
        files, len(headers), dict(Counter(header.dtype for header in headers.values())), tuple(unread)
    )
