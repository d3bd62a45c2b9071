"""Runner of the reference implementation that records intermediate values.

The module runs only inside .venv-oracle (see oracle_env.sh). Golden files contain float32 results of a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from qwen_tts import Qwen3TTSModel
from transformers import AutoProcessor, LogitsProcessor, LogitsProcessorList

GREEDY = {"do_sample": False, "subtalker_dosample": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """Arguments of one utterance for the reference implementation.

    Fields that the mode does not use are None.
    """

    mode: str
    text: str
    language: str | None = None
    non_streaming: bool
    speaker: str | None = None
    instruct: str | None = None
    reference: tuple[NDArray[np.float32], int] | str | None = None  # Samples and sample rate, or a path.
    reference_text: str | None = None
    x_vector_only: bool = False


@dataclass(slots=True, kw_only=True)
class Result:
    """Outputs and intermediate values of one utterance.

    Shapes: codes [frames, groups]; waveform [samples]; prompt [positions, hidden]; logits before and scores after the
    reference's logit processors [frames + 1, vocab]; reference_codes [frames, groups].
    """

    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    text_ids: list[int]
    prompt: NDArray[np.float32]
    logits: NDArray[np.float32]
    # Minimum difference between the highest and the second highest logit in each frame.
    smallest_gaps: NDArray[np.float64]
    reference_codes: NDArray[np.int64] | None = None
    x_vector: NDArray[np.float32] | None = None


class _Gaps(LogitsProcessor):
    """Logits processor that records the gap of every greedy choice.

    The gap is the difference between the two highest scores. This must be the last processor.
    """

    def __init__(self) -> None:
        self.seen: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        best = scores.topk(2, dim=-1).values
        self.seen.append(float((best[:, 0] - best[:, 1]).min()))
        return scores


class Oracle:
    """Checkpoint that the reference implementation has loaded."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        self.wrapper = Qwen3TTSModel.from_pretrained(str(folder), dtype=dtype)
        # The package would use a Mistral pre-tokenizer for local folders with a large vocabulary.
        self.wrapper.processor = AutoProcessor.from_pretrained(str(folder))
        self.model = self.wrapper.model
        self.speech_tokenizer = self.model.speech_tokenizer

    def text_ids(self, text: str) -> list[int]:
        """Return the token IDs of a text, for example of a template."""
        return list(self.wrapper.processor.tokenizer(text)["input_ids"])

    def speak(self, utterance: Utterance, max_frames: int | None = None, **settings: Any) -> Result:
        """Generate an utterance, by default greedily, and return it with intermediate values."""
        options = {**GREEDY, **settings}
        if max_frames is not None:
            options["max_new_tokens"] = max_frames + 1  # The last sampled code of codebook 0 does not become a frame.
        with self._watched() as watched:
            wavs, reference = self._generate(utterance, options)
        groups = self.model.config.talker_config.num_code_groups
        frames = watched.codes.shape[0]
        choices = [watched.c0.seen[: frames + 1], watched.rest.seen[: frames * (groups - 1)]]
        gaps = [
            min([first, *choices[1][frame * (groups - 1) : (frame + 1) * (groups - 1)]])
            for frame, first in enumerate(choices[0])
        ]
        return Result(
            codes=watched.codes,
            waveform=self._cut(watched.codes, reference, wavs[0]),
            text_ids=self.text_ids(self.wrapper._build_assistant_text(utterance.text)),
            prompt=watched.prompt,
            logits=np.stack(watched.logits),
            smallest_gaps=np.array(gaps),
            reference_codes=reference.ref_code.numpy() if _has_codes(reference) else None,
            x_vector=None if reference is None else reference.ref_spk_embedding.float().numpy(),
        )

    def _cut(self, codes: NDArray[np.int64], reference: Any, official: NDArray[np.float32]) -> NDArray[np.float32]:
        # The official package computes the length of the reference audio by a floating-point ratio. The result can be
        # one sample too long or too short.
        if not _has_codes(reference):
            return official
        joined = torch.cat([reference.ref_code, torch.from_numpy(codes)])
        whole = self.speech_tokenizer.decode([{"audio_codes": joined}])[0][0]
        exact = whole[len(reference.ref_code) * self.speech_tokenizer.get_decode_upsample_rate() :]
        if abs(len(exact) - len(official)) > 1:
            raise AssertionError(f"{len(official)} samples from the reference, {len(exact)} by frames")
        return exact

    def _generate(self, utterance: Utterance, options: dict[str, Any]) -> tuple[list[NDArray[np.float32]], Any]:
        shared = {
            "text": utterance.text,
            "language": utterance.language,
            "non_streaming_mode": utterance.non_streaming,
            **options,
        }
        if utterance.mode == "custom_voice":
            return self.wrapper.generate_custom_voice(speaker=utterance.speaker, instruct=utterance.instruct, **shared)[
                0
            ], None
        if utterance.mode == "voice_design":
            return self.wrapper.generate_voice_design(instruct=utterance.instruct or "", **shared)[0], None
        prompt = self.wrapper.create_voice_clone_prompt(
            utterance.reference, utterance.reference_text, utterance.x_vector_only
        )
        return self.wrapper.generate_voice_clone(voice_clone_prompt=prompt, **shared)[0], prompt[0]

    @contextmanager
    def _watched(self) -> Iterator[_Watch]:
        watch = _Watch()
        talker = self.model.talker
        hook = talker.codec_head.register_forward_hook(
            lambda _module, _inputs, out: watch.logits.append(out[0, -1].float().numpy().copy())
        )
        talker.generate = watch.talker(talker.generate)
        talker.code_predictor.generate = watch.predictor(talker.code_predictor.generate)
        generate = self.model.generate
        self.model.generate = watch.model(generate)
        try:
            yield watch
        finally:
            hook.remove()
            del talker.generate, talker.code_predictor.generate, self.model.generate


class _Watch:
    """Wrapper around the reference's three nested `generate` methods.

    The wrapper records their arguments and results.
    """

    def __init__(self) -> None:
        self.c0, self.rest = _Gaps(), _Gaps()
        self.logits: list[NDArray[np.float32]] = []
        self.prompt: NDArray[np.float32]
        self.codes: NDArray[np.int64]

    def talker(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(**kwargs: Any) -> Any:
            self.prompt = kwargs["inputs_embeds"][0].float().numpy().copy()
            return generate(logits_processor=LogitsProcessorList([self.c0]), **kwargs)

        return wrapped

    def predictor(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(**kwargs: Any) -> Any:
            return generate(logits_processor=LogitsProcessorList([self.rest]), **kwargs)

        return wrapped

    def model(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(**kwargs: Any) -> Any:
            codes, hidden = generate(**kwargs)
            self.codes = codes[0].numpy().astype(np.int64)
            return codes, hidden

        return wrapped


def _has_codes(reference: Any) -> bool:
    return reference is not None and reference.ref_code is not None
