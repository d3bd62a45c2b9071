"""Client script for OpenAI's SDK: streams, files, stored voices, models and refusals."""

from __future__ import annotations

import base64
import io
import json
import sys
import time
from pathlib import Path
from typing import Any, get_args

import soundfile
from heard import sound, tell
from openai import APIStatusError, OpenAI
from openai.types.audio import SpeechModel

TEXT = "The kettle is on, and the boat comes back in the evening."


def whole(client: OpenAI) -> dict[str, Any]:
    reply = client.audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input=TEXT)
    return {
        "bytes": len(reply.content),
        "type": reply.response.headers["content-type"],
        "head": reply.content[:3].hex(),
    }


def streamed(client: OpenAI) -> dict[str, Any]:
    began, times, pcm = time.monotonic(), [], b""
    with client.audio.speech.with_streaming_response.create(
        model="tts-1",
        voice="clara",
        input=TEXT,
        response_format="pcm",
        extra_body={"language": "English", "seed": 7},
    ) as reply:
        for part in reply.iter_bytes(1024):
            times.append(time.monotonic() - began)
            pcm += part
    return {**sound(pcm), "type": reply.headers["content-type"], "first_s": times[0], "last_s": times[-1]}


def as_events(client: OpenAI) -> dict[str, Any]:
    pcm, kinds = b"", []
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts",
        voice={"id": "clara"},
        input=TEXT,
        response_format="pcm",
        stream_format="sse",
        extra_body={"language": "English", "seed": 7},
    ) as reply:
        for line in reply.iter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                event = json.loads(line.removeprefix("data: "))
                kinds.append(event["type"])
                pcm += base64.b64decode(event.get("audio", ""))
    return {**sound(pcm), "type": reply.headers["content-type"], "deltas": kinds[:-1], "last": kinds[-1]}


def stored_voice(client: OpenAI, recording: Path, transcript: str) -> dict[str, Any]:
    """Store a voice with consent, use and delete the voice by its ID, and return the results."""
    voice = client.audio.voices.create(
        audio_sample=(recording.name, recording.read_bytes(), "audio/wav"),
        consent="cons_1234",
        name="Neighbour",
        extra_body={"ref_text": transcript},
    )
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice={"id": voice.id}, input="Good morning.", response_format="pcm"
    ) as reply:
        spoken = sound(reply.read())
    client.audio.voices.delete(voice.id)
    after = refused(client, {"id": voice.id})
    return {**spoken, "object": voice.object, "name": voice.name, "kind": voice.type, "after_delete": after}


def refused(
    client: OpenAI, voice: Any = "alloy", model: str = "tts-1", text: str = TEXT, **more: Any
) -> dict[str, Any]:
    try:
        client.audio.speech.create(model=model, voice=voice, input=text, **more)
    except APIStatusError as error:
        kind = type(error).__name__
        return {"kind": kind, "status": error.status_code, "code": error.code, "param": error.param}
    return {}


def files(client: OpenAI) -> dict[str, Any]:
    """Return the declared and the actual number of frames of a WAV file and of a FLAC file."""
    found: dict[str, Any] = {}
    for name in ("wav", "flac"):
        reply = client.audio.speech.create(model="tts-1", voice="clara", input=TEXT, response_format=name)
        with soundfile.SoundFile(io.BytesIO(reply.content)) as file:
            found[name] = {"said": file.frames, "read": len(file.read())}
    return found


def every_model(client: OpenAI) -> dict[str, int]:
    """Generate speech with each model name in the SDK, and return the number of audio bytes."""
    return {
        name: len(client.audio.speech.create(model=name, voice="alloy", input="Hi.", response_format="pcm").content)
        for name in get_args(SpeechModel)
    }


def request_ids(client: OpenAI) -> dict[str, Any]:
    mine = client.models.with_raw_response.list(extra_headers={"X-Request-Id": "app-1"})
    try:
        client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, speed=9)
    except APIStatusError as error:
        return {"mine": mine.request_id, "theirs": error.request_id}
    return {}


def main(base: str, recording: str, transcript: str) -> None:
    client = OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=120)
    tell(
        whole=whole(client),
        streamed=streamed(client),
        events=as_events(client),
        stored=stored_voice(client, Path(recording), transcript),
        models=[model.id for model in client.models.list()],
        created=[model.created for model in client.models.list()],
        refused=refused(client, "nobody"),
        unknown_model=refused(client, model="nothing-2"),
        empty=refused(client, text=""),
        too_fast=refused(client, speed=9),
        files=files(client),
        every_model=every_model(client),
        request_ids=request_ids(client),
    )


main(*sys.argv[1:])
