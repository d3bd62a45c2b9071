"""The arena: a fixed number of slots whose whole state lies in device tensors, and who owns which.

Joining, pausing and leaving are writes to a row. A slot's generation goes up when it is freed, so that whoever still
holds its number can tell that it has changed hands.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.engine.sampling import LevelSettings
from runtime.model.config import GenerationDefaults, ModelConfig
from runtime.request import Sampling


@dataclass(frozen=True, slots=True)
class LevelChoice:
    """How one level of one request draws, every default filled in. ``top_k`` 0 is off; temperature 0 is greedy."""

    temperature: float
    top_k: int
    top_p: float
    greedy: bool


@dataclass(frozen=True, slots=True)
class RowSettings:
    """A request's sampling: the talker's level and the code predictor's."""

    talker: LevelChoice
    predictor: LevelChoice
    repetition_penalty: float


def fill_in(sampling: Sampling, defaults: GenerationDefaults) -> RowSettings:
    """A request's own words over the checkpoint's generation_config.json."""

    def own(value: float | None, default: float) -> float:
        return default if value is None else value

    def choice(temperature: float, top_k: float, top_p: float, drawn: bool) -> LevelChoice:
        greedy = sampling.greedy or not drawn or temperature == 0
        return LevelChoice(temperature or 1.0, int(top_k), top_p, greedy)

    return RowSettings(
        talker=choice(
            own(sampling.temperature, defaults.temperature),
            own(sampling.top_k, defaults.top_k),
            own(sampling.top_p, defaults.top_p),
            defaults.do_sample,
        ),
        predictor=choice(
            own(sampling.predictor_temperature, defaults.subtalker_temperature),
            own(sampling.predictor_top_k, defaults.subtalker_top_k),
            own(sampling.predictor_top_p, defaults.subtalker_top_p),
            defaults.subtalker_dosample,
        ),
        repetition_penalty=own(sampling.repetition_penalty, defaults.repetition_penalty),
    )


class LevelArena:
    """One level's sampling settings of every slot, on the device, and what the host may know of them.

    Shapes: temperature, top_p [S] float32; top_k [S] int64; greedy [S] bool.
    """

    def __init__(self, slots: int, vocabulary: int, device: torch.device) -> None:
        self.vocabulary = vocabulary
        self.temperature = torch.ones(slots, device=device)
        self.top_k = torch.full((slots,), vocabulary, device=device)
        self.top_p = torch.ones(slots, device=device)
        self.greedy = torch.zeros(slots, device=device, dtype=torch.bool)
        self._choices: list[LevelChoice] = [LevelChoice(1.0, 0, 1.0, False)] * slots

    def write(self, slot: int, choice: LevelChoice) -> None:
        """Give a slot its settings."""
        self._choices[slot] = choice
        self.temperature[slot] = choice.temperature
        self.top_k[slot] = choice.top_k or self.vocabulary
        self.top_p[slot] = choice.top_p
        self.greedy[slot] = choice.greedy

    def of(self, slots: list[int], rows: Tensor) -> LevelSettings:
        """The settings of some rows. Shapes: rows [B] int64, the same as ``slots``."""
        choices = [self._choices[slot] for slot in slots]
        return LevelSettings(
            temperature=self.temperature[rows],
            top_k=self.top_k[rows],
            top_p=self.top_p[rows],
            greedy=self.greedy[rows],
            widest_k=max(choice.top_k or self.vocabulary for choice in choices),
            any_top_p=any(choice.top_p < 1 for choice in choices),
        )

    def draws(self, slots: list[int]) -> bool:
        """Whether some row needs noise."""
        return not all(self._choices[slot].greedy for slot in slots)


class SlotArena:
    """Device state of every slot of one checkpoint.

    Shapes: keys, values: one tensor a layer, [S, kv_heads, T, d]; the rest [S, ...].
    """

    def __init__(self, config: ModelConfig, slots: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        talker = config.talker
        self.slots, self.length, self.pad = slots, length, config.tts_pad_token_id
        shape = (slots, talker.num_key_value_heads, length, talker.head_dim)
        layers = range(talker.num_hidden_layers)
        self.keys = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.values = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]

        def ints(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device, dtype=torch.int64)

        self.position = ints(slots)  # where the next frame's input goes
        self.frame = ints(slots)  # frames made
        self.codes = ints(slots, talker.num_code_groups)  # of the last frame
        self.trailing = ints(slots, length)  # text ids beside the coming frames, then padding
        self.seen = torch.zeros(slots, talker.vocab_size, device=device, dtype=torch.bool)  # c0 drawn so far
        self.seed = ints(slots)
        self.penalty = torch.ones(slots, device=device)
        self.talker_level = LevelArena(slots, talker.vocab_size, device)
        self.predictor_level = LevelArena(slots, config.predictor.vocab_size, device)

        self.generation = [0] * slots
        self._free = list(reversed(range(slots)))

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return len(self._free)

    def take(self, settings: RowSettings, seed: int, trailing: list[int]) -> int:
        """Give a slot to a request and write its settings; there must be a free one.

        Text ids past the slot's length are dropped: no frame of it can reach them.
        """
        slot = self._free.pop()
        self.position[slot] = 0
        self.frame[slot] = 0
        self.codes[slot] = 0
        self.seen[slot] = False
        self.trailing[slot] = self.pad
        if trailing:
            beside = torch.tensor(trailing[: self.length], device=self.trailing.device)
            self.trailing[slot, : len(beside)] = beside
        self.seed[slot] = seed
        self.penalty[slot] = settings.repetition_penalty
        self.talker_level.write(slot, settings.talker)
        self.predictor_level.write(slot, settings.predictor)
        return slot

    def give_back(self, slot: int) -> None:
        """Free a slot. What it held is never read again: the next owner reads only what it has written itself."""
        self.generation[slot] += 1
        self._free.append(slot)
