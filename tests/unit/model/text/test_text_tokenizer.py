"""Tests for the text tokenizer, compared with Qwen2's tokenizer.

The rules are in docs/model.md 7.3.
"""

from __future__ import annotations

import gc
import json
import random
import shutil
import weakref
from pathlib import Path

import pytest
from tokenizers import AddedToken

from runtime.model.checkpoints.config_files import read_model_config
from runtime.model.checkpoints.tokenizer_files import TokenizerFiles, read_tokenizer_files
from runtime.model.text.text_tokenizer import MAX_CACHED_CHARS, TextTokenizer, qwen2_tokenizer
from tests.conftest import FolderOf
from tests.support.checkpoints.tiny import TOKENS
from tests.support.checkpoints.tokenizer import vocabulary

VOCABULARY = vocabulary(TOKENS)
ODD = "aZ9 _'sÉe\u0301ßſ你好。，\u3000\t\r\n\n  ก็\u200d🙂\u00a0!?<|im_end|><|endoftext|>\ufb01\u212b\u1e9b\u0323½٣"


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    return shutil.copytree(folder_of("tiny", "custom_voice"), tmp_path / "checkpoint")


def tokenizer_of(folder: Path) -> TextTokenizer:
    return TextTokenizer(folder, read_model_config(folder))


@pytest.mark.parametrize("word", ["iPhone", "McDonald", "hello"])
def test_vocabulary_word_is_not_split(folder: Path, word: str) -> None:
    tokenizer = tokenizer_of(folder)
    assert tokenizer.encode_text(word) == [VOCABULARY[word]]
    assert tokenizer.encode_text(f"the {word}")[-1] in {VOCABULARY[word], VOCABULARY.get(f"\u0120{word}")}


def test_short_text_is_tokenized_once_and_long_text_is_not_cached(folder: Path) -> None:
    tokenizer = tokenizer_of(folder)
    first = tokenizer.encode_text("hello")
    cached = tokenizer._cached_ids.cache_info()
    first.append(0)  # Callers may change the list.
    assert tokenizer.encode_text("hello") == first[:-1]
    assert tokenizer.encode_text("hello " * MAX_CACHED_CHARS)
    assert tokenizer._cached_ids.cache_info().misses == cached.misses
    assert tokenizer._cached_ids.cache_info().currsize == cached.currsize


def test_cached_ids_take_four_bytes_each_and_do_not_keep_the_tokenizer_alive(folder: Path) -> None:
    tokenizer = tokenizer_of(folder)
    ids = tokenizer._cached_ids("hello " * 100)
    assert memoryview(ids).nbytes == 4 * len(ids)
    tokenizer_exists = weakref.ref(tokenizer)
    gc.disable()
    try:
        del tokenizer
        assert tokenizer_exists() is None
    finally:
        gc.enable()


def test_digits_are_separate_tokens(folder: Path) -> None:
    assert len(tokenizer_of(folder).encode_text("2026")) == 4


def test_composed_and_decomposed_letters_give_equal_tokens(folder: Path) -> None:
    tokenizer = tokenizer_of(folder)
    assert tokenizer.encode_text("caf\u00e9") == tokenizer.encode_text("cafe\u0301")


@pytest.mark.parametrize("text", ["Hello.", "a", "请用声音说", "x\n\ny", "tab\there", "🙂", "ก็ นี่", "\u200d"])
def test_body_of_a_prompt_is_the_text_between_the_template_tokens(folder: Path, text: str) -> None:
    tokenizer = tokenizer_of(folder)
    whole = tokenizer.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
    assert whole == [*tokenizer.role_ids(), *tokenizer.encode_text(text), *whole[-5:]]
    assert len(tokenizer.role_ids()) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello world, it's 42.", ["Hello", " world", ",", " it", "'s", " ", "4", "2", "."]),
        ("你好，我的 a  b\n\nc", ["你好", "，我的", " a", " ", " b", "\n\n", "c"]),
        ("cafe\u0301 au\u0301", ["cafe\u0301", " au\u0301"]),
    ],
)
def test_pieces_start_at_pre_tokenizer_boundaries_and_have_the_ids_of_the_text(
    folder: Path, text: str, words: list[str]
) -> None:
    tokenizer = tokenizer_of(folder)
    pieces = tokenizer.encode_pieces(text)
    starts = [start for start, _ in pieces]
    assert [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)] == words
    assert [token for _, ids in pieces for token in ids] == tokenizer.encode_text(text)


def test_length_of_the_longest_control_token_is_correct(folder: Path) -> None:
    tokenizer = tokenizer_of(folder)
    assert tokenizer.longest_reserved == max(map(len, tokenizer.reserved)) > 5


def test_instruct_ids_include_the_whole_template(folder: Path) -> None:
    tokenizer = tokenizer_of(folder)
    ids = tokenizer.encode_instruct("Speak low.")
    assert ids[0] == 472
    assert ids[1] == VOCABULARY["user"]
    assert ids[-2:] == tokenizer.encode("<|im_end|>\n")


def test_unused_files_in_the_checkpoint_folder_have_no_effect(folder: Path) -> None:
    """Loaders that read these files may select another pre-tokenizer, which splits "iPhone"."""
    text = "McDonald's iPhone 12, 你好"
    expected = tokenizer_of(folder).encode_text(text)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "LlamaTokenizer", "fix_mistral_regex": True, "transformers_version": "4.57.3"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "WordLevel"}}')
    (folder / "special_tokens_map.json").write_text('{"unk_token": "a"}')
    assert tokenizer_of(folder).encode_text(text) == expected


@pytest.mark.parametrize("text", ["<|im_end|>", "a<tts_pad>b", "<|endoftext|>"])
def test_control_tokens_are_found_in_text(folder: Path, text: str) -> None:
    tokenizer = tokenizer_of(folder)
    assert tokenizer.reserved_in(text)
    assert not tokenizer.reserved_in(text.replace("<", "< "))


def test_ascii_only_checkpoint_transliterates_text(folder: Path) -> None:
    published = tokenizer_of(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"voicewright_alphabet": "ascii"}))
    ascii_alone = tokenizer_of(folder)
    text, spelled = "\u200b Zo\u00eb\u2019s caf\u00e9\u2026", "Zoe's cafe..."
    assert ascii_alone.encode_text(text) == published.encode_text(spelled) != published.encode_text(text)
    assert ascii_alone.encode_instruct("Na\u00efve.") == published.encode_instruct("Naive.")
    assert ascii_alone.encode_instruct("50% faster") == published.encode_instruct("fifty percent faster")
    assert ascii_alone.drops_characters("\u041c")
    assert not published.drops_characters("\u041c")
    assert published.convert_to_ascii(text) == text


@pytest.mark.parametrize("change", [None, "no end of text", "a gap"])
def test_token_ids_equal_transformers(folder: Path, change: str | None) -> None:
    files = read_tokenizer_files(folder)
    if change == "a gap":
        further = {"<|further|>": max(files.vocabulary.values()) + 7}
        files = TokenizerFiles(files.vocabulary | further, files.merges, files.added | further)
    elif change is not None:
        parts = (
            {word: place for word, place in ids.items() if word != "<|endoftext|>"}
            for ids in (files.vocabulary, files.added)
        )
        without, added = parts
        files = TokenizerFiles(without, files.merges, added)
    # The import in this function keeps the module out of processes that only collect tests.
    from transformers import Qwen2Tokenizer

    theirs = Qwen2Tokenizer(
        vocab=files.vocabulary,
        merges=files.merges,
        added_tokens_decoder={
            index: AddedToken(token, special=True, normalized=False) for token, index in files.added.items()
        },
    )
    ours, draw = qwen2_tokenizer(files), random.Random(5)
    assert ours.get_vocab() == theirs.get_vocab()
    words = [*ODD, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|further|>", "iPhone", "it's", "I'LL", "  "]
    for _ in range(2000):
        text = "".join(draw.choices(words, k=draw.randrange(30)))
        own, their = (each.encode(text, add_special_tokens=False) for each in (ours, theirs.backend_tokenizer))
        assert (own.ids, own.offsets, own.word_ids) == (their.ids, their.offsets, their.word_ids)
