"""Valid messages and bodies of every API, which fuzzing and tests change randomly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.server.cartesia import schema as cartesia
from runtime.server.elevenlabs import schema as elevenlabs
from runtime.server.native import schema as native
from runtime.server.omni import schema as omni
from runtime.server.openai import schema as openai
from runtime.server.wyoming import schema as wyoming
from runtime.settings import Limits
from tests.unit.server import dialects
from tests.unit.server.dialects import DialectDriver

LIMITS = Limits()
CARTESIA: dict[str, Any] = {
    "context_id": "a", "model_id": "sonic-2", "transcript": "Hello there.", "continue": True, "language": "en",
    "voice": {"mode": "id", "id": "anna"}, "add_timestamps": True, "duration": 1.5, "max_buffer_delay_ms": 100,
    "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}, "flush": False,
    "generation_config": {"speed": 1.0, "volume": 1.0, "emotion": "happy"},
}  # fmt: skip
ELEVENLABS: dict[str, Any] = {
    "text": "Hello there. ", "context_id": "a", "flush": True, "try_trigger_generation": True,
    "voice_settings": {"stability": 0.5, "speed": 1.1}, "generation_config": {"chunk_length_schedule": [50, 120]},
    "pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "x", "version_id": "y"}],
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "type": "session.config", "voice": "anna", "language": "english", "instructions": "Slowly.", "seed": 7,
    "task_type": "base", "ref_audio": "data:audio/wav;base64,AAAA", "ref_text": "Words.", "response_format": "pcm",
    "stream_audio": True, "split_granularity": "sentence", "streaming_mode": "token_level", "max_new_tokens": 50,
    "temperature": 0.9, "top_p": 0.8, "speed": 1.0,
}  # fmt: skip
OMNI = [CONFIG, {"type": "input.text", "text": "Hello there."}, {"type": "input.commit"}, {"type": "input.done"}]
WYOMING = [
    {"type": "describe", "data": {}},
    {"type": "ping", "data": {"text": "x"}},
    {"type": "synthesize", "data": {"text": "Hello there.", "voice": {"name": "anna", "language": "en"}}},
    {"type": "synthesize-start", "data": {"voice": {"name": "anna"}, "text_format": "text"}},
    {"type": "synthesize-chunk", "data": {"text": "Hello."}},
    {"type": "synthesize-stop", "data": {}},
]
SESSIONS: dict[str, tuple[Callable[[], DialectDriver], list[dict[str, Any]]]] = {
    "omni": (dialects.omni, OMNI),
    "cartesia": (
        dialects.cartesia,
        [CARTESIA, {"context_id": "a", "cancel": True}, {"context_id": "a", "flush": True}],
    ),
    "elevenlabs": (
        dialects.elevenlabs,
        [{**ELEVENLABS, "text": " "}, ELEVENLABS, {"context_id": "a", "close_context": True}, {"close_socket": True}],
    ),
    "elevenlabs of one": (lambda: dialects.elevenlabs(is_multi=False), [{"text": " "}, ELEVENLABS, {"text": ""}]),
    "wyoming": (dialects.wyoming, WYOMING),
}

SPEECH: dict[str, Any] = {
    "model": "tts-1", "input": "Hello there.", "voice": "anna", "response_format": "mp3", "speed": 1.0, "stream": True,
    "stream_format": "sse", "instructions": "Slowly.", "language": "english", "max_frames": 9, "seed": 3,
    "sample_rate": 8000, "tags": True, "pronunciations": [{"word": "a", "spoken": "b"}], "text_filter": "markdown",
}  # fmt: skip
BODIES: dict[str, tuple[Callable[[dict[str, Any]], object], dict[str, Any]]] = {
    "native": (native.parse, CONFIG),
    "omni": (lambda fields: omni.read_config(fields, LIMITS), CONFIG),
    "openai": (openai.read_speech, SPEECH),
    "openai, batch": (lambda fields: openai.read_batch(fields, 32), {"items": [SPEECH], **SPEECH}),
    "cartesia": (lambda fields: cartesia.read(cartesia.BytesBody, fields, LIMITS), CARTESIA),
    "cartesia, events": (lambda fields: cartesia.read(cartesia.SseBody, fields, LIMITS), CARTESIA),
    "elevenlabs": (lambda fields: elevenlabs.read(elevenlabs.TextToSpeechBody, fields, LIMITS), ELEVENLABS),
    "wyoming": (wyoming.read, WYOMING[2]),
}
