"""The arena: a fixed number of slots whose whole state lies in device tensors, and who owns which.

Joining, pausing and leaving are writes to a row. A slot's generation goes up when it is freed, so that whoever still
holds its number can tell that it has changed hands. What the host must know of many rows at once lies in numpy arrays
beside the tensors, so that no frame asks the device and none walks over its rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device.fused import Level
from runtime.engine.sampling import LevelSettings
from runtime.model.config import GenerationDefaults, ModelConfig
from runtime.request import Sampling

UNLIMITED = 2**62  # frames, where nothing ends them


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
        self.host_top_k = np.full(slots, vocabulary)
        self.host_top_p = np.ones(slots)
        self.host_greedy = np.zeros(slots, np.bool_)

    def write(self, slot: int, choice: LevelChoice) -> None:
        """Give a slot its settings."""
        self.temperature[slot] = choice.temperature
        self.top_k[slot] = self.host_top_k[slot] = choice.top_k or self.vocabulary
        self.top_p[slot] = self.host_top_p[slot] = choice.top_p
        self.greedy[slot] = self.host_greedy[slot] = choice.greedy

    @property
    def every(self) -> Level:
        """The settings of every slot, where they lie."""
        return Level(self.temperature, self.top_k, self.top_p, self.greedy)

    def of(self, rows: Tensor, slots: NDArray[np.int64] | None) -> LevelSettings:
        """The settings of some rows.

        Shapes: rows [B] int64; slots [B], the same on the host, or None where the host shall decide nothing by them.
        """
        return LevelSettings(
            temperature=self.temperature[rows],
            top_k=self.top_k[rows],
            top_p=self.top_p[rows],
            greedy=self.greedy[rows],
            widest_k=self.vocabulary if slots is None else int(self.host_top_k[slots].max()),
            any_top_p=slots is None or bool((self.host_top_p[slots] < 1).any()),
        )

    def draws(self, slots: NDArray[np.int64]) -> bool:
        """Whether some row needs noise. Shapes: slots [B]."""
        return not self.host_greedy[slots].all()


def ids_on(device: torch.device, ids: Sequence[int]) -> Tensor:
    """Ids on a device, copied on its current track without waiting for what was asked of it before."""
    host = torch.tensor(ids, dtype=torch.int64, pin_memory=device.type != "cpu")
    return host.to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class PromptPrefix:
    """What the first positions of a prompt left in a slot; other prompts that begin alike may begin with it.

    Shapes: keys, values [layers, kv_heads, positions, d].
    """

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        """Positions."""
        return self.keys.shape[2]


class SlotArena:
    """Device state of every slot of one checkpoint, and what the host knows of it.

    Behind the last slot and behind each slot's last position there is one more that nobody reads: rows that fill a
    batch up, and positions that fill a prompt's piece up, are written there.

    Shapes: keys, values: one tensor a layer, [S + 1, kv_heads, T + 1, d]; the rest [S + 1, ...].
    """

    def __init__(self, config: ModelConfig, slots: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        talker = config.talker
        self.slots, self.length, self.pad = slots, length, config.tts_pad_token_id
        shape = (slots + 1, talker.num_key_value_heads, length + 1, talker.head_dim)
        layers = range(talker.num_hidden_layers)
        self.keys = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.values = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]

        def ints(*shape: int) -> Tensor:
            return torch.zeros((slots + 1, *shape), device=device, dtype=torch.int64)

        self.position = ints()  # where the next frame's input goes
        self.frame = ints()  # frames made
        self.codes = ints(talker.num_code_groups)  # of the last frame
        self.trailing = ints(length)  # text ids beside the coming frames, then padding
        self.hold_until = ints()  # frames before the end may come
        self.seen = torch.zeros(slots + 1, talker.vocab_size, device=device, dtype=torch.bool)  # c0 drawn so far
        self.seed = ints()
        self.penalty = torch.ones(slots + 1, device=device)
        self.talker_level = LevelArena(slots + 1, talker.vocab_size, device)
        self.predictor_level = LevelArena(slots + 1, config.predictor.vocab_size, device)

        # On the host: as ``position`` and ``frame``, and how many frames a row may make with the text it has.
        self.host_position = np.zeros(slots, np.int64)
        self.host_frame = np.zeros(slots, np.int64)
        self.text_frames = np.full(slots, UNLIMITED)
        self._texts = [0] * slots  # ids in ``trailing``
        self._open = [False] * slots
        self._holds_end = [False] * slots

        self.generation = [0] * slots
        # Who was freed first is taken first: a frame that is still under way may write to who was freed last.
        self._free = deque(range(slots))

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return len(self._free)

    @property
    def next_free(self) -> int:
        """The slot that `take` gives out next; there must be a free one."""
        return self._free[0]

    def take(
        self,
        settings: RowSettings,
        seed: int,
        trailing: Sequence[int],
        *,
        holds_end: bool = False,
        is_open: bool = False,
    ) -> int:
        """Give a slot to a request and write its settings; there must be a free one.

        Args:
            trailing: text ids that follow one a frame; past the slot's length no frame can reach them.
            holds_end: the end may not come before the frame that is fed the last of them (tts_eos).
            is_open: more of them may come.
        """
        slot = self._free.popleft()
        self.seed[slot] = seed
        self.penalty[slot] = settings.repetition_penalty
        self.talker_level.write(slot, settings.talker)
        self.predictor_level.write(slot, settings.predictor)
        self._holds_end[slot] = holds_end
        self.restart(slot, trailing, is_open=is_open)
        return slot

    def restart(self, slot: int, trailing: Sequence[int], *, is_open: bool = False) -> None:
        """Begin anew in the same hands: the same settings and seed, for the next part of a text."""
        self.position[slot] = self.host_position[slot] = 0
        self.frame[slot] = self.host_frame[slot] = 0
        self.codes[slot] = 0
        self.seen[slot] = False
        self.trailing[slot] = self.pad
        self._texts[slot], self._open[slot] = 0, is_open
        self.append_text(slot, trailing)

    def append_text(self, slot: int, ids: Sequence[int]) -> None:
        """More text ids of an open text, beside the frames after those that have some."""
        start = self._texts[slot]
        self._texts[slot] += len(ids)
        beside = ids_on(self.trailing.device, ids[: max(0, self.length - start)])
        self.trailing[slot, start : start + len(beside)] = beside
        self._tell_text(slot)

    def close_text(self, slot: int) -> None:
        """No more text comes; the last id was tts_eos."""
        self._open[slot] = False
        self._tell_text(slot)

    def give_back(self, slot: int) -> None:
        """Free a slot. What it held is never read again: the next owner reads only what it has written itself."""
        self.generation[slot] += 1
        self._free.append(slot)

    def prefix_of(self, slot: int, length: int) -> PromptPrefix:
        """A copy of what the first ``length`` positions of a slot's prompt left, whole pieces of it."""
        keys, values = (
            torch.stack([layer[slot, :, :length] for layer in layers]) for layers in (self.keys, self.values)
        )
        return PromptPrefix(keys, values)

    def copy_prefix(self, slot: int, prefix: PromptPrefix) -> None:
        """Let a slot begin as another did; its prompt is read from ``prefix.length`` on."""
        for layer, (keys, values) in enumerate(zip(prefix.keys, prefix.values, strict=True)):
            self.keys[layer][slot, :, : prefix.length] = keys
            self.values[layer][slot, :, : prefix.length] = values

    def _tell_text(self, slot: int) -> None:
        """Frame 0 comes of the prompt, and frame f is fed id f - 1."""
        texts, is_open = self._texts[slot], self._open[slot]
        self.text_frames[slot] = texts + 1 if is_open else UNLIMITED
        if self._holds_end[slot]:
            self.hold_until[slot] = UNLIMITED if is_open else texts
        else:
            self.hold_until[slot] = 0
