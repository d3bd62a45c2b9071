"""Makes the server's messages of vLLM-Omni's dialect. ``code``, ``retryable`` and ``metrics`` are ours."""

from __future__ import annotations

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE
from runtime.server.native.replies import Reply, end_notes, metrics
from runtime.server.omni.sentence_queue import Sentence, Turn


def audio_start(one: Sentence) -> Reply:
    reply: Reply = {
        "type": "audio.start",
        "utterance_index": one.turn.index,
        "sentence_index": one.index,
        "sentence_text": one.shown or one.text,
        "format": one.turn.voice.config.response_format,
    }
    return {**reply, "sample_rate": SAMPLE_RATE, "channels": 1} if one.is_streamed else reply


def audio_done(one: Sentence) -> Reply:
    reply: Reply = {
        "type": "audio.done",
        "utterance_index": one.turn.index,
        "sentence_index": one.index,
        "total_bytes": one.sent_bytes,
        "error": one.error is not None,
    }
    if one.finished is None:
        return reply
    figures = metrics(one.finished.stats)
    return {
        **reply,
        "metrics": {**figures, "stop_reason": one.finished.stop_reason.value, "seed": one.turn.seed},
        "notes": end_notes(one.finished),
    }


def session_done(turn: Turn) -> Reply:
    return {"type": "session.done", "utterance_index": turn.index, "total_sentences": turn.fragments or turn.sentences}


def input_committed(commit_id: str | None, index: int, chars: int) -> Reply:
    return {"type": "input.committed", "commit_id": commit_id, "sentence_index": index, "chars_committed": chars}


def error(text: str, problem: SpeechError, *, partial_audio: bool = False) -> Reply:
    reply: Reply = {"type": "error", "message": text, "code": problem.code, "retryable": problem.retryable}
    return {**reply, "partial_audio": True, "action": "discard"} if partial_audio else reply


def failure(one: Sentence, problem: SpeechError) -> Reply:
    """Say that a sentence failed, and whether what was heard of it is to be thrown away."""
    text = f"Generation failed for utterance {one.turn.index}, sentence {one.index}: {problem}"
    return error(text, problem, partial_audio=one.sent_bytes > 0)
