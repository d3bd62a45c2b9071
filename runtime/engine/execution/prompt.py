"""Prompt of a request: a text id and a codec id for each position (docs/model.md 3).

A prompt is built as two columns, like the tables in docs/model.md, and embedded in one step. In the streaming layout,
most of the text follows after the prompt, one text id per frame. These ids are in `trailing`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.execution.slots import copy_to_device
from runtime.model.config import ModelConfig
from runtime.model.talker import NO_CODEC, Talker
from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.request import Layout, Mode

# Minimum length of a cached prefix in positions. Copying fewer positions takes as long as prefilling them.
MIN_PREFIX_POSITIONS = 24


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """Inputs of a segment's prompt, with names and defaults resolved for one checkpoint.

    `encode_text` contains the token ids of the text, or is None if the text is not tokenized yet. With `is_open`, more
    token ids will follow.
    """

    text: str
    mode: Mode
    layout: Layout
    language: str  # Language tag: "auto" or a key of codec_language_id.
    speaker: str | None = None
    instruct: str | None = None
    voice: ClonedVoice | None = None
    body: tuple[int, ...] | None = None
    is_open: bool = False

    def ids(self, tokenizer: TextTokenizer) -> list[int]:
        """Return the token ids of the text."""
        return tokenizer.encode_text(self.text) if self.body is None else list(self.body)


@dataclass(slots=True)
class PromptColumns:
    """Two columns of a prompt, with a text id and a codec id for each position.

    The codec id is NO_CODEC for positions without codec input.
    """

    text: list[int] = field(default_factory=list)
    codec: list[int] = field(default_factory=list)
    x_vector_at: int | None = None
    frames_at: int | None = None

    @property
    def ids(self) -> NDArray[np.int64]:
        """Return the text ids and the codec ids.

        Shapes: result [2, P].
        """
        return np.array([self.text, self.codec])

    def append_positions(self, text: Sequence[int] | int, codec: Sequence[int] | int) -> None:
        """Append positions to both columns.

        If one argument is a single id, it is repeated for each id of the other argument.
        """
        text_ids = [text] if isinstance(text, int) else list(text)
        codec_ids = [codec] if isinstance(codec, int) else list(codec)
        length = max(len(text_ids), len(codec_ids))
        self.text += text_ids * length if isinstance(text, int) else text_ids
        self.codec += codec_ids * length if isinstance(codec, int) else codec_ids


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt of a segment, the input of prefill.

    `inputs` contains embeddings, or ids that the prefill launch embeds. Ids need `Talker.tables`, and save several
    launches before the prefill.

    `trailing` contains the text ids that are added to the next frames, one per frame. It ends with tts_eos or is empty.
    The first `constant` positions are equal for all texts of a voice, and their keys and values are cached with `key`.
    `constant` is 0 if a cache would not save time.

    Shapes: inputs [P, H] in the talker's dtype, or [P, 2] int64, a text id and a codec id for each position.
    """

    inputs: Tensor | NDArray[np.int64]
    trailing: list[int]
    constant: int = 0
    key: str = ""

    @property
    def embeds(self) -> Tensor:
        """Return the embeddings of a prompt without ids."""
        assert isinstance(self.inputs, Tensor)
        return self.inputs


def build_prompt(
    inputs: PromptInputs,
    config: ModelConfig,
    tokenizer: TextTokenizer,
    talker: Talker,
    embedding_source: Talker | None = None,
) -> Prompt:
    """Build a prompt, and embed it unless the prefill launch can embed it.

    Args:
        embedding_source: Talker that embeds the text, or None for `talker`.
    """
    columns = PromptColumns()
    if inputs.instruct is not None:
        columns.append_positions(tokenizer.encode_instruct(inputs.instruct), NO_CODEC)
    columns.append_positions(tokenizer.role_ids(), NO_CODEC)
    add_tags(columns, config, inputs.language, inputs.speaker, inputs.voice is not None)
    constant, voice = len(columns.text), inputs.voice
    end = [] if inputs.is_open else [config.tts_eos_token_id]
    body = [*inputs.ids(tokenizer), *end]
    if voice is not None and voice.codes is not None:
        reference = tokenizer.encode_text(voice.text or "")
        frames = len(voice.codes)
        constant += len(reference) if inputs.layout is Layout.NON_STREAMING else min(len(reference), frames + 1)
        trailing = _add_reference(columns, [*reference, *body], frames, inputs.layout, config)
    else:
        trailing = add_text(columns, body, inputs.layout, config)
    # The last position is never in the cached prefix, because the first code is sampled from its hidden state. Without
    # the bound, the last position could be in the prefix if a reference's text has more tokens than its audio has
    # frames.
    constant = min(constant, len(columns.text) - 1)
    is_plain = talker.tables is not None and voice is None and embedding_source is None
    positions = columns.ids.T if is_plain else _embed(columns, voice, talker, embedding_source or talker)
    if constant < MIN_PREFIX_POSITIONS:
        return Prompt(positions, trailing)
    beginning = (
        columns.text[:constant],
        columns.codec[:constant],
        voice.key if voice else None,
        embedding_source is None,
    )
    key = hashlib.blake2b(repr(beginning).encode(), digest_size=16).hexdigest()
    return Prompt(positions, trailing, constant, key)


def prompt_length(inputs: PromptInputs, frames: int, reference_text: str, tokenizer: TextTokenizer) -> int:
    """Return the number of positions of a prompt, without building the prompt.

    The positions are listed in docs/model.md 3.2 to 3.5.

    Args:
        frames: Number of reference frames.
        reference_text: Transcript of the reference audio.
    """
    # The prompts of all modes except VoiceDesign have one position for a speaker or an x-vector.
    named = inputs.mode is not Mode.VOICE_DESIGN
    tagged = inputs.language != "auto"
    length = len(tokenizer.role_ids()) + 3 + tagged + named + 1
    if inputs.instruct is not None:
        length += len(tokenizer.encode_instruct(inputs.instruct))
    whole_text = inputs.layout is Layout.NON_STREAMING
    text = len(inputs.ids(tokenizer)) + 1
    if frames:
        text += len(tokenizer.encode_text(reference_text))
    return length + (text if whole_text else 0) + frames + 1


def spoken_language(language: str, speaker: str | None, config: ModelConfig) -> str:
    """Return the language tag for a prompt, which is the speaker's dialect in some cases.

    A speaker's dialect replaces the languages `chinese` and `auto` (docs/model.md 3.2).
    """
    dialect = config.talker.spk_is_dialect.get(speaker, False) if speaker else False
    if isinstance(dialect, str) and language in ("chinese", "auto"):
        return dialect
    return language


def add_tags(columns: PromptColumns, config: ModelConfig, language: str, speaker: str | None, is_clone: bool) -> None:
    """Add the positions for language, speaker or x-vector, and padding (docs/model.md 3.2)."""
    talker = config.talker
    if language == "auto":
        tags = [talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id]
    else:
        language_id = talker.codec_language_id[language]
        tags = [talker.codec_think_id, talker.codec_think_bos_id, language_id, talker.codec_think_eos_id]
    columns.append_positions(config.tts_pad_token_id, tags)
    if is_clone:
        columns.x_vector_at = len(columns.text)
        columns.append_positions(config.tts_pad_token_id, NO_CODEC)
    elif speaker is not None:
        columns.append_positions(config.tts_pad_token_id, talker.spk_id[speaker])
    columns.append_positions(config.tts_bos_token_id, talker.codec_pad_id)


def add_text(columns: PromptColumns, body: list[int], layout: Layout, config: ModelConfig) -> list[int]:
    """Add the text and its end if there is no reference, and return the trailing ids.

    See docs/model.md 3.3 and 3.4.
    """
    talker = config.talker
    if layout is Layout.NON_STREAMING:
        columns.append_positions(body, talker.codec_pad_id)
        columns.append_positions(config.tts_pad_token_id, talker.codec_bos_id)
        return []
    columns.append_positions(body[0], talker.codec_bos_id)
    return body[1:]


def _add_reference(
    columns: PromptColumns, text: list[int], frames: int, layout: Layout, config: ModelConfig
) -> list[int]:
    """Add reference text, text and reference frames, and return the trailing ids.

    See docs/model.md 3.5.
    """
    talker = config.talker
    if layout is Layout.NON_STREAMING:
        columns.append_positions(text, talker.codec_pad_id)
        columns.append_positions(config.tts_pad_token_id, talker.codec_bos_id)
        columns.frames_at = len(columns.text)
        columns.append_positions(config.tts_pad_token_id, [NO_CODEC] * frames)
        return []
    text_ids = text[: frames + 1]
    text_ids += [config.tts_pad_token_id] * (frames + 1 - len(text_ids))
    columns.append_positions(text_ids[0], talker.codec_bos_id)
    columns.frames_at = len(columns.text)
    columns.append_positions(text_ids[1:], [NO_CODEC] * frames)
    return text[frames + 1 :]


def _embed(columns: PromptColumns, voice: ClonedVoice | None, talker: Talker, texts: Talker) -> Tensor:
    """Return the sum of the embeddings of both columns, with the voice's x-vector and frames."""
    device = talker.device
    text, codec = copy_to_device(device, columns.ids)
    codec_side = talker.embed_codec_or_none(codec)
    if columns.x_vector_at is not None and voice is not None:
        codec_side[columns.x_vector_at] = voice.x_vector.to(codec_side)
    if columns.frames_at is not None and voice is not None and voice.codes is not None:
        frames = talker.embed_frames(voice.codes.to(device))
        codec_side[columns.frames_at : columns.frames_at + len(frames)] = frames
    # The talker that embeds the text may have another dtype.
    return (texts.embed_text(text) + codec_side).to(talker.dtype)
