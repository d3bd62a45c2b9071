"""Generator of the files in tests/golden/data, which runs the reference implementation.

Run `.venv-oracle/bin/python -m tests.golden.make_golden` in the root of the repository. The command does not store a
case in which rounding could change the codes of another correct implementation.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from qwen_tts.core.models.modeling_qwen3_tts import mel_spectrogram

from tests.golden.cases import LENGTHY, MIDDLE, SEEDS, SHORT, Case, Reference, cases
from tests.golden.config_truth import config_truth, known_fields
from tests.golden.oracle import Oracle, Result, Utterance
from tests.golden.resampling_truth import resampling_truth
from tests.golden.sampling_truth import sampling_truth
from tests.support.checkpoints import ODD, SPECS, TINY, write_checkpoint
from tests.support.signals import voice

DATA = Path(__file__).parent / "data"

# Minimum difference between the two highest logits. It is a few hundred times the rounding error of logits, whose
# standard deviation is about 4.
CLEAR_GAP = 5e-4
# Numbers of frames. The last one exceeds the transformer's window.
DECODED_FRAMES = {TINY.name: (1, 5, 40), ODD.name: (1, 5, 60)}

WINDOWED = {TINY.name: 625, ODD.name: 305}  # Numbers of frames, which need three and two windows.
KEPT_OF_WINDOWED = 61  # Distance between two stored samples.

Arrays = dict[str, NDArray[Any]]


class Checkpoints:
    """Checkpoints that are created from their seeds.

    The reference implementation loads each checkpoint once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.oracle = cache(self._oracle)

    def _oracle(self, name: str, mode: str) -> Oracle:
        path = self.folder / f"{name}-{mode}"
        write_checkpoint(path, SPECS[name], mode, SEEDS[name])
        return Oracle(path)


def main() -> None:
    """Write all files in tests/golden/data.

    Report the cases in which rounding could change the codes.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name starts with this; then nothing else is made")
    only = parser.parse_args().only
    torch.set_num_threads(2)
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        results = {case.name: (case, _speak(checkpoints, case)) for case in cases() if case.name.startswith(only)}
        _check(results)
        if only:
            return
        _check_batch(checkpoints)
        _check_penalty(checkpoints, results)
        listed = [_store(case, result) for case, result in results.values()]
        _write_json("configs.json", {"cases": config_truth(1), "known": known_fields()})
        _write_json("cases.json", {"cases": listed, "provenance": _provenance()})
        for name in (TINY.name, ODD.name):
            _write(f"references_{name}", _references(checkpoints.oracle(name, "base")))
            _write(f"code2wav_{name}", _decoded(checkpoints.oracle(name, "base"), name))
            _write(f"windows_{name}", _windowed(checkpoints.oracle(name, "base"), name))
        _write("resampling", resampling_truth(checkpoints.oracle(TINY.name, "base"), Path(folder)))
        arrays, settings = sampling_truth(checkpoints.oracle(TINY.name, "custom_voice"))
        _write("sampling", arrays)
        _write_json("sampling.json", settings)


def utterance(case: Case) -> Utterance:
    """Convert a case into the arguments of the reference implementation."""
    return Utterance(
        mode=case.mode,
        text=case.text,
        language=case.language,
        non_streaming=case.layout == "non_streaming",
        speaker=case.voice,
        instruct=case.instruct,
        reference=_audio(case.reference),
        reference_text=case.reference_text,
        x_vector_only=case.x_vector_only,
    )


def _audio(reference: Reference | None) -> tuple[NDArray[np.float32], int] | None:
    if reference is None:
        return None
    return voice(reference.seconds, reference.seed, reference.sample_rate), reference.sample_rate


def _speak(checkpoints: Checkpoints, case: Case) -> Result:
    result = checkpoints.oracle(case.checkpoint, case.mode).speak(utterance(case), case.max_frames)
    frames, clear = len(result.codes), result.smallest_gaps.min()
    print(
        f"{case.name:24} {case.checkpoint:9} frames {frames:4} of {case.max_frames:4}"
        f" codes of c0 {len(set(result.codes[:, 0])):3} smallest gap {clear:.1e}"
        f" at {int(result.smallest_gaps.argmin())}"
    )
    return result


def _check(results: dict[str, tuple[Case, Result]]) -> None:
    unclear = [name for name, (_, result) in results.items() if result.smallest_gaps.min() < CLEAR_GAP]
    if unclear:
        raise SystemExit(f"too near a tie, choose another text or fewer frames: {unclear}")
    twins = {name: case.same_as for name, (case, _) in results.items() if case.same_as in results}
    codes = {name: result.codes for name, (_, result) in results.items()}
    for name, twin in twins.items():
        if not np.array_equal(codes[name], codes[twin]):
            raise SystemExit(f"{name} differs from {twin}")
    apart = [name for name in codes if name not in twins]
    for index, left in enumerate(apart):
        for right in apart[:index]:
            same = results[left][0].checkpoint == results[right][0].checkpoint
            if same and np.array_equal(codes[left][:8], codes[right][:8]):
                raise SystemExit(f"{left} and {right} open alike: one of them shows nothing")
    print(f"smallest gap of all {min(r.smallest_gaps.min() for _, r in results.values()):.1e}")


def _check_batch(checkpoints: Checkpoints) -> None:
    # The reference pads a batch on the left. Comparisons with single runs need rows that do not depend on the padding.
    oracle = checkpoints.oracle(TINY.name, "custom_voice")
    rows = [case for case in cases() if case.name in ("cv_english", "cv_chinese", "cv_one_token", "cv_long")]
    settings = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": 13}
    prompts = {
        "text": [case.text for case in rows],
        "speaker": [case.voice for case in rows],
        "language": [case.language or "Auto" for case in rows],
    }
    together, _ = oracle.wrapper.generate_custom_voice(**prompts, **settings)
    for case, wav in zip(rows, together, strict=True):
        alone = oracle.speak(utterance(case), 12).waveform
        if wav.shape != alone.shape or np.abs(wav - alone).max() > 1e-4:
            raise SystemExit(f"the reference says {case.name} otherwise in a batch")
    print(f"a batch of {len(rows)} equals its members alone")


def _check_penalty(checkpoints: Checkpoints, results: dict[str, tuple[Case, Result]]) -> None:
    for case, result in (pair for name, pair in results.items() if name.endswith("penalty")):
        oracle = checkpoints.oracle(case.checkpoint, case.mode)
        without = oracle.speak(utterance(case), case.max_frames, repetition_penalty=1.0).codes
        if np.array_equal(without, result.codes):
            raise SystemExit(f"{case.name} is the same without the penalty")


def _store(case: Case, result: Result) -> dict[str, Any]:
    arrays: Arrays = {"codes": result.codes, "prompt": result.prompt, "first_logits": result.logits[0]}
    if result.reference_codes is not None:
        arrays["reference_codes"] = result.reference_codes
    if result.x_vector is not None:
        arrays["x_vector"] = result.x_vector
    if case.keeps_waveform:
        arrays["waveform"] = result.waveform
    _write(case.name, arrays)
    frames = len(result.codes)
    return {
        **case.inputs(),
        "frames": frames,
        "max_new_tokens": case.max_frames + 1,
        "stop": "eos" if frames < case.max_frames else "length",
        "prompt_length": len(result.prompt),
        "text_ids": result.text_ids,
        "smallest_gap": float(f"{result.smallest_gaps.min():.2e}"),
    }


def _references(oracle: Oracle) -> Arrays:
    arrays: Arrays = {}
    for name, reference in (("short", SHORT), ("middle", MIDDLE), ("lengthy", LENGTHY)):
        wave = voice(reference.seconds, reference.seed)
        arrays[f"x_vector_{name}"] = oracle.model.extract_speaker_embedding(wave, 24000).numpy()
    arrays["log_mel_short"] = mel_spectrogram(
        torch.from_numpy(voice(SHORT.seconds, SHORT.seed)).unsqueeze(0),
        n_fft=1024,
        num_mels=128,
        sampling_rate=24000,
        hop_size=256,
        win_size=1024,
        fmin=0,
        fmax=12000,
    )[0].numpy()
    for seconds in (3.0, 14.0):
        encoded = oracle.speech_tokenizer.encode(voice(seconds, 21), sr=24000).audio_codes[0]
        arrays[f"codes_{seconds:.0f}s"] = encoded.numpy().astype(np.int64)
    return arrays


def _decoded(oracle: Oracle, name: str) -> Arrays:
    arrays: Arrays = {}
    for frames in DECODED_FRAMES[name]:
        arrays[f"codes_{frames}"], arrays[f"waveform_{frames}"] = _decode(oracle, name, frames)
    return arrays


def _windowed(oracle: Oracle, name: str) -> Arrays:
    """Decode more frames than fit into one window, and return every 61st sample."""
    codes, waveform = _decode(oracle, name, WINDOWED[name])
    return {
        "codes": codes.astype(np.uint8),
        "every": np.array(KEPT_OF_WINDOWED),
        "samples": waveform[::KEPT_OF_WINDOWED],
    }


def _decode(oracle: Oracle, name: str, frames: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    spec = SPECS[name]
    codes = np.random.RandomState(frames).randint(0, spec.codebook_size, (frames, spec.code_groups)).astype(np.int64)
    wavs, _ = oracle.speech_tokenizer.decode([{"audio_codes": torch.from_numpy(codes)}])
    return codes, wavs[0]


def _provenance() -> dict[str, str]:
    from importlib.metadata import version

    packages = ("qwen-tts", "transformers", "torch", "numpy", "librosa")
    return {package: version(package) for package in packages}


def _write(name: str, arrays: Arrays) -> None:
    np.savez_compressed(DATA / f"{name}.npz", allow_pickle=False, **arrays)


def _write_json(name: str, content: Any) -> None:
    (DATA / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
