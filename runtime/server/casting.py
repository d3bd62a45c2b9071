"""Who speaks: a client's words for mode, model and voice against what is loaded and stored. For every dialect.

A voice name means, in this order: a stored voice, a speaker of a loaded checkpoint, one of OpenAI's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.errors import InvalidConfig, ModeNotServed, UnknownVoice
from runtime.request import Mode, ModelCard
from runtime.server.voice_library import VoiceLibrary

# OpenAI's names for its models and voices; a client that knows no others gets our own in their order.
MODEL_ALIASES = frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts", "qwen3-tts"})
VOICE_ALIASES = (
    *("alloy", "ash", "ballad", "coral", "echo", "fable", "nova"),
    *("onyx", "sage", "shimmer", "verse", "marin", "cedar"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What was chosen. ``stored`` is the id of a voice of the library, spoken in Base mode."""

    mode: Mode
    speaker: str | None = None
    stored: str | None = None


class Casting:
    """Chooses over what is loaded. Thread: any; everything is in memory."""

    def __init__(self, cards: Sequence[ModelCard], library: VoiceLibrary) -> None:
        self._cards, self._library = tuple(cards), library

    def cast(self, *, mode: Mode | None, model: str | None, voice: str | None, has_reference: bool) -> Role:
        """Choose mode and voice.

        Without a mode it is that of the voice, of the reference, or the first that is loaded.

        Raises:
            InvalidConfig: no such model is loaded.
            ModeNotServed: no loaded checkpoint (of that model) serves the mode.
            UnknownVoice: nobody has that name.
        """
        cards = [card for card in self._cards if model in (None, card.name) or model in MODEL_ALIASES]
        if not cards:
            raise InvalidConfig(where="model", why="no model of that name is loaded; see /v1/models", param="model")
        served = [one for one in Mode if any(one in card.modes for card in cards)]
        stored = None
        if voice and not has_reference and mode in (None, Mode.BASE):
            stored = self._library.find(voice)
        chosen = mode or (Mode.BASE if has_reference or stored else served[0])
        if chosen not in served:
            raise ModeNotServed(mode=chosen.value, known=", ".join(served), param="task_type")
        if stored is not None:
            return Role(mode=chosen, stored=stored.id)
        if chosen is Mode.CUSTOM_VOICE:
            return Role(mode=chosen, speaker=self._speaker(voice, cards))
        if chosen is Mode.BASE and voice and not has_reference:
            raise UnknownVoice(known=", ".join(card.name for card in self._library.cards()), param="voice")
        return Role(mode=chosen)

    def _speaker(self, voice: str | None, cards: Sequence[ModelCard]) -> str | None:
        if not voice:
            return None
        speakers = [name for card in cards if Mode.CUSTOM_VOICE in card.modes for name in card.speakers]
        known = {name.lower(): name for name in speakers}
        if voice.lower() in known:
            return known[voice.lower()]
        if voice.lower() in VOICE_ALIASES and speakers:
            return speakers[VOICE_ALIASES.index(voice.lower()) % len(speakers)]
        raise UnknownVoice(known=", ".join(speakers), param="voice")
