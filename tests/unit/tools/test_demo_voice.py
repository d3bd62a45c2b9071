"""Tests for the embedded voice's recipe: training prompts, and export for the runtime."""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.execution.prompt import Prompt, PromptInputs, build_prompt
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.request import Layout, Mode

TEXT, INSTRUCT, REFERENCE_TEXT = "The harbour was quiet.", "A calm man.", "One, two, three, and the rest of it."
SPEAKER = "clara"
LINES = ["The harbour was quiet", "Nobody came back.", "It rained for a week, and then it stopped!", "Yes."]
FRAMES = 24  # Number of frames of each line.
STYLE = torch.zeros(256, dtype=torch.int8)


@pytest.fixture(scope="module")
def exported(recipe: dict[str, ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an exported voice and codec, which were not trained.

    It also has their training checkpoints.
    """
    folder, save = tmp_path_factory.mktemp("voice"), recipe["stage"].save
    torch.manual_seed(3)
    vocabulary = vocabulary_of(300)
    vocabulary.write(folder)
    save(recipe["lm_model"].Voice(vocabulary.rows).state_dict(), folder / "lm.pt")
    codec = recipe["codec_model"].Codec()
    codec.quantizer.norm.running_mean.normal_()
    save(codec.state_dict(), folder / "codec.pt")
    arguments = {"codec": folder / "codec.pt", "lm": folder / "lm.pt", "out": folder / "exported"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe["export"], "WORK", folder)
        patch.setattr(sys, "argv", ["export.py", *(word for k, v in arguments.items() for word in (f"--{k}", str(v)))])
        recipe["export"].main()
    return folder / "exported"


@pytest.fixture(scope="module")
def shipped(exported: Path) -> Checkpoint:
    return load_checkpoint(str(exported), torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def voice(recipe: dict[str, ModuleType], exported: Path) -> tuple[Any, Any]:
    """Load the exported voice with the recipe, and return it with its text vocabulary."""
    vocabulary = importlib.import_module("text_vocabulary").TextVocabulary.read(exported)
    own = recipe["lm_model"].Voice(vocabulary.rows).eval()
    own.load_state_dict(recipe["lm_model"].read_voice(exported))
    return own, vocabulary


def vocabulary_of(pieces: int) -> Any:
    module = importlib.import_module("text_vocabulary")
    return module.TextVocabulary.learn([*LINES, TEXT, INSTRUCT] * 3, pieces)


REFERENCE = np.sin(np.arange(36_000) / 20).astype(np.float32)


@torch.no_grad()
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize(
    ("mode", "frames"),  # The reference has no frames, fewer frames than text IDs, or more frames than text IDs.
    [(Mode.CUSTOM_VOICE, 0), (Mode.VOICE_DESIGN, 0), (Mode.BASE, 0), (Mode.BASE, 4), (Mode.BASE, 40)],
)
def test_training_prompt_equals_the_prompt_of_the_runtime(
    recipe: dict[str, ModuleType], shipped: Checkpoint, voice: tuple[Any, Any], mode: Mode, frames: int, layout: Layout
) -> None:
    own, vocabulary = voice
    prompts, is_base = recipe["prompts"], mode is Mode.BASE
    ids = {text: vocabulary.tokenizer().encode(text).ids for text in (TEXT, INSTRUCT, REFERENCE_TEXT)}
    speaker = SPEAKER if mode is Mode.CUSTOM_VOICE else None
    trained = prompts.prefix(vocabulary, None if is_base else ids[INSTRUCT], "english", speaker, is_base)
    body = ids[REFERENCE_TEXT] + ids[TEXT] if frames else ids[TEXT]
    later = prompts.add_text(trained, [*body, vocabulary.eos], layout, vocabulary.config)
    text, codec = torch.tensor(trained.text), torch.tensor(trained.codec)
    embeds = own.text(text) + own.talker.model.codec_embedding(codec.clamp(min=0)) * (codec >= 0)[:, None]
    x_vector = own.x_vectors(torch.from_numpy(REFERENCE)[None])[0]
    if is_base:
        embeds[trained.x_vector_at] += x_vector
    codes = (torch.arange(prompts.CODEBOOKS * frames) % 500).reshape(frames, prompts.CODEBOOKS)
    beside = own.text(torch.tensor([*later, *[vocabulary.pad] * frames][:frames], dtype=torch.int64))
    embeds, trailing = torch.cat((embeds, own.frames(codes) + beside)), later[frames:]
    theirs = ClonedVoice(x_vector, codes if frames else None, REFERENCE_TEXT)
    prompt: Prompt = build_prompt(
        PromptInputs(
            text=TEXT,
            mode=mode,
            layout=layout,
            language="english",
            speaker=speaker,
            instruct=None if is_base else INSTRUCT,
            voice=theirs if is_base else None,
        ),
        shipped.config,
        shipped.text_tokenizer,
        shipped.talker,
    )
    assert trailing == prompt.trailing
    assert embeds.shape == prompt.embeds.shape
    torch.testing.assert_close(embeds, prompt.embeds, atol=1e-4, rtol=1e-4)


@pytest.fixture
def corpus(recipe: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a corpus with four lines of one named speaker.

    The codes of a line identify its frames.
    """
    monkeypatch.setattr(recipe["prompts"], "WORK", tmp_path)
    shards, spoken, save = tmp_path / "shards", tmp_path / "spoken", recipe["stage"].save
    shards.mkdir()
    spoken.mkdir()
    count, books = len(LINES) * FRAMES, recipe["prompts"].CODEBOOKS
    codes, phones = torch.arange(count * books).reshape(count, books) % 500, torch.arange(4 * count) % 40

    def encoded(shard: int, first: int, last: int) -> None:
        at, end = first * FRAMES, last * FRAMES
        rows = [row_of(text, i) for i, text in enumerate(LINES[first:last])]
        save({"rows": rows, "phones": phones[4 * at : 4 * end].to(torch.uint8)}, shards / f"{shard}.pt")
        save({"start": 1920 * at, "codes": codes[at:end].to(torch.int16)}, spoken / f"{shard}.pt")

    encoded(0, 0, 3)
    made = recipe["prompts"].Corpus(vocabulary_of(300))
    assert len(made.rows) == 3
    encoded(1, 3, 4)
    made.refresh()
    for i, row in enumerate(made.rows):
        assert row["start"] == i * FRAMES * 1920
        np.testing.assert_array_equal(row["codes"], codes[i * FRAMES : (i + 1) * FRAMES])
        np.testing.assert_array_equal(row["phones"].ravel(), phones[4 * i * FRAMES : 4 * (i + 1) * FRAMES])
    return made


def row_of(text: str, number: int) -> dict[str, Any]:
    """Return the row of a line of the named speaker, at the position `number` of its shard."""
    return {"text": text, "start": number * FRAMES * 1920, "length": FRAMES * 1920, "group": "0.1", "kind": "named",
            "style": STYLE, "speaker": SPEAKER, "gender": "female", "stretch": 1.0, "formant": 1.0,
            "f0": 180.0}  # fmt: skip


def test_training_sequences_align_text_like_the_decoding_loop(recipe: dict[str, ModuleType], corpus: Any) -> None:
    rng, noise = random.Random(1), np.random.default_rng(1)
    vocabulary, seen = corpus.t, set()
    letters = {piece: name for name, piece in vocabulary.pieces.items()}
    for _ in range(300):
        item = corpus.sequence(rng.randrange(len(corpus.rows)), rng)
        prompt, frames = item["prompt"], item["frames"]
        start, count = len(prompt.text), len(frames)
        batch = recipe["prompts"].collate([item], start + count, corpus, noise)
        text, beside = batch["text"][0], [*item["beside"], *[vocabulary.pad] * count][:count]
        assert text.tolist() == [*prompt.text, *beside]
        assert prompt.codec[-1] == recipe["prompts"].TALKER.codec_bos_id
        assert batch["first"][0, start - 1 : start - 1 + count].tolist() == frames[:, 0].tolist()
        assert batch["first"][0, start - 1 + count] == recipe["prompts"].TALKER.codec_eos_token_id
        # Compare characters, because the tokens between the prefix and the end of the text depend on the tokenization.
        first = max(i for i, x in enumerate(text) if x == vocabulary.bos) + 1
        body = text[first : text.tolist().index(vocabulary.eos)]
        said = "".join(letters[int(x)] for x in body).replace("Ġ", " ")
        assert count % FRAMES == 0
        parts = count // FRAMES
        assert sum(said.count(line) for line in LINES) == parts
        if item["reference"] is None and parts > 1:
            assert said.count(". ") + said.count("! ") >= parts - 1
        seen.add((bool(item["beside"]), parts, item["reference"] is not None))
    assert {(streaming, parts, False) for streaming in (False, True) for parts in (1, 2, 3)} <= seen
    assert {(streaming, parts, True) for streaming in (False, True) for parts in (1, 2)} <= seen


def test_text_longer_than_its_audio_uses_the_non_streaming_layout(corpus: Any) -> None:
    for row in corpus.rows:
        row["codes"], row["phones"] = row["codes"][:3], row["phones"][:3]
    rng = random.Random(1)
    assert not any(corpus.sequence(2, rng)["beside"] for _ in range(50))


def test_tokenization_varies_only_in_training(corpus: Any) -> None:
    cuts = {tuple(corpus.encode(LINES[2]).ids) for _ in range(50)}
    assert len(cuts) > 5
    tokenizer = corpus.t.tokenizer()
    assert len({tuple(tokenizer.encode(LINES[2]).ids) for _ in range(50)}) == 1


def test_template_words_are_single_tokens(corpus: Any) -> None:
    tokenizer = corpus.t.tokenizer()
    assert tokenizer.encode("assistant").ids == [corpus.t.assistant]
    assert tokenizer.encode("user").ids == [corpus.t.user]


def test_export_lists_the_letters_seen_in_training(recipe: dict[str, ModuleType], exported: Path) -> None:
    assert not recipe["phonemes"].PLAIN.match("caf\u00e9")
    assert json.loads((exported / "config.json").read_text())["voicewright_alphabet"] == "ascii"


@torch.no_grad()
def test_exported_codec_is_close_to_the_original_codec(recipe: dict[str, ModuleType], exported: Path) -> None:
    before, after = (
        recipe["codec_model"].Codec.load(p, torch.device("cpu")) for p in (exported.parent / "codec.pt", exported)
    )
    audio = torch.randn(1, 20 * 1920, generator=torch.Generator().manual_seed(1)) * 0.1
    codes = before.encode(audio)
    assert (after.encode(audio) == codes).float().mean() > 0.95  # The export has half precision.
    before.fold()
    quantizer = before.quantizer
    quantizer.sums, quantizer.usage = quantizer.tables, torch.ones_like(quantizer.usage)
    before.half().float()
    torch.testing.assert_close(after.decode(codes), before.decode(codes), atol=2e-3, rtol=2e-2)


def test_speech_cached_before_codec_training_is_used_for_training(
    recipe: dict[str, ModuleType], exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("prompts", "train_lm"):
        monkeypatch.setattr(recipe[name], "WORK", tmp_path)
    shards, labels = tmp_path / "shards", torch.ones(4 * FRAMES)
    shards.mkdir()
    audio = torch.ones(FRAMES * 1920, dtype=torch.int16)
    shard = {"rows": [row_of(LINES[0], 0)], "audio": audio, "phones": labels.to(torch.uint8), "f0": labels.half()}
    recipe["stage"].save(shard, shards / "k_0.pt")
    args = argparse.Namespace(hours=0.01, codec=exported.parent / "codec.pt", min_hours=0.0)
    recipe["train_lm"].listen(args, torch.device("cpu"))
    assert len(recipe["prompts"].Corpus(vocabulary_of(300)).rows) == 1


def test_muon_steps_equal_torch_and_follow_the_learning_rate(recipe: dict[str, ModuleType]) -> None:
    generator = torch.Generator().manual_seed(5)
    shapes = [(48, 32), (48, 32), (32, 96)]
    ours = [torch.nn.Parameter(torch.randn(shape, generator=generator) * 0.04) for shape in shapes]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    rate = torch.tensor(0.0)
    muon = recipe["stage"].Muon(ours, rate, decay=0.05)
    twin = torch.optim.Muon(theirs, lr=0.0, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for value in (1e-3, 2e-3, 5e-4):
        rate.fill_(value)
        twin.param_groups[0]["lr"] = value
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        before = [weight.detach().clone() for weight in ours]
        muon.step()
        twin.step()
        for a, b, start in zip(ours, theirs, before, strict=True):
            assert (a - start).detach().square().mean().sqrt() == pytest.approx(0.2 * value, rel=0.3)
            # Both optimizers iterate in bfloat16, so their weights may differ by a fifth of a step.
            torch.testing.assert_close(a, b, rtol=0, atol=0.2 * value)
