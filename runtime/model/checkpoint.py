"""Loads a checkpoint in the published layout from a local folder or the Hub as networks (docs/model.md 1.1)."""

from __future__ import annotations

import filecmp
import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from runtime.errors import CheckpointInvalid, CheckpointMissing
from runtime.model.code2wav import Code2Wav
from runtime.model.config import ModelConfig, SpeechTokenizerConfig
from runtime.model.config_files import read_model_config, read_speech_tokenizer_config
from runtime.model.products import lay_out
from runtime.model.speaker_encoder import SpeakerEncoder
from runtime.model.speech_encoder import SpeechEncoder
from runtime.model.talker import Talker
from runtime.model.text_tokenizer import TextTokenizer
from runtime.model.weights import load_weights, on_meta, weight_files
from runtime.published import HUB_FILES
from runtime.request import SAMPLE_RATE

log = logging.getLogger(__name__)

_END_BYTES = 2**20  # of a weights file, from each end; the header with every name and offset is among the first


@dataclass(frozen=True, slots=True)
class SpeechTokenizer:
    """Sound to codes and back, float32 always (docs/model.md 7.2); one serves every checkpoint with the same file."""

    folder: Path
    config: SpeechTokenizerConfig
    code2wav: Code2Wav
    encoder: SpeechEncoder


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything that one checkpoint folder holds."""

    name: str
    fingerprint: str  # equal only for equal configuration and weights
    config: ModelConfig
    text_tokenizer: TextTokenizer
    talker: Talker
    speaker_encoder: SpeakerEncoder | None
    speech_tokenizer: SpeechTokenizer


def load_checkpoint(
    reference: str,
    device: torch.device,
    dtype: torch.dtype,
    loaded: Sequence[Checkpoint] = (),
) -> Checkpoint:
    """Load a checkpoint; talker and code predictor in ``dtype``, all else in float32.

    Args:
        reference: a folder, or a Hub id with an optional ``@revision``.
        loaded: checkpoints whose speech tokenizer may be shared.

    Raises:
        CheckpointMissing: the folder, the repository or a file is not there.
        CheckpointInvalid: a file does not hold what it should; the sentence names what.
    """
    folder = resolve(reference)
    config = read_model_config(folder)
    text_tokenizer = TextTokenizer(folder, config)
    with on_meta():
        talker = Talker(config)
        speaker_encoder = SpeakerEncoder(config.speaker_encoder) if config.speaker_encoder else None
    networks: dict[str, nn.Module] = {"talker.": talker}
    dtypes = {"talker.": dtype}
    if speaker_encoder is not None:
        networks["speaker_encoder."] = speaker_encoder
        dtypes["speaker_encoder."] = torch.float32
    load_weights(weight_files(folder), networks, device, dtypes)
    speech_tokenizer = _speech_tokenizer(folder / "speech_tokenizer", device, loaded)
    _check_fit(folder, config, text_tokenizer, speech_tokenizer.config)
    if notes := "; ".join(filter(None, (config.notes.describe(), speech_tokenizer.config.notes.describe()))):
        log.info("configuration of %s: %s", folder.name, notes)
    log.info("loaded %s: modes %s, %s on %s", folder.name, ", ".join(config.modes), dtype, device)
    return Checkpoint(
        name=public_name(reference),
        fingerprint=fingerprint(folder),
        config=config,
        text_tokenizer=text_tokenizer,
        talker=talker,
        speaker_encoder=speaker_encoder,
        speech_tokenizer=speech_tokenizer,
    )


def resolve(reference: str) -> Path:
    """The local folder of a checkpoint, downloaded from the Hub if it has to be.

    Raises:
        CheckpointMissing: there is no such folder, or the Hub does not give it.
    """
    folder = Path(reference).expanduser()
    if reference and folder.is_dir():
        return folder
    name, _, revision = reference.partition("@")  # a revision may hold slashes (refs/pr/1)
    if folder.is_absolute() or reference.startswith((".", "~")) or name.count("/") != 1:
        raise CheckpointMissing(path=reference, what="the folder", hint="Give a folder or a Hub id (owner/name).")
    from huggingface_hub import snapshot_download  # only who downloads waits for its import

    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=HUB_FILES))
    except Exception as error:  # the hub client raises many kinds, from no network to no such revision
        raise CheckpointMissing(
            path=reference,
            what="the checkpoint",
            hint="There is no such folder and the Hub did not give it.",
        ) from error


def fingerprint(folder: Path) -> str:
    """Tell checkpoints apart without reading gigabytes: configurations whole, of weights the size and both ends.

    Raises:
        CheckpointMissing, CheckpointInvalid: there are no weights that could be read.
    """
    digest, speech = hashlib.sha256(), folder / "speech_tokenizer"
    for path in (folder / "config.json", *weight_files(folder), speech / "config.json", *weight_files(speech)):
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest.update(f"{name} {size}\n".encode())
            for start in (0, max(0, size - _END_BYTES)):
                file.seek(start)
                digest.update(file.read(_END_BYTES))
    return digest.hexdigest()[:32]


def _check_fit(folder: Path, config: ModelConfig, text_tokenizer: TextTokenizer, speech: SpeechTokenizerConfig) -> None:
    """What one part of a checkpoint says must have its row in the tables of the next."""
    talker, predictor, code2wav = config.talker, config.predictor, speech.code2wav
    for holds, why in (
        (
            talker.num_code_groups == code2wav.num_quantizers == speech.encoder_valid_num_quantizers,
            "num_code_groups, num_quantizers and encoder_valid_num_quantizers disagree",
        ),
        (
            max(talker.codes, predictor.vocab_size) <= code2wav.codebook_size,
            "the talker or the code predictor has more codes than the speech tokenizer's codebooks",
        ),
        (
            speech.encoder.codebook_size <= min(talker.vocab_size, predictor.vocab_size),
            "the speech tokenizer's encoder has more codes than the talker or the code predictor",
        ),
        (
            speech.encode_downsample_rate == speech.decode_upsample_rate == code2wav.samples_per_frame,
            "encode_downsample_rate and decode_upsample_rate are not what the decoder's upsampling rates make",
        ),
        (
            text_tokenizer.ids <= talker.text_vocab_size,
            "the text tokenizer has more ids than talker_config.text_vocab_size",
        ),
    ):
        if not holds:
            raise CheckpointInvalid(path=folder, why=why)


def _speech_tokenizer(folder: Path, device: torch.device, loaded: Sequence[Checkpoint]) -> SpeechTokenizer:
    weights = weight_files(folder)
    for other in loaded:
        tokenizer = other.speech_tokenizer
        theirs = weight_files(tokenizer.folder)
        if len(weights) == len(theirs) and all(map(_is_same, weights, theirs)):
            return tokenizer
    config = read_speech_tokenizer_config(folder)
    if config.output_sample_rate != SAMPLE_RATE or config.input_sample_rate != SAMPLE_RATE:
        raise CheckpointInvalid(path=folder, why=f"its sample rates are not {SAMPLE_RATE} Hz")
    with on_meta():
        code2wav = Code2Wav(config.code2wav)
        encoder = SpeechEncoder(config.encoder, config.encoder_valid_num_quantizers, config.encode_downsample_rate)
    float32 = {"decoder.": torch.float32, "encoder.": torch.float32}
    load_weights(weights, {"decoder.": code2wav, "encoder.": encoder}, device, float32)
    lay_out(code2wav)
    return SpeechTokenizer(folder, config, code2wav, encoder)


def _is_same(path: Path, other: Path) -> bool:
    return filecmp.cmp(path, other, shallow=False)


def public_name(reference: str) -> str:
    """What clients see: a Hub id as it is, a folder by its last part."""
    return Path(reference).resolve().name if os.path.isdir(reference) else reference
