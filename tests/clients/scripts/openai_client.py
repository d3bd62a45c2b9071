"""OpenAI's own client: whole, streamed, as events, stored voices, models, a refusal."""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

from heard import sound, tell
from openai import NotFoundError, OpenAI

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
    """Upload a voice with consent, speak with it by id, delete it."""
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


def refused(client: OpenAI, voice: Any) -> dict[str, Any]:
    try:
        client.audio.speech.create(model="tts-1", voice=voice, input=TEXT)
    except NotFoundError as error:
        return {"status": error.status_code, "code": error.code, "param": error.param}
    return {}


def main(base: str, recording: str, transcript: str) -> None:
    client = OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=120)
    tell(
        whole=whole(client),
        streamed=streamed(client),
        events=as_events(client),
        stored=stored_voice(client, Path(recording), transcript),
        models=[model.id for model in client.models.list()],
        refused=refused(client, "nobody"),
    )


main(*sys.argv[1:])
