"""The demo voice's recipe trains on the prompts that the runtime builds, in both layouts."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from runtime.engine.prompt import Prompt, PromptInputs, build_prompt
from runtime.engine.voice_cache import ClonedVoice
from runtime.model.checkpoint import Checkpoint, load_checkpoint
from runtime.request import Layout, Mode
from runtime.settings import DEMO_CHECKPOINT

RECIPE = Path(__file__).parents[3] / "tools" / "demo_voice"
TEXT, INSTRUCT, REFERENCE_TEXT = "The harbour was quiet.", "A calm man.", "One, two, three, and the rest of it."
SPEAKER = "clara"
LINES = ["The harbour was quiet", "Nobody came back.", "It rained for a week, and then it stopped!", "Yes."]
FRAMES = 24  # of each line


@pytest.fixture(scope="module")
def recipe() -> Iterator[dict[str, ModuleType]]:
    """Modules of the recipe, which import each other by name; nothing of them stays behind."""
    before = set(sys.modules)
    sys.path.insert(0, str(RECIPE))
    yield {
        name: importlib.import_module(name)
        for name in ("checkpoints", "export", "generate", "lm_model", "prompts", "text", "vocabulary")
    }
    sys.path.remove(str(RECIPE))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(RECIPE)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def shipped() -> Checkpoint:
    return load_checkpoint(str(DEMO_CHECKPOINT), torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def voice(recipe: dict[str, ModuleType]) -> tuple[Any, Any]:
    """The shipped voice as the recipe reads it, with its text vocabulary."""
    return recipe["checkpoints"].load_voice(Path(str(DEMO_CHECKPOINT)), torch.device("cpu"))


def longer_vocabulary(recipe: dict[str, ModuleType]) -> Any:
    module = importlib.import_module("text_vocabulary")
    return module.TextVocabulary.learn([*LINES, TEXT, INSTRUCT] * 3, pieces=300)


REFERENCE = np.sin(np.arange(36_000) / 20).astype(np.float32)


@torch.no_grad()
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize(
    ("mode", "frames"),  # of a reference: none, fewer and more than its text has ids
    [(Mode.CUSTOM_VOICE, 0), (Mode.VOICE_DESIGN, 0), (Mode.BASE, 0), (Mode.BASE, 4), (Mode.BASE, 40)],
)
def test_a_prompt_is_the_runtime_s(
    recipe: dict[str, ModuleType], shipped: Checkpoint, voice: tuple[Any, Any], mode: Mode, frames: int, layout: Layout
) -> None:
    own, vocabulary = voice
    mel = recipe["lm_model"].MelFront()
    is_base = mode is Mode.BASE
    codes = np.arange(6 * frames).reshape(frames, 6) % 500 if frames else None
    ask = recipe["generate"].Ask(
        TEXT,
        speaker=SPEAKER if mode is Mode.CUSTOM_VOICE else "",
        instruct="" if is_base else INSTRUCT,
        reference=REFERENCE if is_base else None,
        reference_text=REFERENCE_TEXT if frames else "",
        reference_codes=codes,
        streaming=layout is Layout.STREAMING,
    )
    embeds, trailing = recipe["generate"].embed(own, vocabulary, ask, torch.device("cpu"), vocabulary.tokenizer(), mel)
    x_vector = own.speaker_encoder(mel(torch.from_numpy(REFERENCE)[None]))[0]
    theirs = ClonedVoice(x_vector, None if codes is None else torch.from_numpy(codes), REFERENCE_TEXT)
    prompt: Prompt = build_prompt(
        PromptInputs(
            text=TEXT,
            mode=mode,
            layout=layout,
            language="english",
            speaker=SPEAKER if mode is Mode.CUSTOM_VOICE else None,
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
def corpus(recipe: dict[str, ModuleType], tmp_path: Path) -> Any:
    """Four lines of one named speaker, with codes that tell the frames apart."""
    count = len(LINES) * FRAMES
    codes, phones = np.arange(count * 6, dtype=np.int16).reshape(count, 6) % 500, np.arange(4 * count) % 40
    rows = [
        {"text": text, "start": i * FRAMES * 1920, "length": FRAMES * 1920, "group": "0.1", "kind": "named",
         "speaker": SPEAKER, "gender": "female", "stretch": 1.0, "f0": 180.0}
        for i, text in enumerate(LINES)
    ]  # fmt: skip

    def encoded(time: int, first: int, last: int) -> None:
        at, end = first * FRAMES, last * FRAMES
        np.save(tmp_path / f"codes_{time}.npy", codes[at:end])
        np.save(tmp_path / f"phones_{time}.npy", phones[4 * at : 4 * end].astype(np.uint8))
        (tmp_path / f"rows_{time}.json").write_text(json.dumps(rows[first:last]))

    encoded(0, 0, 3)
    made = recipe["prompts"].Corpus(tmp_path, longer_vocabulary(recipe))
    assert len(made.rows) == 3
    encoded(1, 3, 4)
    made.refresh()
    for i, row in enumerate(made.rows):
        np.testing.assert_array_equal(made.frames(row), codes[i * FRAMES : (i + 1) * FRAMES])
        np.testing.assert_array_equal(made.labels(row).ravel(), phones[4 * i * FRAMES : 4 * (i + 1) * FRAMES])
    return made


def test_what_is_trained_on_has_the_text_where_the_loop_has_it(recipe: dict[str, ModuleType], corpus: Any) -> None:
    rng, noise = random.Random(1), np.random.default_rng(1)
    vocabulary, seen = corpus.t, set()
    letters = {piece: name for name, piece in vocabulary.pieces.items()}
    for _ in range(300):
        item = corpus.sequence(rng.randrange(len(corpus.rows)), rng)
        prompt, frames = item["prompt"], item["frames"]
        start, count = len(prompt.text), len(frames)
        batch = recipe["prompts"].collate([item], start + count, corpus, noise)
        text, beside = batch["text"][0], [*prompt.beside, *[vocabulary.pad] * count][:count]
        assert text.tolist() == [*prompt.text, *beside]
        assert prompt.codec[-1] == recipe["vocabulary"].CODEC_BOS
        assert batch["first"][0, start - 1 : start - 1 + count].tolist() == frames[:, 0].tolist()
        assert batch["first"][0, start - 1 + count] == recipe["vocabulary"].CODEC_EOS
        # From behind the prefix to the end of the text: the words, whatever pieces they were cut into.
        first = max(i for i, x in enumerate(text) if x == vocabulary.bos) + 1
        body = text[first : text.tolist().index(vocabulary.eos)]
        said = "".join(letters[int(x)] for x in body).replace("Ġ", " ")
        assert count % FRAMES == 0
        parts = count // FRAMES
        assert sum(said.count(line) for line in LINES) == parts
        if item["reference"] is None and parts > 1:
            assert said.count(". ") + said.count("! ") >= parts - 1
        seen.add((bool(prompt.beside), parts, item["reference"] is not None))
    assert {(streaming, parts, False) for streaming in (False, True) for parts in (1, 2, 3)} <= seen
    assert {(streaming, parts, True) for streaming in (False, True) for parts in (1, 2)} <= seen


def test_a_text_that_comes_later_than_it_is_spoken_is_given_whole(corpus: Any) -> None:
    for row in corpus.rows:
        row["length"] = 3 * 1920
    rng = random.Random(1)
    assert not any(corpus.sequence(2, rng)["prompt"].beside for _ in range(50))


def test_text_is_cut_anew_in_training_and_never_else(corpus: Any) -> None:
    cuts = {tuple(corpus.encode(LINES[2]).ids) for _ in range(50)}
    assert len(cuts) > 5
    tokenizer = corpus.t.tokenizer()
    assert len({tuple(tokenizer.encode(LINES[2]).ids) for _ in range(50)}) == 1


def test_words_of_the_template_are_one_piece_each(corpus: Any) -> None:
    tokenizer = corpus.t.tokenizer()
    assert tokenizer.encode("assistant").ids == [corpus.t.assistant]
    assert tokenizer.encode("user").ids == [corpus.t.user]


def test_weights_move_to_other_pieces(recipe: dict[str, ModuleType], voice: tuple[Any, Any]) -> None:
    own, before = voice
    checkpoints, now = recipe["checkpoints"], longer_vocabulary(recipe)
    state = own.state_dict()
    moved = checkpoints.moved(state, before, now)
    old, new = state[checkpoints.EMBEDDING], moved[checkpoints.EMBEDDING]
    assert new.shape == (now.rows, old.shape[1])
    for name in ("a", "Ġ", "assistant"):
        torch.testing.assert_close(new[now.pieces[name]], old[before.pieces[name]])
    torch.testing.assert_close(new[now.eos], old[before.eos])
    piece = next(name for name in now.pieces if name not in before.pieces)
    assert new[now.pieces[piece]].norm() > 0.1
    checkpoints.new_voice(now).load_state_dict(moved)
    assert torch.equal(checkpoints.moved(moved, now, now)[checkpoints.EMBEDDING], new)


def test_the_export_says_which_letters_it_has_learned_from(
    recipe: dict[str, ModuleType], voice: tuple[Any, Any]
) -> None:
    assert not recipe["text"].PLAIN.match("caf\u00e9")
    shipped = json.loads((Path(str(DEMO_CHECKPOINT)) / "config.json").read_text())
    assert recipe["export"].model_config(voice[1])["voicewright_alphabet"] == shipped["voicewright_alphabet"] == "ascii"


def test_muon_steps_as_torch_does_and_follows_a_rate_that_changes(recipe: dict[str, ModuleType]) -> None:
    generator = torch.Generator().manual_seed(5)
    shapes = [(48, 32), (48, 32), (32, 96)]
    ours = [torch.nn.Parameter(torch.randn(shape, generator=generator) * 0.04) for shape in shapes]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    rate = torch.tensor(0.0)
    muon = importlib.import_module("muon").Muon(ours, rate, decay=0.05)
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
            torch.testing.assert_close(a, b, rtol=0, atol=0.2 * value)  # both iterate in bfloat16
