"""Selection of a checkpoint's files by name, in a folder or on the Hub.

The layout is described in docs/model.md 1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from runtime.errors import CheckpointInvalid, CheckpointMissing, CheckpointUnsupported, SetUpError
from runtime.model.checkpoints.config_reader import layout_hint, read_json

CONFIG, GENERATION, PREPROCESSOR = "config.json", "generation_config.json", "preprocessor_config.json"
VOCABULARY, MERGES, TOKENIZER = "vocab.json", "merges.txt", "tokenizer.json"
TOKENIZER_CONFIG, ADDED = "tokenizer_config.json", "added_tokens.json"
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SPEECH_TOKENIZER = "speech_tokenizer"

ADAPTER = "adapter_*.safetensors"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

# File patterns of unsupported weight formats. Each value is a hint for the error message.
OTHERS = {
    "*.bin *.bin.index.json *.pt *.pth *.ckpt": "a pickle, which could run code and is never opened",
    ADAPTER: "an adapter, which needs adapter_config.json in the same folder",
    "*.gguf": "a llama.cpp file, which is not supported; use the original checkpoint",
    "*.onnx": "an ONNX file, which is not supported; use the original checkpoint",
}

IndexOf = Callable[[str], dict[str, Any]]  # Function that returns the content of an index file.


@dataclass(frozen=True, slots=True)
class FileChoice:
    """Selected files of a checkpoint, as paths relative to the checkpoint's folder."""

    read: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # Required files that are missing.
    problems: tuple[SetUpError, ...] = ()  # Errors about files that are missing or cannot be read.


def choose_files(source: object, names: Collection[str], index_of: IndexOf) -> FileChoice:
    """Select the files of a checkpoint that must be read.

    Missing files are listed in the result and do not raise an error.

    Args:
        source: Name of the checkpoint for error messages.
        names: Relative paths of all files and folders. Paths of folders end with a slash.
        index_of: Function that returns the content of an index file, given its relative path.
    """
    read: list[str] = []
    missing: list[str] = []
    problems: list[SetUpError] = []

    def add_files(path: object, prefix: str, needed: Collection[str], optional: Collection[str] = ()) -> None:
        file_names = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        required = [name for name in (*needed, *optional) if name in file_names]
        for missing_name in (name for name in needed if name not in file_names):
            missing.append(prefix + missing_name)
            problems.append(CheckpointMissing(path=path, what=missing_name, hint=layout_hint(file_names)))
        try:
            weights = weight_names(path, file_names, lambda name: index_of(prefix + name))
            required += weights if WHOLE in file_names else [INDEX, *weights]
        except SetUpError as error:
            problems.append(error)
            if isinstance(error, CheckpointMissing):
                missing.append(prefix + str(error.facts["what"]))
        read.extend(prefix + name for name in required)

    add_files(source, "", (CONFIG, GENERATION, *_tokenizer_files(names)))
    add_files(f"{source}/{SPEECH_TOKENIZER}", f"{SPEECH_TOKENIZER}/", (CONFIG,), (PREPROCESSOR,))
    return FileChoice(tuple(read), tuple(sorted(set(names) - set(read))), tuple(missing), tuple(problems))


def _tokenizer_files(names: Collection[str]) -> list[str]:
    """Return the tokenizer's files: vocabulary and merges, or tokenizer.json as a fallback."""
    has_both, has_whole = {VOCABULARY, MERGES} <= set(names), TOKENIZER in names
    missing = [TOKENIZER] if has_whole and not has_both else [VOCABULARY, MERGES]
    added = [name for name in (TOKENIZER_CONFIG, ADDED) if name in names]
    return missing + (added or ([] if has_whole and not has_both else [TOKENIZER_CONFIG]))


def weight_names(source: object, names: Collection[str], index_of: IndexOf) -> list[str]:
    """Return the names of the weight files in a folder: one file, or the shards of an index.

    Raises:
        CheckpointMissing: There are no weights, or a shard is missing.
        CheckpointUnsupported: The weights have another format.
        CheckpointInvalid: The index is damaged.
    """
    if WHOLE in names:
        return [WHOLE]
    if INDEX not in names:
        for patterns, kind in OTHERS.items():
            if other := min((name for name in names if _matches(name, patterns)), default=None):
                why = f"weights are read from safetensors files only, and {other} is {kind}"
                raise CheckpointUnsupported(path=source, why=why)
        raise CheckpointMissing(path=source, what=WHOLE, hint=_weights_hint(names))
    path, shards = f"{source}/{INDEX}", index_of(INDEX).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise CheckpointInvalid(path=path, why="weight_map is not an object that names files")
    named = sorted({name if isinstance(name, str) else "" for name in shards.values()})
    for name in named:
        if not name.endswith(".safetensors") or "/" in name or "\\" in name:
            raise CheckpointInvalid(
                path=path, why="weight_map names a file that is not a safetensors file in its folder"
            )
        if name not in names:
            raise CheckpointMissing(path=source, what=name, hint=f"{INDEX} names it.")
    return named


def _weights_hint(names: Collection[str]) -> str:
    others = sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    if not others:
        return "Weights files are read in one format only (safetensors)."
    if len(others) == 1:
        return f"Rename {others[0]} to it if that has the weights."
    return f"The {len(others)} safetensors files there are read if {INDEX} names them; fetch it too."


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """Folders of a checkpoint: the published files, and LoRA adapters for them."""

    folder: Path
    # Folders that contain adapter_config.json. If there is only one adapter, it may be in the same folder as the
    # checkpoint.
    adapters: tuple[Path, ...] = ()
    name: str = ""  # Name that is shown to clients: a Hub id, or the name of a folder.
    base: str = ""  # Name of `folder` that is shown to clients: a Hub id, or the name of the folder.
    # True if the settings also name the base checkpoint. In this case, its own speakers are served.
    has_base: bool = False

    @property
    def adapter_weights(self) -> list[Path]:
        return [folder / ADAPTER_WEIGHTS for folder in self.adapters]

    @property
    def adapter_files(self) -> list[Path]:
        """Return the paths of all adapter files.

        These are configurations, weights and, if it exists, the config.json with an adapter's speakers.
        """
        configs = [folder / CONFIG for folder in self.adapters if folder != self.folder]
        files = [folder / ADAPTER_CONFIG for folder in self.adapters] + self.adapter_weights
        return files + [path for path in configs if path.is_file()]

    @property
    def weights(self) -> list[Path]:
        """Return the paths of the weight files of the base checkpoint and of all adapters.

        The errors are the same as for `weight_names`.
        """
        return weight_files(self.folder) + self.adapter_weights


def has_weights(folder: Path) -> bool:
    """True if a folder contains model.safetensors or the index file of its shards."""
    return any((folder / name).is_file() for name in (WHOLE, INDEX))


def unapplied_adapters(source: CheckpointSource) -> list[str]:
    """Return the relative paths of the unused adapter files in a checkpoint folder."""
    others = {*source.folder.glob("*.safetensors"), *source.folder.glob("*/*.safetensors")} - {*source.adapter_files}
    paths = sorted(path.relative_to(source.folder).as_posix() for path in others if _is_adapter(path))
    return [path for path in paths if not path.startswith(f"{SPEECH_TOKENIZER}/")]


def _is_adapter(path: Path) -> bool:
    return fnmatch(path.name, ADAPTER) or "lora" in path.name.lower()


def weight_files(folder: Path) -> list[Path]:
    """Return the paths of the weight files in a folder.

    The errors are the same as for `weight_names`.
    """
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [folder / name for name in weight_names(folder, names, lambda name: read_json(folder / name))]


def list_files(folder: Path) -> list[str]:
    """Return the relative paths of the files in a checkpoint folder.

    The list includes the files of the speech tokenizer's subfolder. Any other subfolder is listed as its name with a
    slash at the end. If the folder is a repository in the Hub's cache, its snapshots are also listed.
    """
    speech = folder / SPEECH_TOKENIZER
    speech_names = [f"{SPEECH_TOKENIZER}/{path.name}" for path in speech.iterdir()] if speech.is_dir() else []
    folder_names = [path.name + "/" * path.is_dir() for path in folder.iterdir() if path != speech]
    in_cache = [f"snapshots/{path.name}/" for path in folder.glob("snapshots/*/")]
    return sorted(folder_names + speech_names + in_cache)


def _matches(name: str, patterns: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns.split())
