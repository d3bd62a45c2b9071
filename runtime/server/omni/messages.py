"""Server messages of vLLM-Omni's API.

The fields ``code``, ``retryable`` and ``metrics`` are extensions to vLLM-Omni's API.
"""

from __future__ import annotations

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE
from runtime.server.descriptions import metrics
from runtime.server.omni.sentence_queue import Sentence, Turn
from runtime.server.wire import Reply


def audio_start(sentence: Sentence) -> Reply:
    reply: Reply = {
        "type": "audio.start",
        "utterance_index": sentence.turn.index,
        "sentence_index": sentence.index,
        "sentence_text": sentence.shown,
        "format": sentence.voice.config.response_format,
    }
    return {**reply, "sample_rate": SAMPLE_RATE, "channels": 1} if sentence.is_streamed else reply


def audio_done(sentence: Sentence) -> Reply:
    reply: Reply = {
        "type": "audio.done",
        "utterance_index": sentence.turn.index,
        "sentence_index": sentence.index,
        "total_bytes": sentence.sent_bytes,
        "error": sentence.error is not None,
    }
    if sentence.finished is None:
        return reply
    figures = metrics(sentence.finished.stats)
    return {
        **reply,
        "metrics": {**figures, "stop_reason": sentence.finished.stop_reason.value, "seed": sentence.turn.seed},
        "notes": sentence.notes,
    }


def session_done(turn: Turn) -> Reply:
    return {"type": "session.done", "utterance_index": turn.index, "total_sentences": turn.fragments or turn.sentences}


def input_committed(commit_id: str | None, index: int, chars: int) -> Reply:
    return {"type": "input.committed", "commit_id": commit_id, "sentence_index": index, "chars_committed": chars}


def error(text: str, problem: SpeechError, *, partial_audio: bool = False) -> Reply:
    reply: Reply = {"type": "error", "message": text, "code": problem.code, "retryable": problem.retryable}
    return {**reply, "partial_audio": True, "action": "discard"} if partial_audio else reply


def failure(sentence: Sentence, problem: SpeechError) -> Reply:
    """Return the error message for a sentence that could not be spoken.

    Clients that receive this message discard the sentence's audio.
    """
    text = f"Generation failed for utterance {sentence.turn.index}, sentence {sentence.index}: {problem}"
    return error(text, problem, partial_audio=sentence.sent_bytes > 0)
