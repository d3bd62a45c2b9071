"""Slot cache: device state of a fixed number of slots, and the queue of free slots.

Each slot is one row of the tensors. Writing to a row adds, pauses or removes a sequence. The host has NumPy copies of
some values, so launching a frame neither waits for the device nor loops over rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device.fused import KVView, SamplingState, SlotState
from runtime.engine.execution.sampling import BatchSamplingParams
from runtime.model.config import GenerationDefaults, ModelConfig
from runtime.request import Sampling

UNPINNED_DEVICES = ("cpu", "mps")  # Devices that read host memory directly, so that it need not be pinned.

UNLIMITED_FRAMES = 2**62  # Number that is larger than the number of frames of any request.
MAX_UNSORTED_K = 64  # Maximum top-k for which no sort is used. The published checkpoints use 50.


@dataclass(frozen=True, slots=True)
class NetworkSamplingParams:
    """Sampling settings of one request for one network: the talker or the code predictor.

    Top-k sampling is off if `top_k` is 0.
    """

    temperature: float
    top_k: int
    top_p: float
    greedy: bool


@dataclass(frozen=True, slots=True)
class RequestSamplingParams:
    """All sampling settings of one request, for both the talker and the code predictor."""

    talker: NetworkSamplingParams
    predictor: NetworkSamplingParams
    repetition_penalty: float


@dataclass(slots=True, eq=False)
class SlotInputs:
    """Inputs of a slot: sampling settings, seed and text ids, owned by the slot's sequence."""

    settings: RequestSamplingParams
    seed: int
    # Text ids that are added to the inputs of the next frames. After the last id, padding is added.
    trailing: list[int] = field(default_factory=list)
    bans_eos: bool = False  # True if EOS is banned until the frame whose input is the last text id (tts_eos).
    is_open: bool = False  # True if more text may arrive.
    # True if another checkpoint embeds the inputs (cross_checkpoint_embeddings.py).
    is_cross_embedded: bool = False
    is_written: bool = False  # True if these inputs were copied to device memory.

    @property
    def text_frames(self) -> int:
        """Return the number of frames that may be generated before more text is needed.

        If the text is complete, the number is UNLIMITED_FRAMES. Frame 0 needs only the prompt. A later frame f also
        needs the text id with index f - 1.
        """
        return len(self.trailing) + 1 if self.is_open else UNLIMITED_FRAMES

    @property
    def eos_banned_until(self) -> int:
        """Return the number of frames that must be generated before EOS is allowed.

        With `bans_eos`, EOS is banned until the talker has received all text. Otherwise the number is 0.
        """
        if not self.bans_eos:
            return 0
        return UNLIMITED_FRAMES if self.is_open else len(self.trailing)


def merge_sampling_defaults(sampling: Sampling, defaults: GenerationDefaults) -> RequestSamplingParams:
    """Merge a request's sampling options with the defaults of generation_config.json."""

    def or_default(value: float | None, default: float) -> float:
        return default if value is None else value

    def choice(temperature: float, top_k: float, top_p: float, drawn: bool) -> NetworkSamplingParams:
        greedy = sampling.greedy or not drawn or temperature == 0
        return NetworkSamplingParams(temperature or 1.0, int(top_k), top_p, greedy)

    return RequestSamplingParams(
        talker=choice(
            or_default(sampling.temperature, defaults.temperature),
            or_default(sampling.top_k, defaults.top_k),
            or_default(sampling.top_p, defaults.top_p),
            defaults.do_sample,
        ),
        predictor=choice(
            or_default(sampling.predictor_temperature, defaults.subtalker_temperature),
            or_default(sampling.predictor_top_k, defaults.subtalker_top_k),
            or_default(sampling.predictor_top_p, defaults.subtalker_top_p),
            defaults.subtalker_dosample,
        ),
        repetition_penalty=or_default(sampling.repetition_penalty, defaults.repetition_penalty),
    )


class SamplingParamsCache:
    """Sampling settings of all slots for one network: the talker or the code predictor.

    The settings are stored on the device and on the host.

    Shapes: reals [2, S] float32: temperature, top_p; ints [2, S] int64: top_k, greedy (0 or 1).
    """

    def __init__(self, reals: Tensor, ints: Tensor, vocabulary: int) -> None:
        slots = reals.shape[1]
        self.vocabulary = vocabulary
        self.reals, self.ints = reals, ints
        self.temperature = reals[0]
        self.top_p = reals[1]
        self.top_k = ints[0]
        self.greedy = ints[1]
        self.top_k.fill_(vocabulary)
        self.host_top_k = np.full(slots, vocabulary)
        self.host_top_p = np.ones(slots)
        self.host_greedy = np.zeros(slots, np.bool_)

    def note(self, slot: int, choice: NetworkSamplingParams) -> None:
        """Store the sampling settings of a slot in the host arrays, but not on the device."""
        self.host_top_k[slot] = choice.top_k or self.vocabulary
        self.host_greedy[slot] = choice.greedy
        self.host_top_p[slot] = choice.top_p

    def sampling(self, seed: Tensor, frame: Tensor) -> SamplingState:
        """Return the sampling settings of all slots as views of the device tensors.

        Shapes: seed, frame [S] int64.
        """
        return SamplingState(self.temperature, self.top_k, self.top_p, self.greedy, seed, frame)

    def of(
        self, rows: Tensor, slots: NDArray[np.int64] | None, *, lean: bool = False, plain: bool = False
    ) -> BatchSamplingParams:
        """Return the sampling settings of the slots in a batch.

        Args:
            lean: True to use `apply_top_k_top_p` (sampling.py).
            plain: True if no row needs a sort. This argument is only used with `lean`.

        Shapes: rows [B] int64, slot numbers on the device; slots [B], the same numbers on the host, or None during the
        capture of a graph.
        """
        widest_k = self.vocabulary if slots is None else int(self.host_top_k[slots].max())
        any_top_p = slots is None or bool((self.host_top_p[slots] < 1).any())
        if lean:  # Graphs and eager calls must use the same operators, so their limits are equal.
            widest_k, any_top_p = (min(MAX_UNSORTED_K, self.vocabulary), False) if plain else (self.vocabulary, True)
        return BatchSamplingParams(
            temperature=self.temperature[rows],
            top_k=self.top_k[rows],
            top_p=self.top_p[rows],
            greedy=self.greedy[rows] != 0,
            widest_k=widest_k,
            any_top_p=any_top_p,
            sorts_once=lean,
        )

    def is_plain(self, slots: NDArray[np.int64]) -> bool:
        """True if none of the slots needs a sort for sampling.

        A slot needs a sort if its sampling is not greedy and has a large top-k or a top-p below 1.

        Shapes: slots [B].
        """
        drawn = slots[~self.host_greedy[slots]]
        return bool((self.host_top_k[drawn] <= MAX_UNSORTED_K).all() and (self.host_top_p[drawn] >= 1).all())


def copy_into(into: Tensor, numbers: NDArray[np.int64]) -> None:
    """Copy a NumPy array to a tensor, like `copy_to_device`."""
    host = torch.from_numpy(numbers)
    into.copy_(host if into.device.type in UNPINNED_DEVICES else host.pin_memory(), non_blocking=True)


def copy_to_device(device: torch.device, numbers: NDArray[np.int64]) -> Tensor:
    """Copy a NumPy array to a new tensor on a device.

    The copy is queued on the current stream, and the host does not wait for it.
    """
    host = torch.from_numpy(numbers)
    if device.type in UNPINNED_DEVICES:
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class PromptPrefix:
    """Copied keys and values of a prompt prefix, which is the same in several prompts.

    Shapes: cache [2, layers, kv_heads, positions, d]: keys, then values.
    """

    cache: Tensor

    @property
    def length(self) -> int:
        """Return the length of the prefix in positions."""
        return self.cache.shape[3]


class SlotCache:
    """Device state of all slots of one checkpoint, with host copies of some values.

    There is one scratch slot after the last slot, and one scratch position after each slot's last position. Padding
    rows of a batch and padding positions of a prefill chunk write to them, and no row reads them.

    Args:
        position_grain: The number of positions per slot is rounded up to a multiple of `position_grain`. Positions
            after `length` are not read.
        dtype: Dtype of the keys and values.

    Shapes: keys, values: one tensor per layer, [S + 1, kv_heads, T + 1 or more, d]; all others [S + 1, ...].
    """

    def __init__(
        self,
        config: ModelConfig,
        slots: int,
        length: int,
        device: torch.device,
        dtype: torch.dtype,
        position_grain: int = 1,
    ) -> None:
        talker = config.talker
        self.slots = slots
        self.length = length
        self.pad = config.tts_pad_token_id
        positions = -(-(length + 1) // position_grain) * position_grain
        shape = (slots + 1, talker.num_key_value_heads, positions, talker.head_dim)
        self._cache = torch.empty((2, talker.num_hidden_layers, *shape), device=device, dtype=dtype)
        self.keys = list(self._cache[0])
        self.values = list(self._cache[1])

        # The integers of a slot form one column of this tensor, so that a single copy writes them.
        self._ints = torch.zeros((11, slots + 1), device=device, dtype=torch.int64)
        self._reals = torch.ones((5, slots + 1), device=device)
        self.position = self._ints[0]  # Position of the input of the next frame.
        self.frame = self._ints[1]  # Number of generated frames.
        self.eos_banned_until = self._ints[2]  # Values of `SlotInputs.eos_banned_until`.
        self.seed = self._ints[3]
        self.penalty = self._reals[0]
        self.talker_level = SamplingParamsCache(self._reals[1:3], self._ints[4:6], talker.vocab_size)
        self.predictor_level = SamplingParamsCache(self._reals[3:5], self._ints[6:8], config.predictor.vocab_size)
        # Addresses of the embedding tables of each slot, for fused operations. The first two tables are codebook 0 and
        # text in the talker's hidden size, and the third is codebook 0 in the code predictor's hidden size. The
        # addresses depend on ``is_cross_embedded``.
        self.addresses = self._ints[8:11]
        self.tables: dict[bool, tuple[int, int, int]] = {False: (0, 0, 0), True: (0, 0, 0)}

        def ints(width: int) -> Tensor:
            return torch.zeros((slots + 1, width), device=device, dtype=torch.int64)

        self.codes = ints(talker.num_code_groups)  # Codes of the last frame of each slot.
        # Text ids that are added to the inputs of the next frames. After the last id, padding is added.
        self.trailing = ints(length)
        # True for each code of codebook 0 that the slot's request has sampled.
        self.seen = torch.zeros(slots + 1, talker.vocab_size, device=device, dtype=torch.bool)

        self.host_position = np.zeros(slots, np.int64)  # Copy of ``position`` on the host.
        self.host_frame = np.zeros(slots, np.int64)  # Copy of ``frame`` on the host.
        self.host_cross_embedded = np.zeros(slots, np.bool_)
        self.inputs: dict[int, SlotInputs] = {}  # Inputs of the last sequence in each slot.
        self.free_slots = deque(range(slots))  # Free slots in the order in which they will be used.

    @property
    def cache(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all layers.

        Shapes: [layers, S + 1, kv_heads, T + 1 or more, d] each.
        """
        return self._cache[0], self._cache[1]

    @property
    def state(self) -> SlotState:
        """Return the decoding state of all slots as views of the device tensors."""
        return SlotState(self.position, self.frame, self.codes, self.trailing, self.seen)

    @property
    def levels(self) -> tuple[SamplingParamsCache, SamplingParamsCache]:
        """Return the sampling settings of the talker and of the code predictor."""
        return self.talker_level, self.predictor_level

    def drawing(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the slots that need noise to sample codes, because they are not greedy.

        Shapes: slots, result [B].
        """
        greedy: NDArray[np.bool_] = self.talker_level.host_greedy[slots] & self.predictor_level.host_greedy[slots]
        return ~greedy

    def is_plain(self, slots: NDArray[np.int64]) -> bool:
        """True if no slot needs a sort for top-k or top-p in the talker and the code predictor.

        Shapes: slots [B].
        """
        return all(level.is_plain(slots) for level in self.levels)

    def view(self, layer: int) -> KVView:
        """Return the KV cache of one layer, with all slots."""
        return KVView(self.keys[layer], self.values[layer])

    @property
    def free(self) -> int:
        """Return the number of free slots."""
        return len(self.free_slots)

    def allocate(self, inputs: SlotInputs) -> int:
        """Assign a free slot to a sequence, and return the slot number.

        The inputs are stored on the host only. `write` copies them to the device.
        """
        slot = self.free_slots.popleft()
        self.inputs[slot] = inputs
        self.talker_level.note(slot, inputs.settings.talker)
        self.predictor_level.note(slot, inputs.settings.predictor)
        self.host_cross_embedded[slot] = inputs.is_cross_embedded
        self.host_position[slot] = self.host_frame[slot] = 0
        return slot

    def restart(self, slot: int, trailing: Sequence[int], *, is_open: bool = False, seed: int | None = None) -> None:
        """Restart a slot for the next segment of its sequence, or to generate a segment again.

        The sampling settings are kept. The inputs are not written to the device yet. Call `write` before the first
        frame, but not necessarily before prefill.

        Args:
            trailing: Text ids for the frames of the segment.
            is_open: True if more text of the segment may arrive.
            seed: New seed, or None to keep the seed.
        """
        inputs = self.inputs[slot]
        inputs.trailing = [*trailing]
        inputs.is_open = is_open
        inputs.is_written = False
        if seed is not None:
            inputs.seed = seed
        self.host_position[slot] = self.host_frame[slot] = 0

    def write(self, slots: Iterable[int]) -> None:
        """Copy the inputs of some slots to the device, on its current stream.

        Call this method before the first frame of the slots.
        """
        for slot in slots:
            inputs = self.inputs[slot]
            if inputs.is_written:
                continue
            inputs.is_written = True
            ints, reals = self._numbers_of(inputs)
            text_ids = np.full(self.length, self.pad)
            text_ids[: len(inputs.trailing)] = inputs.trailing[: self.length]
            fresh = copy_to_device(self._ints.device, np.concatenate((text_ids, ints, reals.view(np.int64))))
            self.trailing[slot], numbers = fresh[: self.length], fresh[self.length :]
            self._ints[1:, slot] = numbers[: len(ints)]
            self._reals[:, slot] = numbers[len(ints) :].view(torch.float32)[: len(self._reals)]
            self.codes[slot] = 0
            self.seen[slot] = False

    def append_token_ids(self, slot: int, ids: Sequence[int], *, is_last: bool = False) -> None:
        """Append text ids to the inputs of a slot, for a text that arrives during generation.

        With `is_last`, the last id is tts_eos.
        """
        inputs = self.inputs[slot]
        start = len(inputs.trailing)
        inputs.trailing = [*inputs.trailing, *ids]
        inputs.is_open = not is_last
        if inputs.is_written:
            text_ids = copy_to_device(self.trailing.device, np.array(ids[: max(0, self.length - start)], np.int64))
            self.trailing[slot, start : start + len(text_ids)] = text_ids
            self.eos_banned_until[slot] = inputs.eos_banned_until

    def release(self, slot: int) -> None:
        """Return a slot to the queue of free slots.

        The slot's state is not reset, because a sequence reads only data that it has written. On a CPU, the slot that
        was released last is used first, because the system allocates the memory of a slot when it is first written. On
        other devices, it is used last, because a running frame may still write to it.
        """
        if self._cache.is_cpu:
            self.free_slots.appendleft(slot)
        else:
            self.free_slots.append(slot)

    def prefix_of(self, slot: int, length: int) -> PromptPrefix:
        """Return a copy of the keys and values of a slot's first `length` positions."""
        return PromptPrefix(self._cache[:, :, slot, :, :length].clone())

    def copy_prefix(self, slot: int, prefix: PromptPrefix) -> None:
        """Copy the keys and values of a cached prefix into the first positions of a slot.

        Prefill of the slot then continues at position ``prefix.length``.
        """
        self._cache[:, :, slot, :, : prefix.length] = prefix.cache

    def _numbers_of(self, inputs: SlotInputs) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the integers and the floats of a slot, except its position.

        A zero is appended to the floats, because they are copied as int64 numbers, each of which has two floats.
        """
        settings = inputs.settings
        ints, reals = [0, inputs.eos_banned_until, inputs.seed], [settings.repetition_penalty]
        for level, choice in ((self.talker_level, settings.talker), (self.predictor_level, settings.predictor)):
            ints += [choice.top_k or level.vocabulary, choice.greedy]
            reals += [choice.temperature, choice.top_p]
        ints += self.tables[inputs.is_cross_embedded]
        return np.array(ints, np.int64), np.array([*reals, 0], np.float32)
