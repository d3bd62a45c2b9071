"""The server's messages of ``voicewright.speech.v1``, one function each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE, Finished, ModelCard, Queued, RequestStats, Started
from runtime.server.contexts import Utterance
from runtime.settings import Limits

PROTOCOL = "voicewright.speech.v1"

Reply = dict[str, Any]

BYTES_PER_SAMPLE = 2  # s16le, mono


def card(model: ModelCard) -> Reply:
    """Describe a loaded checkpoint as /v1/models and session.created do."""
    fields = asdict(model)
    return {
        "id": fields.pop("name"),
        "object": "model",
        "owned_by": "voicewright",
        **fields,
        "sample_rate": SAMPLE_RATE,
    }


def session_created(session_id: str, server: str, cards: Sequence[ModelCard], limits: Limits) -> Reply:
    return {
        "type": "session.created",
        "protocol": PROTOCOL,
        "server": server,
        "session_id": session_id,
        "audio": {"encoding": "pcm_s16le", "sample_rate": SAMPLE_RATE, "channels": 1},
        "models": [card(model) for model in cards],
        "limits": asdict(limits),
    }


def queue(context_id: str, event: Queued) -> Reply:
    return {"type": "queue", "context_id": context_id, "position": event.position}


def audio_start(one: Utterance, event: Started) -> Reply:
    return {
        "type": "audio.start",
        "context_id": one.context_id,
        "channel": one.channel,
        "frames": one.voice.config.frames,
        "format": "pcm",
        "sample_rate": SAMPLE_RATE,
        "mode": one.voice.mode.value,
        "model": event.checkpoint,
        "voice": one.voice.config.voice,
        "seed": event.seed,
        "notes": list(event.notes),
    }


def audio_done(one: Utterance, event: Finished) -> Reply:
    return {
        "type": "audio.done",
        "context_id": one.context_id,
        "channel": one.channel,
        "total_bytes": one.total_bytes,
        "total_samples": one.total_bytes // BYTES_PER_SAMPLE,
        "stop_reason": event.stop_reason.value,
        "seed": one.seed,
        "error": False,
        "metrics": metrics(event.stats),
    }


def metrics(stats: RequestStats) -> Reply:
    fields = {**asdict(stats), "rtf": stats.rtf}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in fields.items()}


def context_cancelled(one: Utterance) -> Reply:
    sent_ms = one.sent_bytes // BYTES_PER_SAMPLE * 1000 / SAMPLE_RATE
    return {
        "type": "context.cancelled",
        "context_id": one.context_id,
        "sent_ms": round(sent_ms, 3),
        "played_ms": one.played_ms,
    }


def error(problem: SpeechError, context_id: str | None = None, *, partial_audio: bool = False) -> Reply:
    reply: Reply = {
        "type": "error",
        "message": str(problem),
        "code": problem.code,
        "param": problem.param,
        "retryable": problem.outcome.retryable,
        "context_id": context_id,
    }
    return {**reply, "partial_audio": True} if partial_audio else reply


def pong(t: float | None) -> Reply:
    return {"type": "pong", "t": t}


def session_done(utterances: int) -> Reply:
    return {"type": "session.done", "utterances": utterances}
