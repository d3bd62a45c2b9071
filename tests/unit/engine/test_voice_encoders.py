"""Tests for the voice encoders: captured graphs and batch invariance."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from runtime.engine.audio.reference_prefill import ReferencePrefill
from runtime.engine.audio.voice_encoders import VoiceEncoders
from runtime.errors import SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.code2wav import StreamState
from runtime.request import Mode, VoicePrompt
from tests.support.engines import EventRecorder, cloned, core_of, drain, engine_of, speak, speak_together
from tests.support.late_device import LateDevice
from tests.support.signals import voice
from tests.unit.engine.test_code2wav_graphs import GraphDevice
from tests.unit.engine.test_voice_cache import counted, settle, voices_of

# Tolerance of x-vectors, because sums over a padded buffer are rounded differently from sums over the recording alone.
X_VECTOR_ATOL = 2e-6


def encoders_of(checkpoint: Checkpoint, device: GraphDevice) -> VoiceEncoders:
    encoders = VoiceEncoders(checkpoint, device)
    encoders.prepare()
    return encoders


@pytest.mark.parametrize("x_vector_only", [False, True])
def test_recording_is_encoded_in_the_shortest_fitting_graph(
    cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch, *, x_vector_only: bool
) -> None:
    monkeypatch.setattr("runtime.engine.audio.voice_encoders.LENGTHS_S", (1.6, 3.2))
    device = GraphDevice()
    encoders = encoders_of(cloner, device)
    assert (encoders.lengths, device.captured) == ([38_400, 76_800], 4)
    speaker, speech = cloner.speaker_encoder, cloner.speech_tokenizer.encoder
    assert speaker is not None
    lengths = counted(speaker, "forward", monkeypatch)
    # In the same graph, a long recording runs before a shorter recording, so that samples that remain in the buffer are
    # detected.
    for seconds, buffer_s in ((3.1, 3.2), (1.7, 3.2), (1.6, 1.6), (1.2, 1.6), (3.5, 3.5)):
        samples = voice(seconds, 5)
        with torch.inference_mode():
            truth = speaker(torch.from_numpy(samples)), speech(torch.from_numpy(samples))
            lengths.clear()
            x_vector, codes = encoders.encode(samples, x_vector_only=x_vector_only)
        assert [len(call[0]) for call in lengths] == [round(buffer_s * 24_000)]
        np.testing.assert_allclose(x_vector, truth[0], rtol=0, atol=X_VECTOR_ATOL)
        assert (codes is None) == x_vector_only
        assert codes is None or np.array_equal(codes, truth[1])


@pytest.mark.logs_errors
def test_encoders_run_without_graphs_if_capture_fails(cloner: Checkpoint) -> None:
    engine = engine_of(cloner, device=GraphDevice(broken=range(10_000)))
    assert not voices_of(engine).encoders.lengths  # type: ignore[union-attr]
    assert np.array_equal(speak(engine, cloned()).codes, speak(engine_of(cloner), cloned()).codes)


def test_first_clone_needs_no_further_capture(cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """At startup, mel filter, encoders and Code2Wav are warmed up with a reference recording."""
    speaker, tokenizer = cloner.speaker_encoder, cloner.speech_tokenizer
    assert speaker is not None
    monkeypatch.setattr(speaker, "_mel", None)
    ran = [
        counted(owner, name, monkeypatch)
        for owner, name in ((speaker, "forward"), (tokenizer.encoder, "forward"), (ReferencePrefill, "__call__"))
    ]
    engine = engine_of(cloner)
    assert [len(calls) for calls in ran] == [1, 1, 1]
    assert not voices_of(engine).cached_voices, "it is nobody's voice"
    mel = speaker.prepare()
    speak(engine, cloned())
    assert speaker.prepare() is mel


@pytest.mark.logs_errors
def test_encoder_failure_at_startup_does_not_prevent_serving(
    cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(cloner.speech_tokenizer.encoder, "forward", lambda *_: 1 / 0)
        engine = engine_of(cloner)
    assert np.array_equal(speak(engine, cloned()).codes, speak(engine_of(cloner), cloned()).codes)


def test_decoding_of_reference_codes_is_warmed_up_on_the_encoder_stream(
    cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the work ran on the stream of first audio, other requests would have to wait."""
    engine = engine_of(cloner, device=LateDevice())
    network, threads = core_of(engine, Mode.BASE).code2wav_streams.network, []
    after = network.state_after

    def seen(codes: Tensor) -> tuple[StreamState, int]:
        threads.append(threading.current_thread().name)
        return after(codes)

    monkeypatch.setattr(network, "state_after", seen)
    voices_of(engine).start(lambda: None)
    recorder = EventRecorder()
    engine.submit(cloned(max_frames=4), recorder)
    settle(engine)
    drain(engine)
    assert threads == ["voices_0"]
    assert np.array_equal(recorder.codes, speak(engine_of(cloner), cloned(max_frames=4)).codes)


def test_preparing_a_prompt_decodes_no_audio(cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, made = engine_of(cloner), list[VoicePrompt | SpeechError]()
    warmed = counted(core_of(engine, Mode.BASE).code2wav_streams.network, "state_after", monkeypatch)
    reference = cloned().reference
    assert reference is not None
    engine.prepare(reference, Mode.BASE, made.append)
    assert isinstance(made[0], VoicePrompt)
    assert not warmed


@pytest.mark.slow
@pytest.mark.parametrize("device", [None, "graphs"])
def test_new_voice_is_batch_invariant(cloner: Checkpoint, device: str | None) -> None:
    """The result for a recording is bitwise independent of the other recordings in the batch."""
    requests = [
        cloned(seconds=seconds, x_vector_only=only, max_frames=6)
        for seconds in (1.1, 1.25, 1.5, 2.0)
        for only in (False, True)
    ]

    def engine() -> Any:
        return engine_of(cloner, slots=8, device=GraphDevice() if device else None)

    together = engine()
    voices_of(together).start(lambda: None)
    recorders = [EventRecorder() for _ in requests]
    for request, recorder in zip(requests, recorders, strict=True):
        together.submit(request, recorder)
    settle(together)
    drain(together)
    for request, recorder in zip(requests, recorders, strict=True):
        (alone,) = speak_together(engine(), request)
        assert np.array_equal(recorder.codes, alone.codes)
        assert np.array_equal(recorder.pcm, alone.pcm)
    kept = list(core_of(together, Mode.BASE).voice_cache.cached_voices.values())
    assert len({tuple(voice.x_vector.tolist()) for voice in kept}) == 4
