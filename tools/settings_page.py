"""Generator of docs/settings.md, which lists all environment variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from runtime.settings import MODEL, ClusterSettings, EngineSettings, Limits, ModeSettings, ServerSettings
from studio.settings import TRANSCRIBER, StoreSettings, StudioSettings, VisitSettings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

_HEAD = f"""# Settings

Find the variable that changes a behaviour. Every setting is an environment variable:

```
VOICEWRIGHT_QUANTIZE=int8 PORT=8000 make run
```

The studio passes its environment to its runtime, so `make run` accepts all settings. Options of the command line
(`voicewright runtime --help`) override the environment. A setting that is on or off takes `yes` or `no`. With an
invalid value, the process prints an error and exits with status 2. The log reports unknown `VOICEWRIGHT_…` names with
the nearest known one. A dash means that you rarely need to change the setting.

| variable | default | content | change it if |
|---|---|---|---|
| `{MODEL}` | the embedded voice | checkpoints, `[MODE=]PATH_OR_ID`, separated by spaces | you want better voices |
| `HOST`, `PORT` | `{StudioSettings().host}`, `{StudioSettings().port}` | the studio's address | other machines use it |
| `VOICEWRIGHT_RUNTIME_URL` | none | URL of an external runtime | the GPU is on another machine |
| `VOICEWRIGHT_TRANSCRIBER` | `{TRANSCRIBER}` | [recogniser](guide.md#speech-recognition), or empty | you use another |
"""

_PARTS: tuple[tuple[str, str, type[Any]], ...] = (
    ("Limits of a request", "The runtime sends most of them to clients (`limits` in `session.created`).", Limits),
    (
        "The engine",
        "[Tuning](performance.md#tuning) explains how to choose and what *automatic* means; "
        "[files](checkpoints.md#files) and [quantization](checkpoints.md#quantization) explain `auto`.",
        EngineSettings,
    ),
    (
        "A mode",
        "`VOICEWRIGHT_X` applies to every mode; `VOICEWRIGHT_CUSTOM_VOICE_X`, `VOICEWRIGHT_VOICE_DESIGN_X` and "
        "`VOICEWRIGHT_BASE_X` to one.",
        ModeSettings,
    ),
    (
        "The server",
        "The studio's port has the same timeouts, limits, host names and buffers. "
        "[Keys, origins and limits](api.md#keys-origins-and-limits) explains them.",
        ServerSettings,
    ),
    ("A cluster", "For `voicewright cluster` and Ray's deployments ([scaling](scaling.md)).", ClusterSettings),
    ("What the studio keeps", "The [library](guide.md#library) explains these settings.", StoreSettings),
    (
        "Visitors",
        "For studios where each visitor has their own history ([deploy](deploy.md#several-people)).",
        VisitSettings,
    ),
)

_CHANGE_IF = {
    "MAX_TEXT_CHARS": "texts are longer",
    "PART_CHARS": "a checkpoint loses words of long texts",
    "MAX_REFERENCE_S": "recordings are longer",
    "MAX_CONTEXTS": "one socket serves many people",
    "MAX_UPLOAD_BYTES": "recordings are refused as too large",
    "MAX_BUFFER_DELAY_MS": "live text pauses within sentences",
    "QUEUE_S": "requests wait too long",
    "SESSION_S": "sockets must stay open for longer",
    "IDLE_S": "quiet clients are closed too soon",
    "DEVICE": "the wrong device is chosen",
    "DTYPE": "you compare with the reference",
    "QUANTIZE": "speech is slower than real time, or memory is short",
    "KV_CACHE": "more slots must fit into a GPU",
    "EAGER": "graphs cannot be captured",
    "MAX_SLOTS": "requests wait although memory is free",
    "MEMORY_SHARE": "another program needs the GPU",
    "MAX_WAITING": "you prefer a refusal to a wait",
    "MAX_MODEL_LEN": "memory is short",
    "SOUND_WORK": "first chunks are late under load",
    "SOUND_GRAPHS": "startup takes too long",
    "PROMPT_CACHE": "requests use many voices",
    "GUARD": "correct speech is stopped",
    "LOADS": "a checkpoint is rarely used",
    "THREADS": "other programs need the cores",
    "MAX_CHUNK_FRAMES": "audio is uneven under load (smaller)",
    "SOUND_BATCH": "a GPU has many clients (larger)",
    "PREFILLS": "new requests disturb running ones (smaller)",
    "HOST": "other machines use the runtime",
    "RUNTIME_PORT": "the port is taken",
    "WYOMING": "you use Home Assistant",
    "ENGINE_PROCESS": "you debug the engine",
    "SEND_S": "slow readers are closed",
    "FRAME_S": "the device is slow",
    "DRAIN_S": "long responses are cut off at a restart",
    "API_KEYS": "other machines can reach the port",
    "API_KEYS_FILE": "keys change while the server runs",
    "ORIGINS": "your web app calls the API",
    "HOSTS": "a name is refused (`host_refused`)",
    "TRUSTED_PROXIES": "a proxy is in front",
    "MAX_CONNECTIONS": "clients get `too_many_connections`",
    "MAX_CONNECTIONS_PER_ADDRESS": "many clients share an address",
    "REQUESTS_PER_MINUTE": "one client uses too much",
    "ACCOUNT_KEY": "you start the studio's runtime yourself",
    "REFERENCE_ADDRESSES": "clients send links to recordings",
    "VOICES_AS": "Open WebUI is the only client",
    "DATA": "the data needs a volume",
    "VOICES": "voices are shared",
    "LOG_FORMAT": "a program reads the log",
    "LOG_TEXT": "you debug wrong texts",
    "REPLICAS": "there are more devices",
    "SURGE_PERCENT": "updates find no free device",
    "STORE": "replicas run on several machines",
    "VISITORS": "several people use the page",
    "MAX_TAKES": "new takes are refused",
    "MAX_STORE_BYTES": "the disk is small or large",
    "ADDRESS_STORE_BYTES": "an office shares one address",
    "SHARE_LINKS": "people without access may hear takes",
    "HOST_KEY": "you use another machine or a proxy",
    "SIGN_IN": "only known people may speak",
    "FRAME_ANCESTORS": "another site shows the page in a frame",
    "VISITOR_SPEECH_S": "one visitor uses too much",
    "MEMBER_SPEECH_S": "one member uses too much",
}


def page() -> str:
    """Return the content of docs/settings.md."""
    return _HEAD + "".join(
        f"\n## {title}\n\n{about}\n\n| variable | default | content | change it if |\n|---|---|---|---|\n"
        + "".join(_rows(group))
        for title, about, group in _PARTS
    )


def _rows(group: type[Any]) -> Iterator[str]:
    for setting in fields(group):
        name = setting.metadata["env"].removeprefix("VOICEWRIGHT_")
        about, allowed = setting.metadata["about"], _range(setting)
        content = f"{about} ({allowed})" if allowed else about
        cells = (_default(setting.default), content, _CHANGE_IF.get(name, "-"))
        yield f"| `VOICEWRIGHT_{name}` | {' | '.join(cells)} |\n"


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    return f"`{value}`" if isinstance(value, str) and value else str(value) or "empty"


def _range(setting: Field[Any]) -> str:
    """Return the allowed values of a setting as Markdown.

    Values in the description, and ranges with only a lower bound, are not repeated.
    """
    low, high, choices = (setting.metadata[rule] for rule in ("low", "high", "choices"))
    if choices and not all(word in setting.metadata["about"] for word in choices):
        return ", ".join(f"`{word}`" for word in choices)
    return f"{_number(low)} to {_number(high)}" if low is not None and high is not None else ""


def _number(value: float) -> str:
    """Format an integer with all digits and without an exponent."""
    return str(int(value)) if value == int(value) else f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
