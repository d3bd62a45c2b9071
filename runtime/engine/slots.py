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
class RowSettings:
    """A request's sampling with every default filled in; a level with temperature 0 is greedy."""

    temperature: float
    top_k: int
    top_p: float
    greedy: bool
    repetition_penalty: float
    predictor_temperature: float
    predictor_top_k: int
    predictor_top_p: float
    predictor_greedy: bool


def fill_in(sampling: Sampling, defaults: GenerationDefaults) -> RowSettings:
    """A request's own words over the checkpoint's generation_config.json."""

    def own(value: float | None, default: float) -> float:
        return default if value is None else value

    temperature = own(sampling.temperature, defaults.temperature)
    predictor_temperature = own(sampling.predictor_temperature, defaults.subtalker_temperature)
    return RowSettings(
        temperature=temperature or 1.0,
        top_k=int(own(sampling.top_k, defaults.top_k)),
        top_p=own(sampling.top_p, defaults.top_p),
        greedy=sampling.greedy or not defaults.do_sample or temperature == 0,
        repetition_penalty=own(sampling.repetition_penalty, defaults.repetition_penalty),
        predictor_temperature=predictor_temperature or 1.0,
        predictor_top_k=int(own(sampling.predictor_top_k, defaults.subtalker_top_k)),
        predictor_top_p=own(sampling.predictor_top_p, defaults.subtalker_top_p),
        predictor_greedy=sampling.greedy or not defaults.subtalker_dosample or predictor_temperature == 0,
    )


class SlotArena:
    """Device state of every slot of one checkpoint.

    Shapes: keys, values: one tensor a layer, [S, kv_heads, T, d]; the rest [S, ...].
    """

    def __init__(self, config: ModelConfig, slots: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        talker = config.talker
        self.slots, self.length, self.pad = slots, length, config.tts_pad_token_id
        self.vocab, self.predictor_vocab = talker.vocab_size, config.predictor.vocab_size
        shape = (slots, talker.num_key_value_heads, length, talker.head_dim)
        layers = range(talker.num_hidden_layers)
        self.keys = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.values = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]

        def ints(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device, dtype=torch.int64)

        def floats() -> Tensor:
            return torch.ones(slots, device=device)

        def bools(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device, dtype=torch.bool)

        self.position = ints(slots)  # where the next frame's input goes
        self.frame = ints(slots)  # frames made
        self.codes = ints(slots, talker.num_code_groups)  # of the last frame
        self.trailing = ints(slots, length)  # text ids beside the coming frames, then padding
        self.seen = bools(slots, talker.vocab_size)  # c0 drawn so far
        self.seed = ints(slots)
        self.penalty = floats()
        self.temperature, self.top_k, self.top_p = floats(), ints(slots), floats()
        self.greedy = bools(slots)
        self.predictor_temperature, self.predictor_top_k, self.predictor_top_p = (
            floats(),
            ints(slots),
            floats(),
        )
        self.predictor_greedy = bools(slots)

        self.generation = [0] * slots
        self._settings: list[RowSettings | None] = [None] * slots
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
        self._settings[slot] = settings
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
        self.temperature[slot] = settings.temperature
        self.top_k[slot] = settings.top_k or self.vocab
        self.top_p[slot] = settings.top_p
        self.greedy[slot] = settings.greedy
        self.predictor_temperature[slot] = settings.predictor_temperature
        self.predictor_top_k[slot] = settings.predictor_top_k or self.predictor_vocab
        self.predictor_top_p[slot] = settings.predictor_top_p
        self.predictor_greedy[slot] = settings.predictor_greedy
        return slot

    def give_back(self, slot: int) -> None:
        """Free a slot. What it held is never read again: the next owner reads only what it has written itself."""
        self.generation[slot] += 1
        self._settings[slot] = None
        self._free.append(slot)

    def talker_level(self, slots: list[int], rows: Tensor) -> LevelSettings:
        """The talker's sampling settings of some rows. Shapes: rows [B] int64, the same as ``slots``."""
        own = self._owned(slots)
        return LevelSettings(
            temperature=self.temperature[rows],
            top_k=self.top_k[rows],
            top_p=self.top_p[rows],
            greedy=self.greedy[rows],
            widest_k=max(settings.top_k or self.vocab for settings in own),
            any_top_p=any(settings.top_p < 1 for settings in own),
        )

    def predictor_level(self, slots: list[int], rows: Tensor) -> LevelSettings:
        """The code predictor's sampling settings of some rows. Shapes: rows [B] int64, the same as ``slots``."""
        own = self._owned(slots)
        return LevelSettings(
            temperature=self.predictor_temperature[rows],
            top_k=self.predictor_top_k[rows],
            top_p=self.predictor_top_p[rows],
            greedy=self.predictor_greedy[rows],
            widest_k=max(settings.predictor_top_k or self.predictor_vocab for settings in own),
            any_top_p=any(settings.predictor_top_p < 1 for settings in own),
        )

    def draws(self, slots: list[int]) -> bool:
        """Whether some row needs noise."""
        return not all(settings.greedy and settings.predictor_greedy for settings in self._owned(slots))

    def _owned(self, slots: list[int]) -> list[RowSettings]:
        return [settings for slot in slots if (settings := self._settings[slot]) is not None]
