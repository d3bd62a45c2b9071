"""The voices that a session has configured: one for all contexts, some for a single one each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.errors import InstructTooLong, InvalidConfig, ModeNotServed, TooManyContexts
from runtime.request import Mode, ModelCard
from runtime.server.contexts import Upload, Voice
from runtime.server.schema import SessionConfig
from runtime.settings import Limits


class Configs:
    """Accepted session.config messages, by the context they are for (None: every other one)."""

    def __init__(self, limits: Limits, cards: Sequence[ModelCard]) -> None:
        self._limits = limits
        self._cards = tuple(cards)
        self._voices: dict[str | None, Voice] = {}
        self._pending: dict[int, Upload] = {}
        self._uploads = 0

    def accept(self, config: SessionConfig) -> Upload | None:
        """Check and keep a configuration; return the upload if there is reference audio to decode.

        Raises:
            BadRequest: it asks for what is not loaded, or for more than the limits allow.
        """
        self._check(config)
        mode = self._mode(config)
        upload = None
        if mode is Mode.BASE and config.ref_audio is not None:
            self._uploads += 1
            upload = self._pending[self._uploads] = Upload(self._uploads, config.context_id)
        # The samples are kept, the message that brought them need not be.
        voice = Voice(config.model_copy(update={"ref_audio": None}), mode, upload)
        self._voices[config.context_id] = voice
        return upload

    def voice_for(self, name: str) -> Voice | None:
        return self._voices.get(name) or self._voices.get(None)

    def drop(self, name: str | None) -> None:
        """Forget the configuration of that context, if there is one."""
        self._voices.pop(name, None)

    def decoded(self, number: int, samples: NDArray[np.float32] | None) -> Upload:
        """Complete an upload; without samples it failed."""
        upload = self._pending.pop(number)
        upload.samples = samples
        return upload

    def is_current(self, upload: Upload) -> bool:
        """No later configuration took this one's place, and it was not used up."""
        voice = self._voices.get(upload.context_id)
        return voice is not None and voice.upload is upload

    def _check(self, config: SessionConfig) -> None:
        limits, name = self._limits, config.context_id
        # One more than contexts: the configuration without a name.
        if name not in self._voices and name is not None and len(self._voices) > limits.max_contexts:
            raise TooManyContexts(limit=limits.max_contexts)
        if config.instruct is not None and len(config.instruct) > limits.max_instruct_chars:
            raise InstructTooLong(count=len(config.instruct), limit=limits.max_instruct_chars, param="instructions")
        if config.frame_limit is not None and config.frame_limit > limits.max_frames:
            raise InvalidConfig(where="max_frames", why=f"it must be at most {limits.max_frames}", param="max_frames")

    def _mode(self, config: SessionConfig) -> Mode:
        """Return the asked mode; without one, the mode of the reference or the first that is loaded."""
        cards = [card for card in self._cards if config.model in (None, card.name)]
        if not cards:
            raise InvalidConfig(where="model", why="no model of that name is loaded; see /v1/models", param="model")
        served = [mode for mode in Mode if any(mode in card.modes for card in cards)]
        mode = config.task_type or (Mode.BASE if config.ref_audio is not None else served[0])
        if mode not in served:
            raise ModeNotServed(mode=mode.value, known=", ".join(served), param="task_type")
        return mode
