"""Loader of checkpoints, which reads weights, divides the memory and creates engine cores."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from threading import Thread, get_native_id

import numpy as np
import torch

from runtime.device import Device
from runtime.device.cpu import ThreadCounts, are_small_networks, choose_threads
from runtime.device.host_memory import release_unused_memory
from runtime.device.huge_pages import move_to_huge_pages
from runtime.device.interface import Stream
from runtime.device.open_device import choose_code2wav_dtype
from runtime.engine.capacity.memory import GIB, GRAPH_BYTES, slot_bytes, slots_for
from runtime.engine.capacity.weights import WeightsSelector
from runtime.engine.core import EngineCore
from runtime.engine.execution.prompt import PromptInputs
from runtime.engine.execution.slots import SlotInputs, merge_sampling_defaults
from runtime.engine.loading.registry import Registry, RegistryEntry
from runtime.engine.scheduling.waiting_queue import WaitingQueue
from runtime.errors import SetUpError
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.model.checkpoints.weights import read_headers
from runtime.request import Mode, Sampling
from runtime.settings import Settings

log = logging.getLogger(__name__)

LOADER_NICE = 10  # Nice value of the huge pages thread, which must not delay frames and audio.
HUGE_PAGES_THREAD = "huge pages"  # Name of the thread that moves loaded weights to huge pages.

OnStep = Callable[[str], None]  # Function that receives the name of the current step.
# Factory of engine cores. Arguments: checkpoint, slots, positions per slot, waiting queue.
NewCore = Callable[[Checkpoint, int, int, WaitingQueue], EngineCore]


class CheckpointLoader:
    """Loader of the checkpoints in a registry.

    Thread: the caller's thread.
    """

    def __init__(self, registry: Registry, device: Device, settings: Settings, new_core: NewCore) -> None:
        self._bits = WeightsSelector(settings.engine, device)
        self._registry = registry
        self._device = device
        self._settings = settings.engine
        self._new_core = new_core
        for entry in registry.entries:
            entry.quantization = self._bits.known
            entry.dtype = self._bits.with_quantization(entry.config, None)[0]

    def load(self, entry: RegistryEntry, on_step: OnStep = lambda step: None) -> None:
        """Load the weights of a checkpoint, and start to serve the checkpoint's modes.

        Loading takes seconds to minutes.

        Args:
            on_step: Called with the name of each step.

        Raises:
            SetUpError: The checkpoint cannot be used.
        """
        device = self._device
        device.enter_thread()
        others = self._registry.checkpoints
        types = {header.dtype for header in read_headers(entry.source.weights).values()}
        dtype, entry.quantization = weights = self._bits.choose(entry.config, entry.name, types)
        entry.dtype = dtype
        code2wav_dtype = choose_code2wav_dtype(self._settings.sound_dtype, device, *weights)
        before = device.free_bytes()
        checkpoint = load_checkpoint(
            entry.source, device.torch_device, dtype, others, entry.quantization, code2wav_dtype
        )
        release_unused_memory()  # Release the temporary memory of quantization and packing.
        self.create_core(entry, checkpoint, on_step, before)
        # The thread starts after the warm-up, so that it does not slow the warm-up down.
        if device.name == "cpu" and not are_small_networks([checkpoint.talker]):
            Thread(target=_gather, args=(entry.name,), name=HUGE_PAGES_THREAD, daemon=True).start()

    def create_core(
        self,
        entry: RegistryEntry,
        checkpoint: Checkpoint,
        on_step: OnStep = lambda step: None,
        before: int | None = None,
    ) -> None:
        """Create the engine core of a loaded checkpoint, and start to serve its modes.

        Args:
            on_step: Called with the name of each step.
            before: Free device memory in bytes before the weights were loaded, or None to reserve no memory for later
                checkpoints.

        Raises:
            DeviceMemory: There is not enough device memory for the slots.
        """
        device, dtype = self._device, checkpoint.talker.dtype
        if device.fused(dtype) is not None and checkpoint.talker.tables is None:
            # The embedding tables must be allocated before the remaining memory is divided into slots.
            checkpoint.talker.tabulate()
        length = min(self._settings.max_model_len, checkpoint.config.talker.max_position_embeddings)
        later = [other for other in self._registry.entries if other.core is None and other is not entry]
        free, total = device.free_bytes(), device.total_bytes()
        reserved_bytes = 0 if before is None else _expected_bytes(later, entry, max(0, before - free))
        code2wav = checkpoint.speech_tokenizer.code2wav
        slot = slot_bytes(checkpoint.config, code2wav, self._settings, dtype.itemsize)
        slots = slots_for(device, self._settings, slot, 1 + len(later), reserved_bytes)
        on_step(f"{entry.name}: {slots} slots of {length} positions")
        core = self._new_core(checkpoint, slots, length, entry.waiting)
        # This thread waits until the weights are ready. Device streams that use the weights do not wait for this
        # thread's stream.
        device.record_event().synchronize()
        self.prepare_thread(checkpoint)
        warm_up(core, on_step)
        free_after = device.free_bytes()
        log.info(
            "%s: %d slots; %.2f GiB of memory, %.2f free after the weights, %.2f allocated, %.2f left",
            *(entry.name, slots, *(count / GIB for count in (total, free, free - free_after, free_after))),
        )
        self._share_voices(entry, core)
        entry.core = core  # The checkpoint serves requests after this assignment.

    def _share_voices(self, entry: RegistryEntry, core: EngineCore) -> None:
        """Let CustomVoice checkpoints use the voice encoder of a loaded Base checkpoint."""
        registry = self._registry
        for other in registry.entries:
            reader = registry.reader(other)
            if reader is None or reader is other:
                continue
            speaker, embedding_source = (core if each is entry else each.core for each in (other, reader))
            if speaker is not None and embedding_source is not None:
                speaker.share_voice_cache_of(embedding_source, may_cross_embed=registry.may_cross_embed(other))

    def prepare_thread(self, *coming: Checkpoint) -> None:
        """Prepare the calling thread: set its device and its number of OpenMP threads.

        Args:
            coming: Checkpoints that are loaded, but not served yet.
        """
        self._enter(self._threads(coming).frames)

    def prepare_code2wav_thread(self) -> None:
        """Prepare a calling thread that runs Code2Wav: set its device and its OpenMP threads."""
        self._enter(self._threads(()).sound)

    def _threads(self, coming: Sequence[Checkpoint]) -> ThreadCounts:
        if self._settings.threads:
            return ThreadCounts(self._settings.threads, self._settings.threads)
        return choose_threads([checkpoint.talker for checkpoint in (*self._registry.checkpoints, *coming)])

    def _enter(self, threads: int) -> None:
        self._device.enter_thread()
        torch.set_num_threads(threads)


def _expected_bytes(later: Sequence[RegistryEntry], loaded: RegistryEntry, taken: int) -> int:
    """Estimate the memory of checkpoints that will be loaded later, without slots.

    The estimate uses the memory and the file size of a loaded checkpoint.

    Args:
        taken: Bytes of memory that `loaded` takes.
    """
    size = _file_bytes(loaded)
    return sum(round(taken * _file_bytes(other) / size) + GRAPH_BYTES for other in later) if size else 0


def _file_bytes(entry: RegistryEntry) -> int:
    """Return the size of a checkpoint's weight files in bytes.

    Returns:
        0 if files are missing, which loading reports later.
    """
    try:
        return sum(path.stat().st_size for path in entry.source.weights)
    except (SetUpError, OSError):
        return 0


def _gather(name: str) -> None:
    """Move the loaded weights to huge pages.

    The move takes seconds, during which requests can be served.
    """
    if sys.platform == "linux":  # Only Linux has a separate nice value for each thread.
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LOADER_NICE)
    log.info("%s: %d MiB of this process are in huge pages", name, move_to_huge_pages() // 2**20)


def warm_up(core: EngineCore, on_step: Callable[[str], None]) -> None:
    """Capture the graphs of a core, and run each kind of work once.

    Without the warm-up, one-time costs would delay the first request.

    Args:
        on_step: Called with a description of each step, to show the progress.
    """
    name, runner, streams = core.checkpoint.name, core.runner, core.code2wav_streams
    try:
        if core.device.holds_graphs:
            on_step(f"compiling kernels of {name}")
            core.device.precompile(
                [*runner.warmup_functions(), *streams.graphs.warmup_functions(), *streams.after.warmup_functions()]
            )
        runner.capture(lambda done, of: on_step(f"capturing graphs of {name}: {done} of {of}"))
        streams.capture(lambda done, of: on_step(f"capturing audio graphs of {name}: {done} of {of}"))
    except Exception:
        log.exception("some graphs of %s could not be captured; these shapes run eagerly", name)
    _run_once(core)


def _run_once(core: EngineCore) -> None:
    """Run each kind of work once, because one-time costs would delay the first request."""
    slot_cache, config = core.runner.slot_cache, core.checkpoint.config
    speaker = next(iter(config.talker.spk_id), None)
    prompt_inputs = PromptInputs("A", Mode.CUSTOM_VOICE, config.layouts[0], "auto", speaker)
    slot, read, first = (
        slot_cache.allocate(SlotInputs(merge_sampling_defaults(Sampling(), config.generation), 0)),
        0,
        None,
    )
    with core.runner.prompt_stream(slot):
        prompt = core.segment_runner.embed_prompt(prompt_inputs)
        slot_cache.restart(slot, prompt.trailing)
    while first is None:
        read, first = core.runner.prefill(slot, prompt, read)
    first.result()
    core.runner.step(np.array([slot])).result()
    max_chunk_frames = min(core.scheduler.sound_work, max(mode.max_chunk_frames for mode in core.modes.values()))
    # Devices without asynchronous execution use the same stream for first audio and later audio.
    has_streams = core.device.max_in_flight > 0
    streams = (Stream.FIRST_AUDIO, Stream.AUDIO) if has_streams else (Stream.AUDIO,)
    for stream in streams:
        with core.device.stream(stream):
            core.code2wav_streams.open(slot)
            size = 1
            while size <= max_chunk_frames:
                codes = torch.zeros((1, size, config.talker.num_code_groups), dtype=torch.int64)
                core.code2wav_streams.decode([slot], codes, stream)
                size *= 2
    slot_cache.release(slot)
    core.voice_cache.warm()
