"""Milliseconds a frame of the engine's parts by batch size, without sockets."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from runtime.engine.engine import Engine
from runtime.engine.intake import admit
from runtime.engine.prompt import Prompt, build_prompt
from runtime.engine.runner import FrameRunner
from runtime.engine.station import Station
from runtime.request import Mode, SpeechRequest
from runtime.settings import Settings, override

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one."
WARM_UP, COUNTED = 5, 30  # frames


def measure_engine(settings: Settings, batches: tuple[int, ...]) -> list[dict[str, Any]]:
    """Time frames and Code2Wav for each batch size; medians, and the 95th percentile of a frame."""
    sized = replace(settings, engine=override(settings.engine, max_slots=max(batches)))
    engine = Engine.open(sized)
    station = engine.registry.stations[0]
    mode = engine.cards[0].modes[0]
    return [_one(station, mode, sized, batch) for batch in batches]


@torch.inference_mode()
def _one(station: Station, mode: Mode, settings: Settings, batch: int) -> dict[str, Any]:
    runner, streams, checkpoint = station.runner, station.streams, station.checkpoint
    request = SpeechRequest(text=TEXT, mode=mode if mode is not Mode.BASE else Mode.VOICE_DESIGN)
    admission, feed = admit(request, checkpoint, settings.limits, station.length)
    plan = admission.plan(feed.text, checkpoint.text_tokenizer)
    slots, prefills = [], []
    for row in range(batch):
        prompt = build_prompt(plan.utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)
        slot = runner.arena.take(admission.settings, row, prompt.trailing)
        streams.open(slot)
        slots.append(slot)
        prefills.append(timed(lambda slot=slot, prompt=prompt: _read(runner, slot, prompt)))
    frames, sounds = [], []
    codes = torch.zeros((batch, 1, checkpoint.config.talker.num_code_groups), dtype=torch.int64)
    for _ in range(WARM_UP + COUNTED):
        frames.append(timed(lambda: runner.step(np.array(slots))))
        sounds.append(timed(lambda: streams.decode(slots, codes)))
    for slot in slots:
        runner.arena.give_back(slot)
    counted = sorted(frames[WARM_UP:])
    frame, sound = statistics.median(counted), statistics.median(sounds[WARM_UP:])
    return {
        "batch": batch,
        "prefill_ms": round(statistics.median(prefills), 2),
        "frame_ms": round(frame, 2),
        "frame_p95_ms": round(counted[math.ceil(0.95 * len(counted)) - 1], 2),
        "code2wav_1_frame_ms": round(sound, 2),
        "rtf_of_one_stream": round((frame + sound) / (1000 * station.frame_s), 3),
        "audio_s_per_s": round(batch * 1000 * station.frame_s / (frame + sound), 1),
    }


def _read(runner: FrameRunner, slot: int, prompt: Prompt) -> None:
    start, result = 0, None
    while result is None:
        start, result = runner.prefill(slot, prompt, start)


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)
