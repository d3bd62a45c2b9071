"""Write docs/settings.md from the settings themselves: every variable, its default, what it is and who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from runtime.settings import MODEL, ClusterSettings, EngineSettings, Limits, ModeSettings, ServerSettings
from studio.settings import TRANSCRIBER, StoreSettings, StudioSettings, VisitSettings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

_HEAD = f"""# Settings

Every setting is a variable of the environment. What a process is given by its command line goes before it
(`voicewright runtime --help`), and it before the default. Yes and no are `yes` or `1`, `no` or `0`. A value that cannot
be is one sentence and exit status 2. A name that begins with `VOICEWRIGHT_` and is none of these has no effect, and the
log says so at the start, with the nearest one that there is. The studio starts its runtime with its own environment, so
`make run` takes all of them. This page is made from `runtime/settings.py` and `studio/settings.py`
(`python -m tools.settings_page`).

| variable | default | what it is |
|---|---|---|
| `{MODEL}` | the embedded voice | the runtime's: checkpoints, `[MODE=]PATH_OR_ID`, with white space between them |
| `HOST`, `PORT` | `{StudioSettings().host}`, `{StudioSettings().port}` | where the studio listens |
| `VOICEWRIGHT_RUNTIME_URL` | none | the studio's: use the runtime at this URL, do not start one |
| `VOICEWRIGHT_TRANSCRIBER` | `{TRANSCRIBER}` | the studio's [recogniser](guide.md#speech-recognition); empty: none |
"""

_PARTS: tuple[tuple[str, str, type[Any]], ...] = (
    ("Limits of a request", "The runtime's. Clients are told most of them (`limits` in `session.created`).", Limits),
    ("The engine", "The runtime's.", EngineSettings),
    (
        "A mode",
        "The runtime's. `VOICEWRIGHT_X` holds for every mode; `VOICEWRIGHT_CUSTOM_VOICE_X`, "
        "`VOICEWRIGHT_VOICE_DESIGN_X` and `VOICEWRIGHT_BASE_X` for one ([more](tuning.md#knobs-of-a-mode)).",
        ModeSettings,
    ),
    (
        "The server",
        "The runtime's; the studio's port has the same clocks, caps, names and buffers. Keys, origins and caps are in "
        "[api](api.md#keys-origins-and-caps).",
        ServerSettings,
    ),
    ("A cluster", "Of `voicewright cluster` and of Ray's deployments ([scaling](scaling.md)).", ClusterSettings),
    ("What the studio keeps", "The studio's ([store](guide.md#library)).", StoreSettings),
    ("Visitors", "The studio's, where each visitor has an own history ([spaces](deploy.md)).", VisitSettings),
)


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(
        f"\n## {title}\n{about}\n\n| variable | default | what it is | may be |\n|---|---|---|---|\n"
        + "".join(_rows(group))
        for title, about, group in _PARTS
    )


def _rows(group: type[Any]) -> Iterator[str]:
    for knob in fields(group):
        name = knob.metadata["env"]
        full = name if name.startswith("VOICEWRIGHT_") else f"VOICEWRIGHT_{name}"
        yield f"| `{full}` | {_default(knob.default)} | {knob.metadata['about']} | {_range(knob)} |\n"


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    return f"`{value}`" if isinstance(value, str) and value else str(value) or "empty"


def _range(knob: Field[Any]) -> str:
    low, high, words, pattern = (knob.metadata[rule] for rule in ("low", "high", "words", "pattern"))
    if words:
        return ", ".join(f"`{word}`" for word in words)
    if pattern:
        return str(pattern[1])
    if isinstance(knob.default, bool):
        return "yes, no"
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}"
    return "" if low is None else f"{_number(low)} and more"


def _number(value: float) -> str:
    """A whole number in full: with few digits it would be another one, or 1e+06."""
    return str(int(value)) if value == int(value) else f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
