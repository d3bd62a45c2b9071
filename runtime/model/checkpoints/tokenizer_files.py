"""Files of a text tokenizer: vocabulary, merges and added tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime.errors import CheckpointInvalid, CheckpointMissing
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import ADDED, MERGES, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY

Ids = dict[str, int]
Merges = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """Contents of a text tokenizer's files.

    The ids of all tokens, including added tokens, may have gaps.
    """

    vocabulary: Ids  # Id of each token, including added tokens.
    merges: Merges
    added: Ids


def read_tokenizer_files(folder: Path) -> TokenizerFiles:
    """Read ``vocab.json`` and ``merges.txt``, or ``tokenizer.json`` if one of them is missing.

    Raises:
        CheckpointMissing: A file is missing.
        CheckpointInvalid: A file has invalid content, or two tokens have the same id.
    """
    gone = [name for name in (VOCABULARY, MERGES) if not (folder / name).is_file()]
    if gone and not (folder / TOKENIZER).is_file():
        hint = f"It belongs to the text tokenizer; {TOKENIZER} can replace it."
        raise CheckpointMissing(path=folder, what=gone[0], hint=hint)
    try:
        vocabulary, merges, added = _whole(folder) if gone else _separate(folder)
        ids = set(added.values())
        by_id = {index: token for token, index in vocabulary.items() if index in ids}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"the text tokenizer cannot be read ({type(error).__name__}: {error})"
        raise CheckpointInvalid(path=folder, why=why) from None
    for token, index in added.items():
        if vocabulary.get(token, index) != index or by_id.setdefault(index, token) != token:
            raise CheckpointInvalid(path=folder, why=f"added token {index} has the id or the name of another token")
    return TokenizerFiles(vocabulary | added, merges, added)


def _separate(folder: Path) -> tuple[Ids, Merges, Ids]:
    lines, has_older = (folder / MERGES).read_text(encoding="utf-8").split("\n"), (folder / ADDED).is_file()
    merges = [_pair(line) for line in lines if line and not line.startswith("#version")]
    older = {token: int(index) for token, index in read_json(folder / ADDED).items()} if has_older else {}
    return read_json(folder / VOCABULARY), merges, older | _decoder(folder, is_needed=not older)


def _whole(folder: Path) -> tuple[Ids, Merges, Ids]:
    content = read_json(folder / TOKENIZER)
    model = content["model"]
    added = {str(token["content"]): int(token["id"]) for token in content.get("added_tokens", [])}
    return model["vocab"], [_pair(merge) for merge in model["merges"]], added | _decoder(folder, is_needed=False)


def _decoder(folder: Path, *, is_needed: bool) -> Ids:
    """Return the added tokens in tokenizer_config.json."""
    path = folder / TOKENIZER_CONFIG
    listed = read_json(path).get("added_tokens_decoder") if is_needed or path.is_file() else None
    return {str(token["content"]): int(index) for index, token in (listed or {}).items()}


def _pair(merge: str | list[str]) -> tuple[str, str]:
    """Return the two tokens of a merge, which is a string, or a list in newer files."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right
