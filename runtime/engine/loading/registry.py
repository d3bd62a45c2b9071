"""Registry of checkpoints by mode.

Checkpoints are loaded at startup or at first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from runtime.device.quantized import Quantization
from runtime.engine.capacity.weights import weights_name
from runtime.engine.core import EngineCore
from runtime.engine.scheduling.waiting_queue import WaitingQueue
from runtime.errors import CheckpointUnusable, InvalidSetting, ModeNotServed
from runtime.model.checkpoints.checkpoint import Checkpoint, find_source, fingerprint
from runtime.model.checkpoints.composition import Composition, combine_adapters, compose_config
from runtime.model.checkpoints.config_files import read_speech_tokenizer_config
from runtime.model.checkpoints.files import CheckpointSource
from runtime.model.config import ModelConfig, SpeechTokenizerConfig
from runtime.request import Mode, ModelCard, Sampling, SpeechRequest
from runtime.settings import Limits


@dataclass(slots=True, eq=False)
class RegistryEntry:
    """Registry entry of one checkpoint in the settings.

    `core` is None until the checkpoint is loaded.
    """

    source: CheckpointSource
    modes: tuple[Mode, ...]
    config: ModelConfig
    tokenizer: SpeechTokenizerConfig
    fingerprint: str
    created: int  # Unix time of the last change of config.json.
    composition: Composition
    waiting: WaitingQueue = field(default_factory=WaitingQueue)
    core: EngineCore | None = None
    # Quantization of the weights. None means that there is no quantization, or that it has not been chosen yet.
    quantization: Quantization | None = None
    # Dtype of the talker and code predictor. Until the checkpoint is loaded, this is an estimate.
    dtype: torch.dtype = torch.float32
    is_loading: bool = False
    has_failed: bool = False

    @classmethod
    def read(cls, text: str) -> RegistryEntry:
        """Create the entry for a setting ``[mode=]PATH_OR_ID``, without reading weights.

        Raises:
            SetUpError: The checkpoint is missing or invalid, or does not serve the mode.
        """
        mode, reference = _split_entry(text)
        entry = cls._of(find_source(reference))
        return entry if mode is None else replace(entry, modes=_modes_of(entry.config, mode, entry.name))

    @classmethod
    def _of(cls, source: CheckpointSource, *known: Composition) -> RegistryEntry:
        folder, composed = source.folder, compose_config(source, *known)
        tokenizer = read_speech_tokenizer_config(folder / "speech_tokenizer")
        created = int((folder / "config.json").stat().st_mtime)
        config = composed.config
        return cls(source, config.modes, config, tokenizer, fingerprint(source), created, composed)

    def shared_with(self, other: RegistryEntry) -> RegistryEntry:
        """Return one entry that serves the speakers of this entry and of another entry.

        Adapters with the same base checkpoint can share its weights in this way.

        Raises:
            SetUpError: The adapters cannot share the weights (see `combine_adapters`).
        """
        known = self.composition, other.composition
        entry = self._of(combine_adapters(self.source, other.source, known=known), *known)
        return replace(entry, modes=tuple(mode for mode in entry.modes if mode in self.modes + other.modes))

    @property
    def name(self) -> str:
        """Return the checkpoint's name for clients."""
        return self.source.name

    def card(self, device: str, limits: Limits) -> ModelCard:
        """Return the model card of this checkpoint, which describes it to clients.

        Features that need a second checkpoint are not included. `Registry.cards` adds them.
        """
        config, generation = self.config, self.config.generation
        return ModelCard(
            name=self.name,
            modes=self.modes,
            speakers=tuple(config.talker.spk_id),
            adapters=self.composition.speakers,
            languages=tuple(config.talker.codec_language_id),
            layouts=config.layouts,
            takes_instruct=config.takes_instruct,
            speaks=config.speaks,
            part_chars=config.part_chars or limits.part_chars,
            samples_per_frame=self.tokenizer.code2wav.samples_per_frame,
            device=device,
            # The server expects a plain string instead of a member of the enumeration.
            dtype=str(config.quantization or weights_name((self.dtype, self.quantization))),
            fingerprint=self.fingerprint,
            loaded=self.core is not None,
            created=self.created,
            slots=self.core.slots if self.core else 0,
            sampling=Sampling(
                temperature=generation.temperature,
                top_k=generation.top_k,
                top_p=generation.top_p,
                repetition_penalty=generation.repetition_penalty,
            ),
        )


@dataclass(slots=True)
class Registry:
    """Registry of all checkpoints in the settings."""

    entries: list[RegistryEntry] = field(default_factory=list)

    @classmethod
    def read(cls, models: Sequence[str]) -> Registry:
        """Read the configurations of all checkpoints in the settings.

        Raises:
            SetUpError: A checkpoint is missing or invalid, or two checkpoints serve the same mode.
        """
        registry = cls()
        for text in models:
            registry._add(RegistryEntry.read(text), text)
        return registry

    def _add(self, entry: RegistryEntry, text: str) -> None:
        """Add an entry, or let another entry also serve its speakers."""
        index, added = len(self.entries), entry
        for place, other in enumerate(self.entries):
            try:
                index, added = place, other.shared_with(entry)
            except InvalidSetting as error:
                if mode := next((mode for mode in entry.modes if mode in other.modes), None):
                    why = f"{mode} is served by {other.name} already, and {error.facts['why']}"
                    raise InvalidSetting(name="model", value=repr(text), why=why) from None
        self.entries[index : index + 1] = [added]

    def entry(self, mode: Mode) -> RegistryEntry | None:
        """Return the entry that serves a mode, or None."""
        return next((entry for entry in self.entries if mode in entry.modes), None)

    def usable(self, mode: Mode) -> RegistryEntry:
        """Return the entry that serves a mode.

        Raises:
            ModeNotServed: No checkpoint serves the mode.
            CheckpointUnusable: The checkpoint of the mode could not be loaded.
        """
        entry = self.entry(mode)
        if entry is None:
            raise self.mode_error(mode)
        if entry.has_failed:
            raise CheckpointUnusable(mode=mode)
        return entry

    def needed(self, request: SpeechRequest) -> tuple[RegistryEntry, ...]:
        """Return the entries of all checkpoints that a request needs.

        The first entry generates the speech. A second entry, if present, encodes the voice.

        Raises:
            ModeNotServed: No checkpoint serves the mode, or no checkpoint encodes voices for it.
            CheckpointUnusable: One of the checkpoints could not be loaded.
        """
        entry = self.usable(request.mode)
        reference = request.reference
        if reference is None or not request.takes_reference:
            return (entry,)
        if reference.blend and all(part.speaker for part in reference.blend):
            return (entry,)
        reader = self.reader(entry)
        if reader is None:
            raise self.mode_error(Mode.BASE)
        return (entry,) if reader is entry else (entry, self.usable(Mode.BASE))

    def mode_error(self, mode: Mode) -> ModeNotServed:
        """Create the error for a mode that no checkpoint serves.

        The error lists the known modes.
        """
        return ModeNotServed(param="task_type", mode=mode, known=", ".join(self.modes))

    def reader(self, entry: RegistryEntry) -> RegistryEntry | None:
        """Return the entry of the checkpoint that encodes voices for `entry`, or None.

        The result is `entry` or the entry of a Base checkpoint with the same hidden size. CustomVoice checkpoints have
        no speaker encoder, but an x-vector of a Base checkpoint can replace the speaker embedding in a prompt
        (docs/model.md 3.2).
        """
        if entry.config.speaker_encoder is not None:
            return entry
        base = self.entry(Mode.BASE)
        if base is None or base.config.talker.hidden_size != entry.config.talker.hidden_size:
            return None
        return base

    def may_cross_embed(self, entry: RegistryEntry) -> bool:
        """True if cloned voices may use the embedding tables of another checkpoint.

        The other checkpoint must encode the voices for ``entry`` and must have the same token ids.
        """
        reader = self.reader(entry)
        return reader is not None and reader is not entry and _ids(reader.config) == _ids(entry.config)

    def styles_voices(self, entry: RegistryEntry) -> bool:
        """True if the checkpoint can apply a style instruction to cloned voices."""
        is_styled = Mode.CUSTOM_VOICE in entry.modes and entry.config.takes_instruct
        return is_styled and self.reader(entry) is not None

    def cards(self, device: str, limits: Limits) -> tuple[ModelCard, ...]:
        """Return the model cards of all checkpoints, loaded or not."""
        return tuple(
            replace(
                entry.card(device, limits),
                styles_voices=self.styles_voices(entry),
                grafts_voices=self.styles_voices(entry) and self.may_cross_embed(entry),
            )
            for entry in self.entries
        )

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes that all checkpoints together serve."""
        return tuple(mode for entry in self.entries for mode in entry.modes)

    @property
    def cores(self) -> list[EngineCore]:
        """Return the engine cores of the loaded checkpoints."""
        return [entry.core for entry in self.entries if entry.core is not None]

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Return the loaded checkpoints."""
        return [core.checkpoint for core in self.cores]


def _split_entry(text: str) -> tuple[Mode | None, str]:
    """Split ``[mode=]PATH_OR_ID`` into mode and reference."""
    word, separator, reference = text.partition("=")
    if separator and word in set(Mode):
        return Mode(word), reference
    return None, text


def _ids(config: ModelConfig) -> tuple[int, ...]:
    """Return the special tokens and sizes that two checkpoints must share.

    Only checkpoints with equal ids can exchange embeddings.
    """
    talker = config.talker
    special = (config.tts_bos_token_id, config.tts_eos_token_id, config.tts_pad_token_id, talker.codec_eos_token_id)
    return (*special, talker.text_vocab_size, talker.vocab_size)


def _modes_of(config: ModelConfig, mode: Mode, name: str) -> tuple[Mode, ...]:
    if mode not in config.modes:
        known = ", ".join(config.modes)
        raise InvalidSetting(name="model", value=name, why=f"it serves {known}, not {mode}")
    return (mode,)
