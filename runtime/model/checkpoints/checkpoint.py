"""Loading of a checkpoint from a local folder or the Hub (docs/model.md 1.1)."""

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

from runtime.device.quantized import Quantization, supported_quantizations, unsupported_message
from runtime.errors import CheckpointInvalid, CheckpointMissing, CheckpointUnsupported, no_folder
from runtime.model.checkpoints.composition import compose_config
from runtime.model.checkpoints.config_files import read_speech_tokenizer_config
from runtime.model.checkpoints.config_reader import read_json
from runtime.model.checkpoints.files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG,
    SPEECH_TOKENIZER,
    CheckpointSource,
    has_weights,
    unapplied_adapters,
    weight_files,
)
from runtime.model.checkpoints.headers import list_some
from runtime.model.checkpoints.weights import Finish, load_weights, on_meta
from runtime.model.code2wav import Code2Wav
from runtime.model.config import ModelConfig, SpeechTokenizerConfig
from runtime.model.products import layout_function, pack
from runtime.model.speaker_encoder import SpeakerEncoder
from runtime.model.speech_encoder import SpeechEncoder
from runtime.model.talker import Talker
from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.request import SAMPLE_RATE

log = logging.getLogger(__name__)

# Prefixes of the tensor names of each network.
TALKER, SPEAKER_ENCODER, DECODER, ENCODER = "talker.", "speaker_encoder.", "decoder.", "encoder."

# Number of bytes that are hashed at the start and at the end of a weights file. The start contains the header with all
# tensor names and offsets.
_END_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class SpeechTokenizer:
    """Speech tokenizer: encoder and decoder of audio, in float32 (docs/model.md 7.2).

    Checkpoints with the same weight files share one speech tokenizer.
    """

    folder: Path
    config: SpeechTokenizerConfig
    code2wav: Code2Wav
    # Encoder of reference audio, on the meta device until a checkpoint with a speaker encoder is loaded.
    encoder: SpeechEncoder


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Loaded networks and configuration of one checkpoint."""

    name: str
    fingerprint: str  # Hash of the configuration and the weights.
    config: ModelConfig
    text_tokenizer: TextTokenizer
    talker: Talker
    speaker_encoder: SpeakerEncoder | None
    speech_tokenizer: SpeechTokenizer
    quantization: Quantization | None = None  # Quantization of the talker's and code predictor's weights.


def load_checkpoint(
    reference: str | CheckpointSource,
    device: torch.device,
    dtype: torch.dtype,
    loaded: Sequence[Checkpoint] = (),
    quantization: Quantization | None = None,
    code2wav_dtype: torch.dtype = torch.float32,
) -> Checkpoint:
    """Load a checkpoint: the talker and code predictor in `dtype`, other networks in float32.

    Args:
        reference: Local folder, Hub id with an optional ``@revision``, or the result of `find_source`.
        loaded: Checkpoints that are already loaded. A speech tokenizer with the same weights is shared.
        quantization: Quantization of the linear layers of the talker and code predictor; None keeps `dtype`.
        code2wav_dtype: Dtype of Code2Wav's matrix products on a CPU.

    Raises:
        CheckpointMissing: The folder, the repository or a file is missing.
        CheckpointInvalid: A file has invalid content.
    """
    source = find_source(reference) if isinstance(reference, str) else reference
    folder, composed = source.folder, compose_config(source)
    config, speech_config = composed.config, read_speech_tokenizer_config(folder / SPEECH_TOKENIZER)
    text_tokenizer = TextTokenizer(folder, config)
    check_compatibility(folder, config, text_tokenizer, speech_config)
    stored = None if config.quantization is None else Quantization(config.quantization)
    quantization = choose_loaded_quantization(folder, stored, quantization, device.type)
    networks = model_networks(config)
    dtypes = {TALKER: dtype, SPEAKER_ENCODER: torch.float32}
    rounded = {} if stored is None else {TALKER: stored}
    rounds = {} if stored is not None or quantization is None else {TALKER: quantization}
    # The talker is packed in bfloat16, where products of unpacked weights take twice as long. In float32, packing does
    # not make the products of a small network faster.
    finish: dict[str, Finish] = {TALKER: pack} if device.type == "cpu" and dtype is torch.bfloat16 else {}
    unread = load_weights(source.weights, networks, device, dtypes, finish, rounded, rounds, composed.rows)
    speech_tokenizer, speech_files = _shared(folder / SPEECH_TOKENIZER, loaded), weight_files(folder / SPEECH_TOKENIZER)
    unloaded = [ENCODER] if config.speaker_encoder is None else []
    if speech_tokenizer is None:
        codec_networks = speech_tokenizer_networks(speech_config)
        dtypes = dict.fromkeys(codec_networks, torch.float32)
        finish = {DECODER: layout_function(code2wav_dtype)}
        unread += load_weights(speech_files, codec_networks, device, dtypes, finish, unloaded=unloaded)
        code2wav, encoder = codec_networks[DECODER], codec_networks[ENCODER]
        assert isinstance(code2wav, Code2Wav)
        assert isinstance(encoder, SpeechEncoder)
        speech_tokenizer = SpeechTokenizer(folder / SPEECH_TOKENIZER, speech_config, code2wav, encoder)
    elif not unloaded and not speech_tokenizer.encoder.is_loaded:
        load_weights(speech_files, {ENCODER: speech_tokenizer.encoder}, device, {ENCODER: torch.float32})
    descriptions = (
        config.notes.describe(),
        speech_config.notes.describe(),
        list_some("unused tensors:", unread),
    )
    if notes := "; ".join(filter(None, descriptions)):
        log.info("configuration of %s: %s", folder.name, notes)
    if adapters := unapplied_adapters(source):
        advice = "name the folder with its adapter_config.json as the model"
        log.warning("%s is not applied to %s: to apply an adapter, %s", ", ".join(adapters), folder.name, advice)
    log.info("loaded %s: modes %s, %s on %s", source.name, ", ".join(config.modes), quantization or dtype, device)
    talker, speaker_encoder = networks[TALKER], networks.get(SPEAKER_ENCODER)
    assert isinstance(talker, Talker)
    assert isinstance(speaker_encoder, SpeakerEncoder | None)
    return Checkpoint(
        name=source.name,
        fingerprint=fingerprint(source),
        config=config,
        text_tokenizer=text_tokenizer,
        talker=talker,
        speaker_encoder=speaker_encoder,
        speech_tokenizer=speech_tokenizer,
        quantization=quantization,
    )


def choose_loaded_quantization(
    path: object, stored: Quantization | None, requested: Quantization | None, device: str
) -> Quantization | None:
    """Return the quantization to use for a checkpoint, or None for unquantized weights.

    Args:
        path: Name of the checkpoint for error messages.
        stored: Quantization of the weights in the files, or None.
        requested: Quantization in the settings, or None.
        device: Device type, such as ``cpu``.

    Raises:
        CheckpointUnsupported: The stored quantization differs from the requested quantization, or the device does not
            support it.
    """
    if stored is None:
        return requested
    if requested not in (None, stored):
        raise CheckpointUnsupported(path=path, why=f"its weights are {stored}, and cannot be converted to {requested}")
    if stored not in supported_quantizations(device):
        raise CheckpointUnsupported(path=path, why=f"its weights are {stored}; {unsupported_message(stored, device)}")
    return stored


def model_networks(config: ModelConfig) -> dict[str, nn.Module]:
    """Create the networks whose weights are in model.safetensors, on the meta device.

    Returns:
        Networks by key prefix: the talker with the code predictor and, if configured, the speaker encoder.
    """
    with on_meta():
        networks: dict[str, nn.Module] = {TALKER: Talker(config)}
        if config.speaker_encoder is not None:
            networks[SPEAKER_ENCODER] = SpeakerEncoder(config.speaker_encoder)
    return networks


def speech_tokenizer_networks(config: SpeechTokenizerConfig) -> dict[str, nn.Module]:
    """Create the encoder and the decoder of the speech tokenizer, on the meta device.

    Returns:
        Networks by key prefix.
    """
    with on_meta():
        encoder = SpeechEncoder(config.encoder, config.encoder_valid_num_quantizers, config.encode_downsample_rate)
        return {DECODER: Code2Wav(config.code2wav), ENCODER: encoder}


def find_source(reference: str) -> CheckpointSource:
    """Find the folders of a checkpoint, and download the checkpoint from the Hub if necessary.

    The errors are the same as for `find_local_source`.
    """
    return find_local_source(resolve_folder(reference), public_name(reference))


def find_local_source(folder: Path, name: str = "") -> CheckpointSource:
    """Find the folders of a checkpoint, given a checkpoint folder or an adapter folder.

    For an adapter folder, the base checkpoint is downloaded from the Hub if necessary.

    Args:
        name: Name for clients, by default the folder's name.

    Raises:
        CheckpointMissing: The adapter's weights or its base checkpoint are missing.
        CheckpointUnsupported: The base checkpoint is also an adapter.
        SetUpError: The download of the base checkpoint failed.
    """
    name = name or public_name(str(folder))
    if not (folder / ADAPTER_CONFIG).is_file():
        return CheckpointSource(folder, (), name, name, has_base=True)
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise CheckpointMissing(path=folder, what=ADAPTER_WEIGHTS, hint="Adapters are read in one format only.")
    if has_weights(folder):
        return CheckpointSource(folder, (folder,), name, name)
    base = read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        hint = "Put the adapter's two files into the folder of its base checkpoint."
        raise CheckpointMissing(path=folder / ADAPTER_CONFIG, what="base_model_name_or_path", hint=hint)
    base = str(folder / base) if (folder / base).is_dir() else base
    base_folder = resolve_folder(base)
    if (base_folder / ADAPTER_CONFIG).is_file():
        raise CheckpointUnsupported(path=folder, why=f"its base checkpoint {base} is an adapter, too")
    return CheckpointSource(base_folder, (folder,), name, public_name(base))


def resolve_folder(reference: str) -> Path:
    """Return the local folder of a checkpoint, which is downloaded from the Hub if necessary.

    Raises:
        CheckpointMissing: The folder does not exist.
        SetUpError: The download failed.
    """
    if (folder := local_folder(reference)) is not None:
        return folder
    # This import is slow and is needed only for downloads.
    from runtime.model.checkpoints.hub_download import download_checkpoint

    return download_checkpoint(reference)


def local_folder(reference: str) -> Path | None:
    """Return the local folder of a checkpoint, or None if `reference` is a Hub id.

    Raises:
        CheckpointMissing: The reference is neither a folder nor a valid Hub id.
    """
    folder = Path(reference).expanduser()
    if reference and folder.is_dir():
        return folder
    if folder.is_absolute() or reference.startswith((".", "~")) or reference.partition("@")[0].count("/") != 1:
        raise no_folder(reference, is_file=bool(reference) and folder.exists())
    return None


def fingerprint(source: CheckpointSource) -> str:
    """Return a hash that identifies the configuration and the weights of a checkpoint.

    Only the name, the size and both ends of each file are hashed.

    Raises:
        CheckpointMissing, CheckpointInvalid: The weights are missing or unreadable.
    """
    folder, digest = source.folder, hashlib.sha256()
    speech = folder / SPEECH_TOKENIZER
    base_files = (folder / CONFIG, *weight_files(folder), speech / CONFIG, *weight_files(speech))
    if source.adapters and source.has_base:
        digest.update(b"base\n")
    named = {path: path.relative_to(folder).as_posix() for path in base_files}
    for path in (*base_files, *source.adapter_files):
        name = named.get(path, path.name)
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest.update(f"{name} {size}\n".encode())
            for start in (0, max(0, size - _END_BYTES)):
                file.seek(start)
                digest.update(file.read(_END_BYTES))
    return digest.hexdigest()[:32]


def check_compatibility(
    folder: Path, config: ModelConfig, text_tokenizer: TextTokenizer, speech: SpeechTokenizerConfig
) -> None:
    """Check that the text tokenizer, the talker and the speech tokenizer fit together.

    For example, every id must have a row in the embedding table of the next network.

    Raises:
        CheckpointInvalid: The networks do not fit together.
    """
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
            "encode_downsample_rate and decode_upsample_rate do not match the decoder's upsampling rates",
        ),
        (
            speech.input_sample_rate == speech.output_sample_rate == SAMPLE_RATE,
            f"the speech tokenizer's sample rates are not {SAMPLE_RATE} Hz",
        ),
        (
            text_tokenizer.ids <= talker.text_vocab_size,
            "the text tokenizer has more ids than talker_config.text_vocab_size",
        ),
    ):
        if not holds:
            raise CheckpointInvalid(path=folder, why=why)


def _shared(folder: Path, loaded: Sequence[Checkpoint]) -> SpeechTokenizer | None:
    """Return the speech tokenizer of a loaded checkpoint with the same weights, or None."""
    weights = weight_files(folder)
    tokenizers = (other.speech_tokenizer for other in loaded)
    return next((other for other in tokenizers if have_same_contents(weights, weight_files(other.folder))), None)


def have_same_contents(files: Sequence[Path], others: Sequence[Path]) -> bool:
    """True if two lists of files have the same length and the same file contents in order."""
    return len(files) == len(others) and all(
        filecmp.cmp(file, other, shallow=False) for file, other in zip(files, others, strict=True)
    )


def public_name(reference: str) -> str:
    """Return the checkpoint name for clients: the Hub id or the name of the local folder."""
    return Path(reference).resolve().name if os.path.isdir(reference) else reference
