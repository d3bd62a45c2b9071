"""Every knob once: its default, its unit, its environment name and what it is for.

Precedence: default, then environment, then command line. Values are checked here and trusted everywhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any, Self, TypeVar

from runtime.errors import InvalidSetting

Group = TypeVar("Group", "Limits", "EngineSettings", "ServerSettings")

DEMO_CHECKPOINT = Path(__file__).resolve().parent.parent / "assets" / "demo-voice"


def knob(default: Any, env: str, about: str, *, low: float | None = None, high: float | None = None) -> Any:
    """Declare a setting: its default, the environment variable behind it, its meaning, its range."""
    return field(default=default, metadata={"env": env, "about": about, "low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client may ask for; echoed to it at the start of a session."""

    max_text_chars: int = knob(4096, "VOICEWRIGHT_MAX_TEXT_CHARS", "characters in one text", low=1)
    max_instruct_chars: int = knob(500, "VOICEWRIGHT_MAX_INSTRUCT_CHARS", "characters in one instruct", low=1)
    max_frames: int = knob(4096, "VOICEWRIGHT_MAX_FRAMES", "frames (80 ms) that a request may ask for", low=1)
    min_reference_s: float = knob(1.0, "VOICEWRIGHT_MIN_REFERENCE_S", "seconds of reference audio, at least", low=0)
    max_reference_s: float = knob(60.0, "VOICEWRIGHT_MAX_REFERENCE_S", "seconds of reference audio, at most", low=1)
    max_contexts: int = knob(8, "VOICEWRIGHT_MAX_CONTEXTS", "utterances in flight on one socket", low=1)
    max_config_bytes: int = knob(
        16 * 2**20,
        "VOICEWRIGHT_MAX_CONFIG_BYTES",
        "bytes of a session.config message (holds the reference audio)",
        low=1024,
    )
    max_message_bytes: int = knob(128 * 2**10, "VOICEWRIGHT_MAX_MESSAGE_BYTES", "bytes of any other message", low=1024)
    config_s: float = knob(10.0, "VOICEWRIGHT_CONFIG_S", "seconds until the first message must have come", low=0.1)
    idle_s: float = knob(120.0, "VOICEWRIGHT_IDLE_S", "seconds of silence on a socket with nothing in flight", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the device is used."""

    device: str = knob("auto", "VOICEWRIGHT_DEVICE", "auto, cpu, cuda or npu")
    dtype: str = knob(
        "auto",
        "VOICEWRIGHT_DTYPE",
        "auto, float32 or bfloat16, of talker and code predictor; auto is float32 on a CPU",
    )
    max_slots: int = knob(
        8, "VOICEWRIGHT_MAX_SLOTS", "requests that speak at the same time, per checkpoint", low=1, high=256
    )
    max_waiting: int = knob(32, "VOICEWRIGHT_MAX_WAITING", "requests that may wait for a slot", low=0)
    max_model_len: int = knob(4096, "VOICEWRIGHT_MAX_MODEL_LEN", "positions (prompt and frames) of one slot", low=64)
    first_chunk_frames: int = knob(1, "VOICEWRIGHT_FIRST_CHUNK_FRAMES", "frames in the first chunk of sound", low=1)
    max_chunk_frames: int = knob(
        16,
        "VOICEWRIGHT_MAX_CHUNK_FRAMES",
        "frames in the largest chunk; chunks double from the first up to here",
        low=1,
    )
    threads: int = knob(0, "VOICEWRIGHT_THREADS", "CPU threads of the networks; 0 leaves it to torch", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where and how the runtime process listens."""

    host: str = knob("127.0.0.1", "VOICEWRIGHT_HOST", "address to listen on")
    port: int = knob(8210, "VOICEWRIGHT_RUNTIME_PORT", "port of the runtime process", low=0, high=65535)
    send_buffer_bytes: int = knob(
        65536,
        "VOICEWRIGHT_SEND_BUFFER_BYTES",
        "kernel send buffer of a socket: sound already out of our hands",
        low=4096,
    )
    ping_s: float = knob(
        20.0,
        "VOICEWRIGHT_PING_S",
        "seconds between WebSocket pings, and until a pong must have come",
        low=0.1,
    )
    send_s: float = knob(
        30.0,
        "VOICEWRIGHT_SEND_S",
        "seconds that a client may take nothing of what it is sent, before it is dropped",
        low=0.1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it. ``models`` holds ``[mode=]PATH_OR_ID`` entries as on the command line."""

    models: tuple[str, ...] = (str(DEMO_CHECKPOINT),)
    limits: Limits = field(default_factory=Limits)
    engine: EngineSettings = field(default_factory=EngineSettings)
    server: ServerSettings = field(default_factory=ServerSettings)

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Self:
        """Read the environment over the defaults.

        Raises:
            InvalidSetting: a variable does not parse or is out of its range.
        """
        env = os.environ if env is None else env
        models = tuple(env.get("VOICEWRIGHT_MODEL", "").split()) or cls().models
        return cls(
            models=models,
            limits=_from_env(Limits, env),
            engine=_from_env(EngineSettings, env),
            server=_from_env(ServerSettings, env),
        )


def override(group: Group, **values: Any) -> Group:
    """Return the group with the given values that are not None, checked.

    Raises:
        InvalidSetting: a value is out of its range.
    """
    return _checked(replace(group, **{name: value for name, value in values.items() if value is not None}))


def _from_env(group: type[Group], env: Mapping[str, str]) -> Group:
    values: dict[str, Any] = {}
    for knob_ in fields(group):
        text = env.get(knob_.metadata["env"])
        if text is None:
            continue
        kind: type = type(knob_.default)
        try:
            values[knob_.name] = kind(text)
        except ValueError:
            why = f"it must be a {kind.__name__}"
            raise InvalidSetting(name=knob_.metadata["env"], value=repr(text), why=why) from None
    return _checked(group(**values))


def _checked(group: Group) -> Group:
    for knob_ in fields(group):
        value, low, high = getattr(group, knob_.name), knob_.metadata["low"], knob_.metadata["high"]
        if isinstance(value, float) and not isfinite(value):
            raise InvalidSetting(name=knob_.name, value=value, why="it must be a finite number")
        if low is not None and value < low:
            raise InvalidSetting(name=knob_.name, value=value, why=f"it must be at least {low}")
        if high is not None and value > high:
            raise InvalidSetting(name=knob_.name, value=value, why=f"it must be at most {high}")
    return group
