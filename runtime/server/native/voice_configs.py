"""Keeps the voices that a session has configured: one for all contexts, some for a single one each."""

from __future__ import annotations

from runtime.errors import InvalidConfig, TooManyContexts
from runtime.request import Mode, Reference
from runtime.server.commands import Decode, Recall
from runtime.server.native.contexts import ConfiguredVoice, Upload
from runtime.server.native.schema import SessionConfig
from runtime.server.voices.voice_resolver import VoiceResolver
from runtime.settings import Limits


class VoiceConfigs:
    """Accepted session.config messages, by the context they are for (None: every other one)."""

    def __init__(self, limits: Limits, resolver: VoiceResolver) -> None:
        self._limits = limits
        self._resolver = resolver
        self._voices: dict[str | None, ConfiguredVoice] = {}
        self._pending: dict[int, Upload] = {}
        self._uploads = 0

    def accept(self, config: SessionConfig) -> Decode | Recall | None:
        """Check and keep a configuration; return the command that brings its reference, if it has one.

        Raises:
            BadRequest: it asks for what is not loaded, or for more than the limits allow.
        """
        self._check(config)
        resolved = self._resolver.resolve(
            mode=config.task_type,
            model=config.model,
            voice=config.voice,
            has_reference=config.ref_audio is not None,
        )
        upload: Upload | None = None
        command: Decode | Recall | None = None
        if resolved.stored is not None:
            upload = self._expect(config)
            command = Recall(upload.number, resolved.stored)
        elif resolved.mode is Mode.BASE and config.ref_audio is not None:
            upload = self._expect(config)
            command = Decode(upload.number, config.ref_audio)
        # The samples are kept, the message that brought them need not be.
        self._voices[config.context_id] = ConfiguredVoice(
            config.model_copy(update={"ref_audio": None}), resolved, upload
        )
        return command

    def voice_for(self, name: str) -> ConfiguredVoice | None:
        return self._voices.get(name) or self._voices.get(None)

    def drop(self, name: str | None) -> None:
        """Forget the configuration of that context, if there is one."""
        self._voices.pop(name, None)

    def decoded(self, number: int, reference: Reference | None) -> Upload:
        """Complete an upload; without a reference it failed."""
        upload = self._pending.pop(number)
        upload.reference = reference
        return upload

    def is_current(self, upload: Upload) -> bool:
        """No later configuration took this one's place, and it was not used up."""
        voice = self._voices.get(upload.context_id)
        return voice is not None and voice.upload is upload

    def _expect(self, config: SessionConfig) -> Upload:
        self._uploads += 1
        upload = self._pending[self._uploads] = Upload(self._uploads, config.context_id)
        return upload

    def _check(self, config: SessionConfig) -> None:
        limits, name = self._limits, config.context_id
        # One more than contexts: the configuration without a name.
        if name not in self._voices and name is not None and len(self._voices) > limits.max_contexts:
            raise TooManyContexts(limit=limits.max_contexts)
        if config.frame_limit is not None and config.frame_limit > limits.max_frames:
            raise InvalidConfig(where="max_frames", why=f"it must be at most {limits.max_frames}", param="max_frames")
