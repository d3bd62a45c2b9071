"""Parser of JSON objects to dataclasses, which reports missing and unknown fields."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from runtime.errors import CheckpointInvalid, CheckpointMissing

Section = TypeVar("Section")

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
MAX_NAMED = 8  # Maximum number of field names in each list of a log line.
# Pattern of a checkpoint folder inside a training output folder or inside a repository folder of the Hub's cache.
_CHECKPOINT = re.compile(r"(checkpoint[^/]*|snapshots/[^/]+)/")


def word_set(text: str) -> frozenset[str]:
    """Split a text at white space, and return the set of its words."""
    return frozenset(text.split())


# Names of fields that may be in every configuration and that are not used.
UNUSED_FIELDS = word_set(
    """
    _name_or_path add_cross_attention architectures bad_words_ids begin_suppress_tokens bos_token_id
    chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dtype
    early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id id2label is_decoder is_encoder_decoder label2id length_penalty
    max_length min_length model_type no_repeat_ngram_size num_beam_groups num_beams num_return_sequences
    output_attentions output_hidden_states output_scores pad_token_id prefix problem_type pruned_heads
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens
    task_specific_params temperature tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k
    top_p torch_dtype torchscript transformers_version typical_p use_bfloat16 use_return_dict
    """
)
# Names of unused fields in some configurations: training settings, derived values, and values that other modules read.
UNUSED_FIELDS |= word_set(
    """
    assistant_token_id attention_dropout code_predictor_config im_end_token_id initializer_range layer_types
    max_new_tokens max_position_embeddings max_window_layers partial_rotary_factor position_id_per_seconds
    rope_parameters rope_scaling sliding_window use_cache use_sliding_window _frame_rate frame_rate
    layer_scale_initial_scale sampling_rate semantic_codebook_size num_semantic_quantizers trim_right_ratio
    upsample_groups use_streaming vector_quantization_hidden_dimension
    """
)


@dataclass(slots=True)
class FieldNotes:
    """Names of fields in a JSON file that are missing or unknown.

    Missing fields get their defaults, and unknown fields are ignored.
    """

    defaulted: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def unknown_in(self, raw: dict[str, Any], known: frozenset[str], section: str) -> None:
        """Record the fields of a section that are neither in `known` nor in UNUSED_FIELDS."""
        self.unknown += [_named(section, name) for name in raw if name not in known | UNUSED_FIELDS]

    def describe(self) -> str:
        """Return a log message about the missing and unknown fields, or an empty string."""
        parts = (
            ("defaults are used for", self.defaulted),
            ("unknown and ignored:", self.unknown),
        )
        return "; ".join(f"{words} {_some(names)}" for words, names in parts if names)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that contains an object, and return the object as a dict.

    Raises:
        CheckpointMissing: The file does not exist.
        CheckpointInvalid: The file is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        folders = (child for pattern in ("checkpoint*/", "snapshots/*/") for child in path.parent.glob(pattern))
        inside = (f"{folder.relative_to(path.parent).as_posix()}/" for folder in folders)
        raise CheckpointMissing(path=path.parent, what=path.name, hint=layout_hint(inside)) from None
    except OSError as error:
        raise CheckpointInvalid(path=path, why=f"it cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        refuse_lfs_pointer(path)
        raise CheckpointInvalid(path=path, why=f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise CheckpointInvalid(path=path, why="it is not a JSON object")
    return value


def layout_hint(names: Iterable[str]) -> str:
    """Return a hint for the error about a missing file, based on the names in its folder.

    Args:
        names: Names in the folder. Names of subfolders end with a slash.
    """
    matches = map(_CHECKPOINT.match, names)
    if checkpoints := sorted({each[1] for each in matches if each is not None}):
        return f"Give one of the checkpoints in it, such as {checkpoints[-1]}."
    return "A checkpoint holds it in the published layout."


def refuse_lfs_pointer(path: Path) -> None:
    """Raise an error if a file is a Git LFS pointer instead of the real file.

    ``git clone`` without Git LFS writes pointers instead of large files.

    Raises:
        CheckpointInvalid: The file is a pointer.
    """
    with path.open("rb") as file:
        is_pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
    require_condition(
        not is_pointer, path, "it is a pointer of Git LFS, not the file; run `git lfs pull`, or give the Hub id"
    )


def parse_section(kind: type[Section], raw: dict[str, Any], path: Path, section: str, notes: FieldNotes) -> Section:
    """Convert a JSON object to an instance of the dataclass `kind`.

    Missing and null fields get their defaults.

    Raises:
        CheckpointInvalid: A required field is missing, or a value has the wrong type.
    """
    hints, known = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]
    values = {}
    for spec in known:
        has_default = spec.default is not MISSING or spec.default_factory is not MISSING
        if has_default and raw.get(spec.name) is None:
            # The field head_dim may be missing, because its default depends on other fields.
            if spec.name not in raw and spec.name != "head_dim":
                notes.defaulted.append(_named(section, spec.name))
            continue
        values[spec.name] = convert_value(
            required_value(raw, spec.name, path, section), hints[spec.name], path, _named(section, spec.name)
        )
    notes.unknown_in(raw, frozenset(spec.name for spec in known), section)
    return kind(**values)


def section_of(raw: dict[str, Any], name: str, path: Path, notes: FieldNotes) -> dict[str, Any]:
    """Return the section `name` of a JSON object, or an empty dict if the section is missing.

    Raises:
        CheckpointInvalid: The section is not an object.
    """
    value = raw.get(name)
    if value is None:
        notes.defaulted.append(name)
        return {}
    require_condition(isinstance(value, dict), path, f"{name} is not an object")
    return dict(value)


def rope_of(raw: dict[str, Any], path: Path, section: str) -> dict[str, Any]:
    """Convert the RoPE parameters of a section to the older format, with ``rope_theta``.

    Newer files have ``rope_parameters`` instead of ``rope_theta`` and ``rope_scaling``.

    Raises:
        CheckpointInvalid: RoPE is scaled, rotates only a part of a head, or differs between layers.
    """
    newer, scaling = (raw.get(name) or {} for name in ("rope_parameters", "rope_scaling"))
    for name, value in (("rope_parameters", newer), ("rope_scaling", scaling)):
        require_condition(isinstance(value, dict), path, f"{section}.{name} is not an object")
    require_condition(
        not any(isinstance(value, dict) for value in newer.values()),
        path,
        f"{section}.rope_parameters by kind of layer are not supported",
    )
    for value in (newer, scaling):
        kind = value.get("type") or value.get("rope_type") or "default"
        require_condition(kind == "default", path, f"{section}.rope_scaling of type {kind} is not supported")
    part = raw.get("partial_rotary_factor") or newer.get("partial_rotary_factor") or 1
    require_condition(part == 1, path, f"{section}.partial_rotary_factor must be 1")
    if raw.get("rope_theta") is None and newer.get("rope_theta") is not None:
        return {**raw, "rope_theta": newer["rope_theta"]}
    return raw


def require_sections(raw: dict[str, Any], head_dim: int, path: Path, section: str) -> None:
    """Check that the sum of the mRoPE sections is half of the attention head size.

    Raises:
        CheckpointInvalid: The sum is not half of the head size.
    """
    for name in ("rope_scaling", "rope_parameters"):
        sections = (raw.get(name) or {}).get("mrope_section")
        if sections is None:
            continue
        is_valid = isinstance(sections, list) and all(type(size) is int and size >= 0 for size in sections)
        require_condition(
            is_valid and 2 * sum(sections) == head_dim,
            path,
            f"{section}.{name}.mrope_section must add up to half of head_dim, which is {head_dim // 2}",
        )


def required_value(raw: dict[str, Any], name: str, path: Path, section: str) -> Any:
    """Return the value of a required field.

    Raises:
        CheckpointInvalid: The field is missing or null.
    """
    if raw.get(name) is None:
        raise CheckpointInvalid(path=path, why=f"{_named(section, name)} is missing")
    return raw[name]


def convert_value(value: Any, hint: Any, path: Path, section: str) -> Any:
    """Convert a JSON value to the type of a dataclass field.

    Raises:
        CheckpointInvalid: The value has the wrong type.
    """
    origin = get_origin(hint)
    if origin is tuple:
        require_condition(isinstance(value, list), path, f"{section} is not a list")
        return tuple(convert_value(item, get_args(hint)[0], path, section) for item in value)
    if origin is dict:
        require_condition(isinstance(value, dict), path, f"{section} is not an object")
        return {key: convert_value(item, get_args(hint)[1], path, f"{section}.{key}") for key, item in value.items()}
    if origin in (Union, types.UnionType):
        require_condition(isinstance(value, get_args(hint)), path, f"{section} has another type")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # JSON does not distinguish integers from floats.
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    require_condition(type(value) is hint, path, f"{section} is not a {hint.__name__}")
    return value


def require_condition(condition: bool, path: Path, reason: str) -> None:
    """Raise CheckpointInvalid with this reason if the condition is False."""
    if not condition:
        raise CheckpointInvalid(path=path, why=reason)


def _named(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


def _some(names: list[str]) -> str:
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
