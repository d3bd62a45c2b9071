"""Speech for programs that talk to the page's own API: one call, one WAV. The page itself speaks over the relay."""

from __future__ import annotations

import base64
from typing import TypedDict

import gradio as gr

from runtime.client import ConnectionLost, SpeechRefused, connect, wav
from runtime.request import SAMPLE_RATE
from runtime.settings import Settings
from studio.relay import same_origin
from studio.supervisor import Runtime


class Spoken(TypedDict):
    """A finished utterance; ``wav`` is a mono 16-bit file in base64."""

    sample_rate: int
    seed: int
    stop_reason: str
    wav: str


class Speaker:
    """Speaks by the runtime that the studio uses, wherever that is now."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        keys = Settings.from_env().server.keys  # the same variable tells the runtime
        self._key = keys[0] if keys else None

    async def speak(
        self,
        text: str,
        mode: str = "",
        voice: str = "",
        language: str = "auto",
        instruct: str = "",
        seed: int | None = None,
        request: gr.Request | None = None,
    ) -> Spoken:
        """Speak a text and return it as a WAV file in base64.

        Args:
            text: what to say.
            mode: custom_voice (a speaker of the model), voice_design (a voice by description) or base (a stored
                voice); without one, what goes with the voice.
            voice: a speaker of the model, or a stored voice.
            language: a language of the model, or auto.
            instruct: how to speak, or the description of the voice.
            seed: the same seed gives the same speech; without one, one is drawn and returned.
        """
        if request is not None and not same_origin(request.headers):
            raise gr.Error("This origin may not use the studio.", print_exception=False)
        asked = {"task_type": mode, "voice": voice, "language": language, "instructions": instruct, "seed": seed}
        config: dict[str, object] = {name: value for name, value in asked.items() if value not in ("", None)}
        try:
            return await self._spoken(text, config)
        except SpeechRefused as refusal:
            raise gr.Error(refusal.message, print_exception=False) from None

    async def _spoken(self, text: str, config: dict[str, object]) -> Spoken:
        if self._runtime.url is None:
            raise ConnectionLost
        async with connect(self._runtime.url, api_key=self._key, proxy=None) as client:
            speech = await client.speak(text, **config)  # type: ignore[arg-type]  # the runtime checks it
            sound = wav(await speech.read())
        assert speech.done is not None
        return Spoken(
            sample_rate=SAMPLE_RATE,
            seed=speech.done.seed,
            stop_reason=speech.done.stop_reason,
            wav=base64.b64encode(sound).decode(),
        )
