"""Warm-up of an engine core: graph capture, and one run of every path."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import torch

from runtime.device.interface import Stream
from runtime.engine.core import EngineCore
from runtime.engine.prompt import PromptInputs
from runtime.engine.slots import SlotInputs, fill_in
from runtime.request import Mode, Sampling

log = logging.getLogger(__name__)


def warm_up(core: EngineCore, tell: Callable[[str], None]) -> None:
    """Capture what the device can hold as graphs, and run everything once; ``tell`` hears how far that is."""
    name, runner, streams = core.checkpoint.name, core.runner, core.code2wav_streams
    try:
        if core.device.holds_graphs:
            tell(f"compiling kernels of {name}")
            core.device.precompile([*runner.works(), *streams.graphs.works(), *streams.after.works()])
        runner.capture(lambda done, of: tell(f"capturing graphs of {name}: {done} of {of}"))
        streams.capture(lambda done, of: tell(f"capturing sound of {name}: {done} of {of}"))
    except Exception:
        log.exception("graphs of %s could not be captured; what has none is run eagerly", name)
    _run_once(core)


def _run_once(core: EngineCore) -> None:
    """Run what requests run, so that the first of them does not pay for what is only slow at first."""
    slot_cache, config = core.runner.slot_cache, core.checkpoint.config
    speaker = next(iter(config.talker.spk_id), None)
    prompt_inputs = PromptInputs("A", Mode.CUSTOM_VOICE, config.layouts[0], "auto", speaker)
    slot, read, first = slot_cache.take(SlotInputs(fill_in(Sampling(), config.generation), 0)), 0, None
    with core.runner.starting(slot):
        prompt = core.parts.embedded(prompt_inputs)
        slot_cache.restart(slot, prompt.trailing)
    while first is None:
        read, first = core.runner.prefill(slot, prompt, read)
    first.result()
    core.runner.step(np.array([slot])).result()
    longest = min(core.scheduler.sound_work, max(mode.max_chunk_frames for mode in core.modes.values()))
    has_streams = core.device.max_in_flight > 0  # Otherwise both streams are the same.
    streams = (Stream.FIRST_SOUND, Stream.SOUND) if has_streams else (Stream.SOUND,)
    for stream in streams:
        with core.device.stream(stream):
            core.code2wav_streams.open(slot)
            size = 1
            while size <= longest:
                codes = torch.zeros((1, size, config.talker.num_code_groups), dtype=torch.int64)
                core.code2wav_streams.decode([slot], codes, stream)
                size *= 2
    slot_cache.give_back(slot)
    core.voice_cache.warm()
