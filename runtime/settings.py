"""Settings of the runtime with default, unit, environment variable and description.

Environment variables override defaults, and the command line overrides environment variables. Only this module
validates values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from runtime.errors import InvalidSetting
from runtime.request import Mode
from runtime.setting_fields import group_as_env, group_from_env, setting
from runtime.shipped import shipped

DEMO_CHECKPOINT = shipped("runtime", "assets/demo-voice")

FORM_BYTES = 64 * 2**10  # Maximum number of bytes of all fields of a form except the file.

MODEL = "VOICEWRIGHT_MODEL"  # Environment variable with the names of the checkpoints, separated by spaces.

# Formats of the voice list for clients of vLLM-Omni and of Open WebUI.
VOICES_AS = (NAMES, OBJECTS) = ("names", "objects")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one client, which the server sends to the client at the start of a session."""

    max_text_chars: int = setting(4096, "VOICEWRIGHT_MAX_TEXT_CHARS", "characters in one text", low=1)
    part_chars: int = setting(
        400,
        "VOICEWRIGHT_PART_CHARS",
        "characters in one part of a text, unless the checkpoint states its own number",
        low=20,
    )
    max_instruct_chars: int = setting(500, "VOICEWRIGHT_MAX_INSTRUCT_CHARS", "characters in one instruction", low=1)
    max_pause_s: float = setting(30.0, "VOICEWRIGHT_MAX_PAUSE_S", "seconds of one pause tag", low=0)
    max_pauses_s: float = setting(120.0, "VOICEWRIGHT_MAX_PAUSES_S", "seconds of all pause tags of one text", low=0)
    max_frames: int = setting(4096, "VOICEWRIGHT_MAX_FRAMES", "frames (80 ms) of one request", low=1)
    min_reference_s: float = setting(1.0, "VOICEWRIGHT_MIN_REFERENCE_S", "minimum seconds of reference audio", low=0)
    max_reference_s: float = setting(60.0, "VOICEWRIGHT_MAX_REFERENCE_S", "maximum seconds of reference audio", low=1)
    max_contexts: int = setting(8, "VOICEWRIGHT_MAX_CONTEXTS", "utterances in flight on one socket", low=1)
    max_config_bytes: int = setting(
        16 * 2**20,
        "VOICEWRIGHT_MAX_CONFIG_BYTES",
        "bytes of a session.config message, including reference audio",
        low=1024,
    )
    max_message_bytes: int = setting(
        128 * 2**10, "VOICEWRIGHT_MAX_MESSAGE_BYTES", "bytes of any other message", low=1024
    )
    max_upload_bytes: int = setting(
        10 * 2**20, "VOICEWRIGHT_MAX_UPLOAD_BYTES", "bytes of an uploaded voice file or recording", low=1024
    )
    max_batch_items: int = setting(32, "VOICEWRIGHT_MAX_BATCH_ITEMS", "texts in one batch request", low=1)
    max_buffer_delay_ms: float = setting(
        300.0,
        "VOICEWRIGHT_MAX_BUFFER_DELAY_MS",
        "milliseconds without new text until a complete sentence of live text is spoken",
        low=0,
    )
    queue_s: float = setting(30.0, "VOICEWRIGHT_QUEUE_S", "seconds that a request may wait for a slot", low=0)
    session_s: float = setting(3600.0, "VOICEWRIGHT_SESSION_S", "seconds that a socket may stay open", low=1)
    config_s: float = setting(10.0, "VOICEWRIGHT_CONFIG_S", "seconds for a client to send its first message", low=0.1)
    idle_s: float = setting(120.0, "VOICEWRIGHT_IDLE_S", "seconds after which an idle socket is closed", low=1)

    @property
    def max_body_bytes(self) -> int:
        """Return the maximum size of an HTTP body in bytes.

        The largest bodies are reference audio in base64, and a form with a file.
        """
        return max(self.max_config_bytes, self.max_upload_bytes + FORM_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSettings:
    """Scheduler settings for the requests of one mode (docs/performance.md).

    With smaller chunks, other requests run earlier, but more calls are needed. The audio does not depend on these
    settings.
    """

    first_chunk_frames: int = setting(1, "FIRST_CHUNK_FRAMES", "frames in the first chunk of audio", low=1)
    max_chunk_frames: int = setting(16, "MAX_CHUNK_FRAMES", "frames in the largest chunk of audio", low=1)
    sound_batch: int = setting(32, "SOUND_BATCH", "chunks that Code2Wav decodes at once", low=1)
    prefills: int = setting(0, "PREFILLS", "prompt chunks per engine iteration; 0: 2 on a CPU, 8 on GPUs", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings of the engine, such as device, dtype and slots."""

    device: str = setting("auto", "VOICEWRIGHT_DEVICE", "auto, cpu, cuda, npu or mps")
    dtype: str = setting(
        "auto",
        "VOICEWRIGHT_DTYPE",
        "number format of the talker and code predictor: auto, float32 or bfloat16",
    )
    quantize: str = setting(
        "auto",
        "VOICEWRIGHT_QUANTIZE",
        "bits of the talker's and code predictor's weights: auto, off, int8 or int4 (CPU only)",
        choices=("auto", "off", "int8", "int4"),
    )
    kv_cache: str = setting(
        "auto",
        "VOICEWRIGHT_KV_CACHE",
        "number format of cached keys and values: auto (the talker's) or fp8 (half of the memory; NVIDIA GPUs only)",
        choices=("auto", "fp8"),
    )
    eager: bool = setting(False, "VOICEWRIGHT_EAGER", "run without graphs, as CPUs always do")
    sound_dtype: str = setting(
        "auto",
        "VOICEWRIGHT_SOUND_DTYPE",
        "number format of Code2Wav",
        choices=("auto", "float32", "bfloat16"),
    )
    max_slots: int = setting(
        0,
        "VOICEWRIGHT_MAX_SLOTS",
        "concurrent requests per checkpoint; 0: automatic",
        low=0,
        high=256,
    )
    memory_share: float = setting(
        0.9, "VOICEWRIGHT_MEMORY_SHARE", "share of the GPU's memory that may be used", low=0.01, high=1.0
    )
    max_waiting: int = setting(32, "VOICEWRIGHT_MAX_WAITING", "requests that may wait for a slot", low=0)
    max_model_len: int = setting(4096, "VOICEWRIGHT_MAX_MODEL_LEN", "positions (prompt and frames) of one slot", low=64)
    lead_cap_s: float = setting(
        3.0,
        "VOICEWRIGHT_LEAD_CAP_S",
        "seconds of unplayed audio above which other requests have priority",
        low=0.1,
    )
    reader_s: float = setting(
        2.0,
        "VOICEWRIGHT_READER_S",
        "seconds of unread audio above which a slow reader's request pauses",
        low=0.1,
    )
    sound_work: int = setting(
        0,
        "VOICEWRIGHT_SOUND_WORK",
        "frames that one Code2Wav call decodes; 0: automatic",
        low=0,
    )
    sound_graphs: str = setting(
        "",
        "VOICEWRIGHT_SOUND_GRAPHS",
        "shapes of Code2Wav's graphs for later chunks, as BATCHxFRAMES, separated by commas; empty: automatic",
        pattern=(r"([1-9]\d{0,2}x[1-9]\d{0,2}(,[1-9]\d{0,2}x[1-9]\d{0,2})*)?", "BATCHxFRAMES pairs, such as 32x16,8x4"),
    )
    prompt_piece: int = setting(
        0,
        "VOICEWRIGHT_PROMPT_PIECE",
        "prompt positions per prefill call; 0: automatic",
        low=0,
    )
    prompt_cache: int = setting(32, "VOICEWRIGHT_PROMPT_CACHE", "voices whose prompt is cached, per checkpoint", low=0)
    guard: bool = setting(
        True, "VOICEWRIGHT_GUARD", "stop speech that repeats itself or is silent after its text was spoken"
    )
    loads: str = setting("start", "VOICEWRIGHT_LOADS", "when checkpoints are loaded", choices=("start", "first_use"))
    threads: int = setting(
        0,
        "VOICEWRIGHT_THREADS",
        "CPU threads for frames, and the same number for Code2Wav; 0: automatic",
        low=0,
    )

    @property
    def code2wav_graph_shapes(self) -> tuple[tuple[int, int], ...]:
        """Return the Code2Wav batch shapes in ``sound_graphs`` as pairs (frames, batch size).

        An empty result selects the default shapes.
        """
        pairs = [pair.split("x") for pair in self.sound_graphs.split(",") if pair]
        return tuple((int(frames), int(batch)) for batch, frames in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the runtime's HTTP and WebSocket server."""

    host: str = setting("127.0.0.1", "VOICEWRIGHT_HOST", "address to listen on")
    port: int = setting(8210, "VOICEWRIGHT_RUNTIME_PORT", "port of the runtime process", low=0, high=65535)
    wyoming: str = setting(
        "", "VOICEWRIGHT_WYOMING", "address for Home Assistant (Wyoming), tcp://HOST:PORT; empty: off"
    )
    wyoming_announced: bool = setting(
        False,
        "VOICEWRIGHT_WYOMING_ANNOUNCED",
        "announce that port in the local network; needs the extra zeroconf",
    )
    engine_process: str = setting(
        "auto",
        "VOICEWRIGHT_ENGINE_PROCESS",
        "process of the engine: the server's (shared) or its own; auto: own on an NVIDIA GPU",
        choices=("auto", "shared", "own"),
    )
    send_buffer_bytes: int = setting(
        65536,
        "VOICEWRIGHT_SEND_BUFFER_BYTES",
        "bytes of a socket's kernel send buffer, which a cancel cannot empty",
        low=4096,
    )
    ping_s: float = setting(
        20.0,
        "VOICEWRIGHT_PING_S",
        "seconds between WebSocket pings, and until a pong must arrive",
        low=0.1,
    )
    send_s: float = setting(
        30.0,
        "VOICEWRIGHT_SEND_S",
        "seconds after which a client that reads nothing is disconnected",
        low=0.1,
    )
    header_s: float = setting(
        10.0, "VOICEWRIGHT_HEADER_S", "seconds for a client to send the headers of a request", low=0.1
    )
    frame_s: float = setting(
        10.0,
        "VOICEWRIGHT_FRAME_S",
        "seconds without a result from the device before the process exits; 0: no limit",
        low=0,
    )
    canary_s: float = setting(
        60.0,
        "VOICEWRIGHT_CANARY_S",
        "seconds between two checks of the idle engine, which generate four test frames; 0: no checks",
        low=0,
    )
    drain_s: float = setting(
        30.0, "VOICEWRIGHT_DRAIN_S", "seconds for running responses to finish after SIGTERM or Ctrl-C", low=0
    )
    api_keys: str = setting(
        "",
        "VOICEWRIGHT_API_KEYS",
        "comma-separated keys of the runtime's port (not the studio's); empty: no key is needed",
    )
    api_keys_file: str = setting(
        "",
        "VOICEWRIGHT_API_KEYS_FILE",
        "file with one key per line, reloaded when it changes",
    )
    shared_tickets: bool = setting(False, "VOICEWRIGHT_SHARED_TICKETS", "a ticket is valid at every replica")
    ticket_s: float = setting(60.0, "VOICEWRIGHT_TICKET_S", "seconds for which a ticket is valid", low=1)
    origins: str = setting(
        "",
        "VOICEWRIGHT_ORIGINS",
        "other origins whose pages may use the API, separated by commas",
    )
    hosts: str = setting(
        "",
        "VOICEWRIGHT_HOSTS",
        "other host names that the port accepts, separated by commas",
    )
    trusted_proxies: int = setting(
        0,
        "VOICEWRIGHT_TRUSTED_PROXIES",
        "number of proxies that add an address to X-Forwarded-For; 0: ignore it, except on a Hugging Face Space",
        low=0,
        high=16,
    )
    max_connections: int = setting(
        256, "VOICEWRIGHT_MAX_CONNECTIONS", "concurrent requests and sockets of one port", low=1
    )
    max_connections_per_address: int = setting(
        64, "VOICEWRIGHT_MAX_CONNECTIONS_PER_ADDRESS", "connections from one address, except loopback", low=1
    )
    requests_per_minute: int = setting(
        0,
        "VOICEWRIGHT_REQUESTS_PER_MINUTE",
        "requests and utterances per minute of one key, address or account; 0: unlimited",
        low=0,
    )
    account_key: str = setting(
        "",
        "VOICEWRIGHT_ACCOUNT_KEY",
        "secret that proves to the runtime that an account comes from the studio; empty: random",
    )
    reference_addresses: bool = setting(
        False, "VOICEWRIGHT_REFERENCE_ADDRESSES", "download public https URLs in ref_audio"
    )
    voices_as: str = setting(
        "names",
        "VOICEWRIGHT_VOICES_AS",
        "format of GET /v1/audio/voices: names or objects",
        choices=VOICES_AS,
    )
    cartesia_expiry_s: float = setting(
        1.0,
        "VOICEWRIGHT_CARTESIA_EXPIRY_S",
        "seconds from the last audio until a Cartesia context without new text ends",
        low=0.1,
    )
    data: str = setting("", "VOICEWRIGHT_DATA", "data folder; empty: the user's")
    voices: str = setting("", "VOICEWRIGHT_VOICES", "folder of the voice library; empty: voices in the data folder")
    elsewhere_file: str = setting(
        "",
        "VOICEWRIGHT_ELSEWHERE_FILE",
        "file with the /v1/models responses of other replicas; set by the cluster",
    )
    owned_voices: int = setting(64, "VOICEWRIGHT_OWNED_VOICES", "voices of one X-Voice-Owner; 0: unlimited", low=0)
    owned_pronunciations: int = setting(
        32,
        "VOICEWRIGHT_OWNED_PRONUNCIATIONS",
        "pronunciation dictionaries of one X-Voice-Owner; 0: unlimited",
        low=0,
    )
    log_format: str = setting("text", "VOICEWRIGHT_LOG_FORMAT", "format of the log lines", choices=("text", "json"))
    log_text: bool = setting(False, "VOICEWRIGHT_LOG_TEXT", "write spoken texts into the log")

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the API keys in the setting ``api_keys``."""
        return tuple(key.strip() for key in self.api_keys.split(",") if key.strip())

    def proxies(self, env: Mapping[str, str] | None = None) -> int:
        """Return the number of trusted proxies.

        Only the entries of these proxies in forwarding headers are used.
        """
        env = os.environ if env is None else env
        return self.trusted_proxies or int(bool(env.get("SPACE_ID")))

    @property
    def needs_key(self) -> bool:
        """True if every request needs an API key."""
        return bool(self.keys or self.api_keys_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Settings of a cluster of runtime processes behind one port (docs/scaling.md)."""

    replicas: int = setting(1, "VOICEWRIGHT_REPLICAS", "replicas (runtime processes) of a pool, one per device", low=1)
    max_replicas: int = setting(64, "VOICEWRIGHT_MAX_REPLICAS", "replicas that an ingress can have", low=1)
    surge_percent: int = setting(
        50,
        "VOICEWRIGHT_SURGE_PERCENT",
        "percentage of additional replicas during an update; 0: old replicas end first",
        low=0,
        high=100,
    )
    balance_s: float = setting(
        0.1, "VOICEWRIGHT_BALANCE_S", "seconds between two checks of the replicas' load", low=0.02
    )
    slots_target: float = setting(
        0.7,
        "VOICEWRIGHT_SLOTS_TARGET",
        "target share of used slots for autoscaling, for pools with max_replicas",
        low=0.1,
        high=1.0,
    )
    haproxy: str = setting("", "VOICEWRIGHT_HAPROXY", "HAProxy's binary; empty: Ray's, or the system's")
    store: str = setting(
        "",
        "VOICEWRIGHT_STORE",
        "fsspec address of the shared store of voices and keys (s3://…); empty: the voice folder",
    )
    store_s: float = setting(0.5, "VOICEWRIGHT_STORE_S", "seconds between two checks of the store", low=0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the runtime.

    ``models`` has entries ``[mode=]PATH_OR_ID`` as on the command line.
    """

    models: tuple[str, ...] = (str(DEMO_CHECKPOINT),)
    limits: Limits = field(default_factory=Limits)
    engine: EngineSettings = field(default_factory=EngineSettings)
    modes: Mapping[Mode, ModeSettings] = field(default_factory=lambda: {mode: ModeSettings() for mode in Mode})
    server: ServerSettings = field(default_factory=ServerSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Self:
        """Read the settings from environment variables.

        Missing variables leave the defaults.

        Raises:
            InvalidSetting: A variable cannot be parsed or is out of its range.
        """
        env = os.environ if env is None else env
        models = tuple(env.get(MODEL, "").split()) or cls().models
        return cls(
            models=models,
            limits=group_from_env(Limits, env),
            engine=group_from_env(EngineSettings, env),
            modes={mode: _mode_from_env(mode, env) for mode in Mode},
            server=group_from_env(ServerSettings, env),
            cluster=group_from_env(ClusterSettings, env),
        )

    def as_env(self) -> dict[str, str]:
        """Return environment variables with all settings, which `from_env` can read again.

        Raises:
            InvalidSetting: A checkpoint's path contains white space, which separates paths in VOICEWRIGHT_MODEL.
        """
        models = () if self.models == type(self)().models else self.models
        for model in models:
            if model.split() != [model]:
                why = "white space separates checkpoints; use a path without it"
                raise InvalidSetting(name=MODEL, value=repr(model), why=why)
        variables = {MODEL: " ".join(models)}
        for group in (self.limits, self.engine, self.server, self.cluster):
            variables |= group_as_env(group)
        for mode, of_mode in self.modes.items():
            variables |= group_as_env(of_mode, _prefix(mode))
        return variables


def _mode_from_env(mode: Mode, env: Mapping[str, str]) -> ModeSettings:
    """Read the scheduler settings of one mode.

    VOICEWRIGHT_X applies to all modes, and for example VOICEWRIGHT_BASE_X only to the mode Base.
    """
    both = group_from_env(ModeSettings, env, "VOICEWRIGHT_")
    return group_from_env(ModeSettings, env, _prefix(mode), both)


def _prefix(mode: Mode) -> str:
    return f"VOICEWRIGHT_{mode.upper()}_"
