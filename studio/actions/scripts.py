"""Actions that speak a script (several lines of text with voices), and export the audio."""

from __future__ import annotations

import secrets
from typing import Any, TypedDict

from studio.actions.asking import ActionRefused, StudioClient
from studio.actions.speech import SpeechResult, as_file, speak

MAX_LINES = 100
LINE_FIELDS = {"text", "mode", "voice", "language", "instruct", "seed", "tags", "pronunciations"}


class Script(TypedDict):
    """Script (several lines of text with voices), with the generated speech of each line.

    ``id`` is null if the script could not be stored. ``takes`` has one item per line, in the order of the lines.
    """

    id: str | None
    takes: list[SpeechResult]


async def script(studio: StudioClient, lines: list[dict[str, Any]], name: str = "") -> Script:
    """Speak a script line by line, each line in its own voice, and store the script.

    The action `export` joins the recordings of the lines into one file.

    Args:
        lines: objects with text and, optionally, other arguments of speak.
        name: a name for the script.
    """
    if not 1 <= len(lines) <= MAX_LINES:
        raise ActionRefused(f"lines must be from 1 to {MAX_LINES}.", "invalid_config", "lines")
    for number, line in enumerate(lines):
        if not isinstance(line, dict) or not isinstance(line.get("text"), str) or set(line) - LINE_FIELDS:
            why = f"lines[{number}] must be an object with text, and only {', '.join(sorted(LINE_FIELDS))}."
            raise ActionRefused(why, "invalid_config", "lines")
    takes = [await speak(studio, **line) for line in lines]
    fields = [
        {
            "id": f"line{number + 1}",
            "text": line["text"],
            "voice": {"mode": line.get("mode") or None, "voice": line.get("voice") or None},
            "instruct": line.get("instruct", ""),
            "seed": spoken["seed"],
            "take": spoken["take"],
        }
        for number, (line, spoken) in enumerate(zip(lines, takes, strict=True))
    ]
    script_id = secrets.token_hex(16)
    try:
        await studio("PUT", f"/studio/scripts/{script_id}", json={"name": name, "lines": fields})
    except ActionRefused as refusal:
        if refusal.code not in {"visitor_unknown", "store_full"}:
            raise
        return Script(id=None, takes=takes)
    return Script(id=script_id, takes=takes)


async def export(
    studio: StudioClient,
    takes: list[str],
    format: str = "wav",
    shape: str = "joined",
    pause_s: float = 0.3,
    loudness_lufs: float | None = -16.0,
    name: str = "",
) -> dict[str, str]:
    """Combine several takes (recordings of generated speech) into one file in base64.

    Args:
        takes: ids of takes, in the order of the audio.
        format: wav, mp3, flac or opus.
        shape: joined (one file), files (a zip with one file per take), srt (subtitles) or all (a zip with everything).
        pause_s: silence between two takes in seconds.
        loudness_lufs: loudness of the result in LUFS; null keeps the loudness of the takes.
        name: a name for the file.
    """
    if not takes:
        raise ActionRefused("takes must contain the id of a take.", "invalid_config", "takes")
    clips: list[dict[str, Any]] = []
    for number, take in enumerate(takes):
        if number and pause_s > 0:
            clips.append({"silence_s": pause_s})
        clips.append({"take": take})
    export_request = {"clips": clips, "format": format, "shape": shape, "loudness_lufs": loudness_lufs, "name": name}
    answer = await studio("POST", "/studio/exports", json=export_request)
    return as_file(answer.content, answer.headers["content-type"])
