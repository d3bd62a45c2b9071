"""Exact code probabilities after the reference's logits processors, for tests of sampling."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.golden.oracle import Oracle, Utterance

HISTORY_SEED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sampling parameters of a test case, and its number of previously sampled c0 codes."""

    name: str
    frame: int  # Index of the frame whose recorded logits are used.
    drawn: int
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05


SETTINGS = (
    Setting(name="default", frame=3, drawn=9),
    Setting(name="first", frame=0, drawn=0),  # In the first frame, EOS is forbidden.
    Setting(name="second", frame=1, drawn=1),  # In the second frame, EOS is also forbidden.
    Setting(name="third", frame=2, drawn=2),  # From the third frame on, EOS is allowed.
    Setting(name="hot", frame=4, drawn=6, temperature=1.7, top_k=0),
    Setting(name="cold", frame=5, drawn=6, temperature=0.3),
    Setting(name="narrow", frame=6, drawn=6, temperature=2.5, top_k=5),
    Setting(name="single", frame=6, drawn=6, top_k=1),
    Setting(name="nucleus", frame=7, drawn=6, temperature=1.5, top_k=0, top_p=0.8),
    Setting(name="nucleus_of_top_k", frame=8, drawn=6, temperature=2.0, top_k=12, top_p=0.6),
    Setting(name="tight_nucleus", frame=8, drawn=6, top_p=0.05),
    Setting(name="strong_penalty", frame=9, drawn=30, temperature=2.0, repetition_penalty=1.8),
    Setting(name="no_penalty", frame=9, drawn=30, temperature=2.0, repetition_penalty=1.0),
    Setting(name="reward", frame=9, drawn=30, temperature=2.0, repetition_penalty=0.8),
)


def sampling_truth(oracle: Oracle) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """Return recorded logits, and the exact probabilities of all codes for every setting.

    Shapes: NAME_logits [vocab], NAME_history [drawn], NAME_probabilities [vocab].
    """
    said = Utterance(mode="custom_voice", text="Hello world.", speaker="serena", non_streaming=True)
    recorded = oracle.speak(said, max_frames=12).logits
    stream = np.random.RandomState(HISTORY_SEED)
    arrays: dict[str, NDArray[Any]] = {}
    for setting in SETTINGS:
        logits = recorded[setting.frame]
        # Half of the history consists of the most likely codes, which a penalty affects most.
        likely = np.argsort(-logits[:64], kind="stable")[:8]
        history = np.where(
            stream.random_sample(setting.drawn) < 0.5,
            stream.choice(likely, setting.drawn),
            stream.randint(0, 64, setting.drawn),
        ).astype(np.int64)
        arrays[f"{setting.name}_logits"] = logits
        arrays[f"{setting.name}_history"] = history
        arrays[f"{setting.name}_probabilities"] = _probabilities(oracle, setting, logits, history)
    return arrays, [asdict(setting) for setting in SETTINGS]


def _probabilities(
    oracle: Oracle, setting: Setting, logits: NDArray[np.float32], history: NDArray[np.int64]
) -> NDArray[np.float64]:
    talker, config = oracle.model.talker, oracle.model.config.talker_config
    asked = copy.deepcopy(talker.generation_config)
    eos = config.codec_eos_token_id
    asked.update(
        do_sample=True,
        temperature=setting.temperature,
        top_k=setting.top_k,
        top_p=setting.top_p,
        repetition_penalty=setting.repetition_penalty,
        eos_token_id=eos,
        min_new_tokens=2,
        suppress_tokens=[index for index in range(config.vocab_size - 1024, config.vocab_size) if index != eos],
    )
    talker._prepare_special_tokens(asked, kwargs_has_attention_mask=True, device="cpu")
    chain = talker._get_logits_processor(generation_config=asked, input_ids_seq_length=0, device="cpu")
    scores = chain(torch.from_numpy(history)[None], torch.from_numpy(logits)[None].clone())
    return torch.softmax(scores.double(), dim=-1)[0].numpy()
