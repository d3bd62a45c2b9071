"""Events from the server in the Wyoming protocol: ``{"type": …, "data": {…}}``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE, Mode, ModelCard
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.wire import SAMPLE_BYTES, Reply, code_of
from runtime.version import package_version

SOUND: Reply = {"rate": SAMPLE_RATE, "width": SAMPLE_BYTES, "channels": 1}

AUDIO_START: Reply = {"type": "audio-start", "data": SOUND}
AUDIO_STOP: Reply = {"type": "audio-stop", "data": {}}
SYNTHESIZE_STOPPED: Reply = {"type": "synthesize-stopped", "data": {}}

_OTHER_SERVICES = ("asr", "handle", "intent", "wake", "mic", "snd")


def pong(text: str | None) -> Reply:
    return {"type": "pong", "data": {"text": text}}


def error(problem: SpeechError) -> Reply:
    return {"type": "error", "data": {"text": str(problem), "code": problem.code}}


def info(cards: Sequence[ModelCard], library: VoiceLibrary) -> Reply:
    """Return the info event, which lists the speakers and the stored voices.

    Stored voices are listed only if a Base checkpoint is loaded.
    """
    speakers = {
        name: _voice(name, name, card) for card in cards if Mode.CUSTOM_VOICE in card.modes for name in card.speakers
    }
    cloner = next((card for card in cards if Mode.BASE in card.modes), None)
    stored = [] if cloner is None else [_voice(voice.id, voice.name, cloner) for voice in library.cards()]
    program = {
        **_artifact("Voicewright", "Qwen3-TTS by Voicewright", "Voicewright"),
        "voices": [*speakers.values(), *stored],
        "supports_synthesize_streaming": True,
    }
    return {"type": "info", "data": {"tts": [program], **{service: [] for service in _OTHER_SERVICES}}}


def _voice(name: str, shown: str, card: ModelCard) -> Reply:
    return {**_artifact(name, shown, card.name), "languages": list(_codes(card.languages)), "speakers": None}


def _codes(languages: Iterable[str]) -> Iterable[str]:
    """Return the ISO 639-1 codes of languages, except languages without a code."""
    return filter(None, map(code_of, languages))


def _artifact(name: str, shown: str, made_by: str) -> Reply:
    """Return the common fields of programs and voices in the info event.

    If `made_by` contains a slash, the name is the id of a model on the Hugging Face Hub.
    """
    url = f"https://huggingface.co/{made_by}" if "/" in made_by else ""
    return {
        "name": name,
        "description": shown,
        "attribution": {"name": made_by, "url": url},
        "installed": True,
        "version": package_version(),
    }
