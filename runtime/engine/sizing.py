"""Decides how many slots a checkpoint gets: what was asked for, or as many as the device's memory holds."""

from __future__ import annotations

from runtime.device import Device
from runtime.errors import DeviceMemory
from runtime.model.checkpoint import Checkpoint
from runtime.model.code2wav import Code2Wav
from runtime.model.config import ModelConfig
from runtime.settings import EngineSettings

CPU_SLOTS = 8
MOST_SLOTS = 64  # that are taken unasked; more rows at once bring no request its first sound sooner
RESERVE = 2 * 2**30  # bytes for graphs, prompts that are read, voices, and the largest call of Code2Wav
GRAPHS = RESERVE // 2  # of that, what stays taken once a checkpoint is at work
GIB = 2**30


def slot_bytes(config: ModelConfig, code2wav: Code2Wav, length: int, element: int) -> int:
    """What one slot takes on the device: keys and values, the rest of its slot cache, its Code2Wav stream.

    Args:
        length: positions of a slot.
        element: bytes of a number in talker and code predictor.
    """
    talker, predictor = config.talker, config.predictor
    keys = 2 * talker.num_hidden_layers * talker.num_key_value_heads * (length + 1) * talker.head_dim
    inner = (
        2 * predictor.num_hidden_layers * predictor.num_key_value_heads * talker.num_code_groups * predictor.head_dim
    )
    row = 8 * length + talker.vocab_size
    sound = code2wav.fresh_state(1)
    return (keys + inner + talker.hidden_size) * element + row + sum(part.nbytes for part in sound.tensors())


def slots_for(
    checkpoint: Checkpoint,
    device: Device,
    settings: EngineSettings,
    length: int,
    element: int,
    to_come: int = 1,
    kept_bytes: int = 0,
) -> int:
    """Slots of a checkpoint whose weights are on the device.

    Where several checkpoints share a card, each takes its share of what is left when it comes: of two the first takes
    half of what the second's weights leave, the second what is left then.

    Args:
        length, element: as for `slot_bytes`.
        to_come: checkpoints, with this one, that have no slots yet.
        kept_bytes: what the others of those are expected to take before they have slots; one is taken all the same.

    Raises:
        DeviceMemory: there is not room for as many as were asked for, or not even for one.
    """
    if device.torch_device.type == "cpu":
        return settings.max_slots or CPU_SLOTS
    free, total = device.free_bytes(), device.total_bytes()
    left = free - (1 - settings.memory_share) * total - RESERVE
    each = slot_bytes(checkpoint.config, checkpoint.speech_tokenizer.code2wav, length, element)
    wanted = settings.max_slots or 1
    if left < wanted * each:
        raise DeviceMemory(
            slots=wanted,
            need=round(wanted * each / GIB, 2),
            free=round(free / GIB, 2),
            kept=round((1 - settings.memory_share) * total / GIB, 2),
            reserve=round(RESERVE / GIB, 2),
        )
    return settings.max_slots or max(1, min(MOST_SLOTS, int((left - kept_bytes) / to_come // each)))
