"""Tests for CustomVoice checkpoints that use embeddings of a Base checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from runtime.engine.execution.graphs import GraphPool
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.talker import Talker
from runtime.request import Layout, SpeechRequest
from tests.support.engines import cloned, custom_voice, engine_of, seeded, speak, speak_live, speak_together
from tests.support.frames import record_launches
from tests.unit.engine.test_styled_voices import styled
from tests.unit.engine.test_voice_cache import counted

pytestmark = pytest.mark.usefixtures("each_device")

WORDS = "The old phone is slow, and the kettle is on."
LONG_STYLE = "A warm young voice with a smile in it, slow and near, as if it told a secret to a friend at night."
TABLES = ("model.text_embedding", "text_projection", "model.codec_embedding")


def other_talker(checkpoint: Checkpoint, *names: str) -> Talker:
    """Return a copy of the talker with changed weights, either in all or in the named modules."""
    talker, generator = copy.deepcopy(checkpoint.talker), torch.Generator().manual_seed(5)
    with torch.inference_mode():
        for name, weight in talker.named_parameters():
            if not names or name.startswith(names):
                weight += 0.3 * weight.std() * torch.randn(weight.shape, generator=generator)
    return talker


def grafted_by_hand(speaker: Checkpoint, base: Checkpoint) -> Checkpoint:
    """Return the CustomVoice checkpoint with Base's embeddings of text and of codebook 0."""
    talker, lent = copy.deepcopy(speaker.talker), base.talker
    talker.model.text_embedding.load_state_dict(lent.model.text_embedding.state_dict())
    talker.text_projection.load_state_dict(lent.text_projection.state_dict())
    codes = speaker.config.talker.codes
    with torch.inference_mode():
        talker.model.codec_embedding.weight[:codes] = lent.model.codec_embedding.weight[:codes]
    return replace(speaker, talker=talker)


@pytest.fixture
def speaker_and_base(speaker: Checkpoint, cloner: Checkpoint) -> tuple[Checkpoint, Checkpoint]:
    """Return CustomVoice and Base checkpoints whose talkers have different weights."""
    return replace(speaker, talker=other_talker(cloner)), cloner


def codes_of(engine: Any, request: SpeechRequest) -> list[list[int]]:
    codes: list[list[int]] = speak(engine, request).codes.tolist()
    return codes


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param(seeded(3), marks=pytest.mark.slow),
        {"layout": Layout.STREAMING, "bans_eos": True},
    ],
    ids=["greedy", "sampled", "streaming"],
)
def test_codes_equal_the_codes_of_a_checkpoint_with_the_merged_tables(
    speaker_and_base: tuple[Checkpoint, Checkpoint], words: dict[str, Any]
) -> None:
    speaker, base = speaker_and_base
    engine = engine_of(speaker, base)
    recorder = speak(engine, styled(text=WORDS, graft=True, **words))
    expected = speak(engine_of(grafted_by_hand(speaker, base), base), styled(text=WORDS, **words))
    assert len(recorder.codes) == 12
    assert np.array_equal(recorder.codes, expected.codes)
    assert np.array_equal(recorder.pcm, expected.pcm)
    assert codes_of(engine, styled(text=WORDS, **words)) != recorder.codes.tolist(), "without it the tables are its own"


def test_source_checkpoint_may_have_another_dtype(speaker_and_base: tuple[Checkpoint, Checkpoint]) -> None:
    """An int8 checkpoint computes in float32, but its source checkpoint may stay in bfloat16."""
    speaker, base = speaker_and_base
    narrow = replace(base, talker=copy.deepcopy(base.talker).to(torch.bfloat16))
    for one, other in ((speaker, narrow), (replace(speaker, talker=speaker.talker.to(torch.bfloat16)), base)):
        assert len(speak(engine_of(one, other), styled(text=WORDS, graft=True)).codes) == 12


def test_embeddings_of_an_equal_checkpoint_do_not_change_the_codes(speaker: Checkpoint, cloner: Checkpoint) -> None:
    engine = engine_of(replace(speaker, talker=copy.deepcopy(cloner.talker)), cloner)
    plain = speak(engine, styled(instruct=None))
    grafted = speak(engine, styled(instruct=None, graft=True))
    base = speak(engine, cloned(x_vector_only=True, layout=Layout.NON_STREAMING))
    assert np.array_equal(plain.codes, grafted.codes)
    assert np.array_equal(plain.codes, base.codes)
    style = speak(engine, styled()), speak(engine, styled(graft=True))
    assert np.array_equal(style[0].codes, style[1].codes)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_each_embedding_table_affects_the_codes(cloner: Checkpoint, speaker: Checkpoint, table: str) -> None:
    engine = engine_of(replace(speaker, talker=other_talker(cloner, table)), cloner)
    whole = engine_of(replace(speaker, talker=copy.deepcopy(cloner.talker)), cloner)
    own, lent, all_base = codes_of(engine, styled()), codes_of(engine, styled(graft=True)), codes_of(whole, styled())
    assert own != lent
    # Tags are codec IDs, too. The CustomVoice checkpoint's own embeddings are used for tags.
    assert (lent == all_base) == (table != "model.codec_embedding")


def test_rows_with_and_without_cross_embeddings_share_a_batch(speaker_and_base: tuple[Checkpoint, Checkpoint]) -> None:
    engine = engine_of(*speaker_and_base)
    requests = [
        styled(graft=True),
        custom_voice(seed=2),
        styled(),
        styled(text=WORDS, graft=True, **seeded(5)),
        custom_voice(WORDS, **seeded(6)),
    ]
    alone = [codes_of(engine, request) for request in requests]
    together = speak_together(engine, *requests, apart=2)
    assert [recorder.codes.tolist() for recorder in together] == alone


def test_prefix_cache_separates_requests_with_cross_embeddings(
    speaker_and_base: tuple[Checkpoint, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, launches = engine_of(*speaker_and_base), record_launches(monkeypatch)
    plain, grafted = (styled(instruct=LONG_STYLE, graft=graft) for graft in (False, True))
    first = [codes_of(engine, request) for request in (plain, grafted)]
    assert [start for _, start, _ in launches.chunks].count(0) == 2
    assert [codes_of(engine, request) for request in (plain, grafted)] == first
    assert [start for _, start, _ in launches.chunks].count(0) == 2, "both prefixes are cached"
    assert first[0] != first[1]


@pytest.mark.slow
def test_streamed_text_works_with_cross_checkpoint_embeddings(speaker_and_base: tuple[Checkpoint, Checkpoint]) -> None:
    speaker, base = speaker_and_base
    words = {"layout": Layout.STREAMING, "bans_eos": True}
    pieces, ticks = ["The old ", "phone is slow, ", "and the kettle is on."], [3, 5]
    recorder = speak_live(engine_of(speaker, base), styled(graft=True, **words), pieces, ticks)
    expected = speak_live(engine_of(grafted_by_hand(speaker, base), base), styled(**words), pieces, ticks)
    assert np.array_equal(recorder.codes, expected.codes)


def test_batch_with_cross_embeddings_runs_without_graphs(
    speaker_and_base: tuple[Checkpoint, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(*speaker_and_base)
    if not engine.device.holds_graphs:
        pytest.skip("this device has none")
    calls = counted(GraphPool, "fitting", monkeypatch)
    speak(engine, styled(graft=True))
    assert not calls
    speak(engine, styled())
    assert len(calls) == 12


NOTE = "graft needs a stored voice, instructions and a Base checkpoint with the same ids; it was ignored."


@pytest.mark.parametrize(
    "request_of", [lambda **words: custom_voice(**words), lambda **words: cloned(**words)], ids=["speaker", "base"]
)
def test_note_is_sent_if_cross_embeddings_do_not_apply(
    speaker_and_base: tuple[Checkpoint, Checkpoint], request_of: Callable[..., SpeechRequest]
) -> None:
    engine = engine_of(*speaker_and_base)
    recorder = speak(engine, request_of(graft=True))
    assert NOTE in recorder.started.notes
    assert recorder.codes.tolist() == codes_of(engine, request_of())


def test_note_is_sent_if_cross_embeddings_apply(speaker_and_base: tuple[Checkpoint, Checkpoint]) -> None:
    engine = engine_of(*speaker_and_base)
    assert [card.grafts_voices for card in engine.cards] == [True, False]
    *_, note = speak(engine, styled(graft=True, max_frames=1)).started.notes
    assert note == "The Base checkpoint's embeddings are used for text and codes (graft); this is experimental."


def test_token_ids_with_a_different_meaning_are_not_replaced(speaker: Checkpoint, cloner: Checkpoint) -> None:
    strange = replace(cloner.config, tts_pad_token_id=cloner.config.tts_pad_token_id + 1)
    engine = engine_of(speaker, replace(cloner, config=strange))
    recorder = speak(engine, styled(graft=True, max_frames=3))
    assert NOTE in recorder.started.notes
    assert recorder.codes.tolist() == codes_of(engine, styled(max_frames=3))
    assert [card.grafts_voices for card in engine.cards] == [False, False]
