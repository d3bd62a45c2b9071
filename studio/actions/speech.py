"""Actions that generate speech, design voices, and list or repeat stored recordings.

An action is a feature of the page that programs call through Gradio's API or MCP.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from typing import Any, NamedTuple, TypedDict

from runtime.request import SAMPLE_RATE
from studio.actions.asking import ActionRefused, StudioClient
from voicewright import wav

MAX_TAKES = 6
ROOMS = {"custom_voice": "speakers", "voice_design": "design", "base": "clone"}
BYTES_A_SECOND = 2 * SAMPLE_RATE


class SpeechResult(TypedDict):
    """Generated speech of one text.

    ``take`` is the id of the recording in the history, or null if the caller has no history. ``audio`` is the URL of
    the audio. ``wav`` is a mono 16-bit WAV file in base64. ``notes`` describe omitted text and speech problems.
    """

    take: str | None
    audio: str | None
    sample_rate: int
    seconds: float
    seed: int
    stop_reason: str
    notes: list[str]
    wav: str


class Reproduced(TypedDict):
    """Result of the action `reproduce`, which repeats a stored generation.

    ``take`` is the id of the new recording. ``identical`` is True if its samples are bitwise equal to the stored
    samples.
    """

    take: str | None
    identical: bool
    seed: int


class Wording(NamedTuple):
    """Text of a recording before and after the replacement of words by pronunciations.

    `text` is the original text, and `spoken` is the text that is sent to the runtime. `spoken` is None if both texts
    are equal.
    """

    text: str
    spoken: str | None

    @property
    def sent(self) -> str:
        return self.text if self.spoken is None else self.spoken


async def speak(
    studio: StudioClient,
    text: str,
    mode: str = "",
    voice: str = "",
    language: str = "auto",
    instruct: str = "",
    seed: int | None = None,
    tags: bool = False,
    pronunciations: list[dict[str, str]] | None = None,
) -> SpeechResult:
    """Speak a text, and return the speech as a WAV file.

    The speech is also stored in the caller's history as a take. The caller's pronunciation dictionary applies.

    Args:
        text: the text to speak.
        mode: custom_voice (a speaker of the model), voice_design (a voice by description) or base (a stored voice); the default is the mode of the voice.
        voice: the name of a speaker, or the name or id of a stored voice.
        language: a language of the model, or auto to detect it.
        instruct: how to speak, or the description of the voice.
        seed: equal seeds give equal speech; by default a random seed is used and returned.
        tags: true if the text contains tags: [excited] sets the style of the following text, [pause:500ms] is silence.
        pronunciations: objects with word and say_as; they override the caller's dictionary.
    """  # noqa: E501  Gradio reads an argument's description from one line
    settings = {"task_type": mode, "voice": voice, "language": language, "instructions": instruct, "tags": tags}
    config = {name: value for name, value in settings.items() if value}
    return await _spoken(studio, text, config, seed, pronunciations=pronunciations)


async def design(
    studio: StudioClient,
    description: str,
    text: str,
    takes: int = 3,
    language: str = "auto",
    seeds: list[int] | None = None,
) -> list[SpeechResult]:
    """Design a voice from a description, and speak a text in several variants of the voice.

    Each variant is stored as a take, which has its own seed. The action `keep` stores the best take as a voice.

    Args:
        description: the voice in words: age, pitch, timbre, style, accent.
        text: the text to speak; it becomes the transcript of a stored voice.
        takes: the number of takes, 1 to 6.
        language: a language of the model, or auto to detect it.
        seeds: one seed per take; by default random seeds are used and returned.
    """
    if not 1 <= takes <= MAX_TAKES:
        raise ActionRefused(f"takes must be from 1 to {MAX_TAKES}.", "invalid_config", "takes")
    if seeds and len(seeds) != takes:
        raise ActionRefused(f"{takes} takes need as many seeds, not {len(seeds)}.", "invalid_config", "seeds")
    config = {"task_type": "voice_design", "language": language, "instructions": description}
    drawn = seeds or [secrets.randbelow(2**32) for _ in range(takes)]
    # All requests are sent concurrently, so that the runtime can batch them.
    spoken_takes = [_spoken(studio, text, config, seed, label="ABCDEF"[number]) for number, seed in enumerate(drawn)]
    return list(await asyncio.gather(*spoken_takes))


async def list_takes(studio: StudioClient, search: str = "", limit: int = 20) -> list[dict[str, Any]]:
    """List the takes (recordings of generated speech) in the caller's history, newest first.

    Each item has all fields that the action `reproduce` needs.

    Args:
        search: words in the take's text, name, voice or tags.
        limit: the maximum number of takes.
    """
    answer = await studio("GET", "/studio/takes", params={"search": search, "limit": max(1, min(limit, 100))})
    records: list[dict[str, Any]] = answer.json()["takes"]
    return records


async def take_audio(studio: StudioClient, take: str, format: str = "wav") -> dict[str, str]:
    """Return the audio of a take (a recording of generated speech) as a file in base64.

    The metadata of the file has the provenance, such as the model, the voice and the seed.

    Args:
        take: the id of a take.
        format: wav, mp3, flac, opus or pcm.
    """
    answer = await studio("GET", f"/studio/takes/{take}/audio", params={"format": format})
    return as_file(answer.content, answer.headers["content-type"])


async def take_words(studio: StudioClient, take: str) -> dict[str, Any]:
    """Return the start and end of each word of a take in seconds.

    A take is a recording of generated speech. The result also states whether the times are estimates.

    Args:
        take: the id of a take.
    """
    answer: dict[str, Any] = (await studio("GET", f"/studio/takes/{take}/words")).json()
    return answer


async def reproduce(studio: StudioClient, take: str) -> Reproduced:
    """Generate the speech of a take again, and report whether every sample is equal.

    A take is a stored recording of generated speech, with all parameters of its generation.

    Args:
        take: the id of a take.
    """
    record = (await studio("GET", f"/studio/takes/{take}")).json()
    config = dict(record["config"])
    if record["reference"] is not None:
        reference = await studio("GET", f"/studio/takes/{take}/reference")
        config["ref_audio"] = f"data:application/octet-stream;base64,{base64.b64encode(reference.content).decode()}"
    config.setdefault("task_type", record["mode"])
    wording = Wording(record["text"], record.get("spoken"))
    pcm, done = await studio.speech({**config, "input": wording.sent, "seed": record["seed"]})
    identical = hashlib.sha256(pcm).hexdigest() == record["sha256"]
    stored = await _store_take(studio, wording, record["config"], pcm, done, record["mode"], record["label"], take)
    return Reproduced(take=stored, identical=identical, seed=done["seed"])


def as_file(data: bytes, media_type: str) -> dict[str, str]:
    """Return a file as a dictionary with its media type and its data in base64."""
    return {"media_type": media_type, "data": base64.b64encode(data).decode()}


async def _spoken(
    studio: StudioClient,
    text: str,
    config: dict[str, Any],
    seed: int | None,
    label: str | None = None,
    pronunciations: list[dict[str, str]] | None = None,
) -> SpeechResult:
    drawn = secrets.randbelow(2**32) if seed is None else seed
    wording = await _wording(studio, text, pronunciations)
    pcm, done = await studio.speech({**config, "input": wording.sent, "seed": drawn})
    mode = config.get("task_type") or await _mode_of(studio, config)
    take = await _store_take(studio, wording, config, pcm, done, mode, label)
    return SpeechResult(
        take=take,
        audio=None if take is None else f"studio/takes/{take}/audio",
        sample_rate=SAMPLE_RATE,
        seconds=round(len(pcm) / BYTES_A_SECOND, 3),
        seed=done["seed"],
        stop_reason=done["stop_reason"],
        notes=done.get("notes", []),
        wav=base64.b64encode(wav(pcm)).decode(),
    )


async def _wording(studio: StudioClient, text: str, pronunciations: list[dict[str, str]] | None) -> Wording:
    """Return a text before and after the replacement of all pronunciations."""
    query = {"text": text, "pronunciations": pronunciations or []}
    answer = (await studio("POST", "/studio/pronunciation/said", json=query)).json()
    return Wording(text, answer["text"] if answer["places"] else None)


async def _store_take(
    studio: StudioClient,
    words: Wording,
    config: dict[str, Any],
    pcm: bytes,
    done: dict[str, Any],
    mode: str,
    label: str | None,
    parent: str | None = None,
) -> str | None:
    """Store a take and return its id, or None if the caller's history is missing or full."""
    voice = config.get("voice")
    stored = await _stored_voice(studio, voice, mode)
    if stored is not None:
        # Takes are searched by the voice's id, because the voice may be renamed.
        config = {**config, "voice": stored["id"]}
    take = {
        "room": ROOMS.get(mode, "speakers"),
        "mode": mode,
        "text": words.text,
        "spoken": words.spoken,
        "config": {name: value for name, value in config.items() if name != "ref_audio"},
        "seed": done["seed"],
        "voice": voice,
        "language": config.get("language"),
        "metrics": done.get("metrics"),
        "stop_reason": done["stop_reason"],
        "model": await _model_of(studio, mode),
        "label": label or (stored and stored["name"]),
        "parent": parent,
    }
    try:
        answer = await studio("POST", "/studio/takes", data={"take": json.dumps(take)}, files={"pcm": ("pcm", pcm)})
    except ActionRefused as refusal:
        if refusal.code in {"visitor_unknown", "store_full", "storage_failed"}:
            return None
        raise
    take_id: str = answer.json()["id"]
    return take_id


async def _mode_of(studio: StudioClient, config: dict[str, Any]) -> str:
    """Return the mode that fits the selected voice, or a default mode if no voice is selected."""
    voice, style = config.get("voice", ""), config.get("instructions", "")
    cards = (await studio("GET", "/v1/models")).json()["data"]
    speakers = {speaker.casefold() for card in cards for speaker in card["speakers"]}
    served = [mode for card in cards for mode in card["modes"]]
    if voice and voice.casefold() not in speakers and "base" in served:
        can_style = any(card["styles_voices"] for card in cards)
        return "custom_voice" if style.strip() and can_style else "base"
    return "custom_voice" if "custom_voice" in served else served[0]


async def _stored_voice(studio: StudioClient, voice: str | None, mode: str) -> dict[str, Any] | None:
    """Return the stored voice with this id (in the mode `base`, also with this name), or None."""
    if not voice:
        return None
    cards: list[dict[str, Any]] = (await studio("GET", "/v1/audio/voices")).json()["data"]
    names = {card["name"].casefold(): card for card in cards} if mode == "base" else {}
    return next((card for card in cards if card["id"] == voice), names.get(voice.casefold()))


async def _model_of(studio: StudioClient, mode: str) -> dict[str, Any] | None:
    """Return id, fingerprint, device and dtype of the checkpoint that serves a mode, or None."""
    for card in (await studio("GET", "/v1/models")).json()["data"]:
        if mode in card["modes"]:
            return {name: card[name] for name in ("id", "fingerprint", "device", "dtype")}
    return None
