"""Resolution of a request's mode, model and voice to checkpoints and stored voices.

A voice name is looked up in this order: speakers of the checkpoints, stored voices, OpenAI's voice names. Ids, names
with the prefix ``voice:``, and all names in Base mode refer only to stored voices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.errors import BlendForbidden, ModeNotServed, UnknownModel, UnknownVoice
from runtime.request import DESCRIBED_VOICE, OTHER_SPEAKER, RECORDED_VOICE, STORED_NAMESAKE, Mode, ModelCard
from runtime.server.voices.blending import forbids_blends
from runtime.server.voices.voice_library import VoiceCard, VoiceLibrary
from runtime.shared.names import STORED_PREFIX, Named, name_key, parse_blend

# Names of OpenAI's models and voices. Each OpenAI voice is replaced by the speaker with the same index.
MODEL_ALIASES = frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15", "qwen3-tts"})
VOICE_ALIASES = (
    *("alloy", "ash", "ballad", "coral", "echo", "fable", "nova"),
    *("onyx", "sage", "shimmer", "verse", "marin", "cedar"),
)


MAX_NAMED = 40  # Maximum number of voice names in an error message.


def is_speaker(name: str, speakers: Iterable[str]) -> bool:
    """True if `name` is a speaker's name, ignoring case and Unicode compatibility forms."""
    return name_key(name) in map(name_key, speakers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedVoice:
    """Mode and voice that a request selects.

    `stored` is the id of a stored voice, or a blend of two voices (runtime/server/voices/blending.py). `param` is the
    name of the voice field in the client's message. `notes` are notes to the client about replaced or ignored names.
    """

    mode: Mode
    speaker: str | None = None
    stored: str | None = None
    param: str = "voice"
    notes: tuple[str, ...] = ()


class VoiceResolver:
    """Resolver of modes, model names and voice names, without disk access.

    Thread: any.
    """

    def __init__(self, cards: Sequence[ModelCard], library: VoiceLibrary) -> None:
        self._cards = tuple(cards)
        self._library = library

    def resolve(
        self,
        *,
        mode: Mode | None,
        model: str | None,
        voice: str | None,
        has_reference: bool,
        style: str | None = None,
        param: str = "voice",
    ) -> ResolvedVoice:
        """Return the mode and the voice for a request.

        The default mode depends on the voice and the reference. Without both, it is the first loaded mode. A stored
        voice with a style uses a CustomVoice checkpoint that supports it (`ModelCard.styles_voices`).

        Args:
            mode: Requested mode, or None for the default.
            model: Requested model name, or None for any model.
            voice: Name or id of the voice, or None.
            has_reference: True if the request contains reference audio.
            style: Description of the way of speaking, or None.
            param: Name of the voice field in error messages.

        Raises:
            UnknownModel: The model is not loaded.
            ModeNotServed: No loaded checkpoint of the model serves the mode.
            UnknownVoice: No voice has this name.
            InvalidBlend, BlendForbidden: The weights of a blend are invalid, or a voice must not be blended.
        """
        cards = [card for card in self._cards if model in (None, card.name) or model in MODEL_ALIASES]
        cards = cards or [card.only(model) for card in self._cards if model in card.adapters]
        if not cards:
            raise UnknownModel(param="model")
        served = [known for known in Mode if any(known in card.modes for card in cards)]
        if voice and not has_reference and mode is not Mode.VOICE_DESIGN and self._library.find(voice) is None:
            named = parse_blend(voice, param)
            if named is not None:
                return self._blended(named, mode, style, cards, param)
        stored = None
        can_style = any(card.styles_voices for card in cards)
        if voice and not has_reference and (mode in (None, Mode.BASE) or (mode is Mode.CUSTOM_VOICE and can_style)):
            stored = self._stored(voice, None if mode is Mode.BASE else self._speakers(cards))
        default_mode = Mode.CUSTOM_VOICE if stored and can_style and (style or "").strip() else Mode.BASE
        chosen = mode or (default_mode if has_reference or stored else served[0])
        if chosen not in served:
            raise ModeNotServed(mode=chosen.value, known=", ".join(served), param="task_type")
        if stored is not None:
            is_namesake = voice != stored.id and (voice or "").lower() in VOICE_ALIASES
            notes = (STORED_NAMESAKE,) if is_namesake else ()
            return ResolvedVoice(mode=chosen, stored=stored.id, param=param, notes=notes)
        if chosen is Mode.CUSTOM_VOICE:
            return self._spoken(voice, cards, param)
        if chosen is Mode.BASE and voice and not has_reference:
            raise self._unknown((), param)
        ignored = RECORDED_VOICE if chosen is Mode.BASE else DESCRIBED_VOICE
        return ResolvedVoice(mode=chosen, notes=(ignored,) if voice else ())

    def resolve_foreign(
        self, *, model: str | None, voice: str | None, style: str | None = None, param: str = "voice"
    ) -> ResolvedVoice:
        """Return the mode and the voice for a request in the format of another service's API.

        An unknown model name, such as "sonic-2", matches any checkpoint.

        Raises:
            ModeNotServed, UnknownVoice: See `resolve`.
        """
        known_model = model if any(model == card.name or model in card.adapters for card in self._cards) else None
        return self.resolve(mode=None, model=known_model, voice=voice, has_reference=False, style=style, param=param)

    def _blended(
        self, named: Iterable[Named], mode: Mode | None, style: str | None, cards: Sequence[ModelCard], param: str
    ) -> ResolvedVoice:
        """Return the mode and the resolved blend.

        A blend with a speaker or a style uses CustomVoice by default, any other blend uses Base.
        """
        speakers = self._speakers(cards)
        known = {name_key(name): name for name in speakers}
        parts: list[str] = []
        default_mode = (
            Mode.CUSTOM_VOICE if (style or "").strip() and any(card.styles_voices for card in cards) else Mode.BASE
        )
        for name, weight in named:
            if name_key(name) in known:
                default_mode = Mode.CUSTOM_VOICE
                parts.append(f"{known[name_key(name)]}:{weight:g}")
                continue
            card = self._stored(name, None)
            if card is None:
                raise self._unknown(speakers, param)
            if forbids_blends(card):
                raise BlendForbidden(name=card.name, param=param)
            parts.append(f"{STORED_PREFIX}{card.id}:{weight:g}")
        chosen = default_mode if mode is None or default_mode is Mode.CUSTOM_VOICE else mode
        if not any(chosen in card.modes for card in cards):
            served = [each for each in Mode if any(each in card.modes for card in cards)]
            raise ModeNotServed(mode=chosen.value, known=", ".join(served), param="task_type")
        return ResolvedVoice(mode=chosen, stored="+".join(parts), param=param)

    def _stored(self, voice: str, speakers: Sequence[str] | None) -> VoiceCard | None:
        """Return the stored voice with this name or id, unless one of `speakers` has the name."""
        if (
            voice.startswith(STORED_PREFIX)
            and (found := self._library.find(voice.removeprefix(STORED_PREFIX))) is not None
        ):
            return found
        found = self._library.find(voice)
        return None if found is not None and voice != found.id and is_speaker(voice, speakers or ()) else found

    def _speakers(self, cards: Sequence[ModelCard]) -> list[str]:
        return [name for card in cards if Mode.CUSTOM_VOICE in card.modes for name in card.speakers]

    def _spoken(self, voice: str | None, cards: Sequence[ModelCard], param: str) -> ResolvedVoice:
        """Return the CustomVoice speaker with this name.

        If `voice` is empty, the engine chooses a speaker and adds a note. For an adapter, its first speaker is used.
        """
        speakers = self._speakers(cards)
        if not voice:
            is_adapter = not any(card in self._cards for card in cards)
            return ResolvedVoice(mode=Mode.CUSTOM_VOICE, speaker=speakers[0] if is_adapter else None)
        known = {name_key(name): name for name in speakers}
        if name_key(voice) in known:
            return ResolvedVoice(mode=Mode.CUSTOM_VOICE, speaker=known[name_key(voice)])
        if voice.lower() in VOICE_ALIASES and speakers:
            speaker = speakers[VOICE_ALIASES.index(voice.lower()) % len(speakers)]
            note = OTHER_SPEAKER.format(speaker=speaker)
            return ResolvedVoice(mode=Mode.CUSTOM_VOICE, speaker=speaker, notes=(note,))
        raise self._unknown(speakers, param)

    def _unknown(self, speakers: Sequence[str], param: str) -> UnknownVoice:
        """Return the error for an unknown voice name, with the names of known voices."""
        stored = [card.name for card in self._library.cards()] if self._is_served(Mode.BASE) else []
        names = [*speakers, *stored]
        listed = [*names[:MAX_NAMED], "…"] if len(names) > MAX_NAMED else names
        return UnknownVoice(known=", ".join(listed) or "none", param=param)

    def _is_served(self, mode: Mode) -> bool:
        return any(mode in card.modes for card in self._cards)
