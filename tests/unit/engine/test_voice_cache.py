"""Tests for the voice cache: each reference is encoded only once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.engine.audio.voice_cache import VoiceCache, reference_key
from runtime.engine.engine import Engine
from runtime.errors import GenerationFailed, InvalidConfig, ModeNotServed, ReferenceTooShort, SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Broken, Mode, Reference, SpeechRequest, StopReason, VoicePrompt
from tests.support.engines import (
    EventRecorder,
    cloned,
    core_of,
    custom_voice,
    drain,
    engine_of,
    run_turns,
    speak,
    speak_together,
)
from tests.support.signals import voice

WAIT_S = 60


def counted(owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record the arguments of each call of a method, and return the list of arguments."""
    calls: list[tuple[Any, ...]] = []
    method = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return calls


def voices_of(engine: Engine) -> VoiceCache:
    return core_of(engine, Mode.BASE).voice_cache


def of_prompt(prompt: VoicePrompt, **kwargs: Any) -> SpeechRequest:
    request = cloned(max_frames=3, **kwargs)
    assert request.reference is not None
    return replace(request, reference=replace(request.reference, prompt=prompt))


def prompt_for(engine: Engine, request: SpeechRequest) -> VoicePrompt:
    """Return the voice prompt that `prepare` computes for the request's reference."""
    assert request.reference is not None
    made: list[VoicePrompt | SpeechError] = []
    engine.prepare(request.reference, Mode.BASE, made.append)
    (prompt,) = made
    assert isinstance(prompt, VoicePrompt)
    return prompt


@pytest.mark.parametrize("apart", [0, 3])
def test_reference_is_encoded_once_for_concurrent_requests(
    cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    engine = engine_of(cloner, slots=2)
    reads = counted(voices_of(engine), "read", monkeypatch)
    warmed = counted(core_of(engine, Mode.BASE).code2wav_streams.network, "state_after", monkeypatch)
    recorders = speak_together(engine, *[cloned(max_frames=3)] * 4, apart=apart)
    assert len(reads) == 1
    assert len(warmed) == 1, "the state of Code2Wav after the reference is made once"
    (alone,) = speak_together(engine_of(cloner, slots=1), cloned(max_frames=3))
    for recorder in recorders:
        assert np.array_equal(recorder.codes, alone.codes)
        assert np.array_equal(recorder.pcm, alone.pcm)


def test_only_equal_references_have_equal_keys() -> None:
    samples = voice(1.2, 11)
    reference = Reference(samples=samples, text="I say hello.")
    prompt = VoicePrompt(fingerprint="a", x_vector=np.zeros(4, np.float32))
    assert reference_key(reference) == reference_key(replace(reference, samples=samples.copy()))
    others = [
        reference,
        replace(reference, samples=samples[1:]),
        replace(reference, text="I say hello"),
        replace(reference, x_vector_only=True),
        replace(reference, prompt=prompt),
        replace(reference, prompt=replace(prompt, x_vector=np.ones(4, np.float32))),
        replace(reference, prompt=replace(prompt, codes=np.zeros((1, 2), np.int64))),
    ]
    assert len({reference_key(other) for other in others}) == len(others)


def test_cache_size_is_limited_by_the_setting(cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(cloner, prompt_cache=2)
    reads = counted(voices_of(engine), "read", monkeypatch)
    # When the reference of 1.6 s needs space in the cache, the reference of 1.4 s is the least recently used.
    for seconds in (1.2, 1.4, 1.2, 1.6, 1.2, 1.4):
        speak(engine, cloned(seconds=seconds, x_vector_only=True, max_frames=1))
    lengths = [round(len(args[0].samples) / 24_000, 1) for args in reads]
    assert lengths == [1.2, 1.4, 1.6, 1.4]
    assert len(voices_of(engine).cached_voices) == 2


def test_cache_of_size_zero_still_serves_requests(cloner: Checkpoint) -> None:
    engine = engine_of(cloner, prompt_cache=0)
    recorders = speak_together(engine, *[cloned(max_frames=2)] * 2)
    assert [len(recorder.codes) for recorder in recorders] == [2, 2]
    assert not voices_of(engine).cached_voices


# --- Tests of requests whose prompt is already prepared.


def test_prompt_of_the_same_checkpoint_is_used_without_encoding_the_recording(
    cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(cloner)
    prompt = prompt_for(engine, cloned())
    expected = speak(engine, cloned(max_frames=3))
    encoded = counted(cloner.speech_tokenizer.encoder, "forward", monkeypatch)
    recorder = speak(engine, of_prompt(prompt))
    assert not encoded
    assert np.array_equal(recorder.codes, expected.codes)
    assert np.array_equal(recorder.pcm, expected.pcm)


SPOILED: dict[str, Callable[[VoicePrompt], VoicePrompt]] = {
    "of another checkpoint": lambda prompt: replace(prompt, fingerprint="another", x_vector=prompt.x_vector + 1),
    "without codes": lambda prompt: replace(prompt, codes=None, x_vector=prompt.x_vector + 1),
    "with too many codes": lambda prompt: replace(prompt, codes=np.tile(prompt.codes, (9, 1))),
    "with codes out of the table": lambda prompt: replace(prompt, codes=prompt.codes + 10**6),
    "with codes below the table": lambda prompt: replace(prompt, codes=prompt.codes - 10**6),
    "with a short x-vector": lambda prompt: replace(prompt, x_vector=prompt.x_vector[1:]),
    "with an x-vector that is not finite": lambda prompt: replace(prompt, x_vector=prompt.x_vector * np.nan),
}


@pytest.mark.slow("without codes", "with too many codes", "with codes below the table", "with a short x-vector")
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_recording_with_an_unsuitable_prompt_is_encoded_again(
    cloner: Checkpoint, spoil: Callable[[VoicePrompt], VoicePrompt]
) -> None:
    engine = engine_of(cloner)
    recorder = speak(engine, of_prompt(spoil(prompt_for(engine, cloned()))))
    assert np.array_equal(recorder.codes, speak(engine_of(cloner), cloned(max_frames=3)).codes)


def test_forged_prompt_is_not_used_for_another_voice(cloner: Checkpoint) -> None:
    engine = engine_of(cloner)
    prompt = prompt_for(engine, cloned())
    forged = speak(engine, of_prompt(replace(prompt, x_vector=-prompt.x_vector)))
    honest = speak(engine, cloned(max_frames=3))
    expected = speak(engine_of(cloner), cloned(max_frames=3))
    assert not np.array_equal(forged.pcm, expected.pcm)
    assert np.array_equal(honest.pcm, expected.pcm)


# --- Tests of failed and cancelled preparations.


class Gate:
    """Gate that blocks the encoding of references until a test opens it.

    It can also make the encoding of some references fail.
    """

    def __init__(self, voices: VoiceCache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.fails, self.reads, self._read = threading.Event(), set[int](), 0, voices.read
        monkeypatch.setattr(voices, "read", self)

    def __call__(self, reference: Reference, key: str) -> object:
        assert self.open.wait(WAIT_S)
        self.reads += 1
        if self.reads in self.fails:
            raise RuntimeError("/home/somebody/voice.wav")
        return self._read(reference, key)


@pytest.fixture
def reading(cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, Gate]:
    """Return an engine that encodes references in its own thread, and the gate of that thread.

    Tests call `tick` of the engine.
    """
    engine = engine_of(cloner, slots=2)
    gate = Gate(voices_of(engine), monkeypatch)
    voices_of(engine).start(lambda: None)
    return engine, gate


def settle(engine: Engine) -> None:
    """Wait until the thread that encodes references is idle."""
    reader = voices_of(engine).reader
    assert reader is not None
    reader.submit(lambda: None).result(WAIT_S)


def test_speech_continues_while_a_reference_is_encoded(reading: tuple[Engine, Gate]) -> None:
    engine, gate = reading
    slow, quick = EventRecorder(), EventRecorder()
    kept = cloned(seconds=1.4, x_vector_only=True, max_frames=3)
    gate.open.set()
    engine.submit(kept, EventRecorder())
    settle(engine)
    drain(engine)
    gate.open.clear()
    engine.submit(cloned(max_frames=3), slow)
    engine.submit(kept, quick)
    run_turns(engine, 9)
    assert len(quick.codes) == 3
    assert not slow.events
    gate.open.set()
    settle(engine)
    drain(engine)
    assert len(slow.codes) == 3


def test_request_cancelled_during_encoding_sends_no_event_and_the_voice_is_cached(
    reading: tuple[Engine, Gate],
) -> None:
    engine, gate = reading
    recorder, after = EventRecorder(), EventRecorder()
    ticket = engine.submit(cloned(), recorder)
    engine.tick()
    engine.cancel(ticket)
    engine.tick()
    assert recorder.end.stop_reason is StopReason.CANCELLED
    gate.open.set()
    settle(engine)
    engine.submit(cloned(max_frames=2), after)
    settle(engine)
    drain(engine)
    assert len(recorder.events) == 1
    assert len(after.codes) == 2
    assert gate.reads == 1


def test_failed_encoding_of_a_cancelled_request_fails_no_other_request(reading: tuple[Engine, Gate]) -> None:
    engine, gate = reading
    gate.fails.add(1)
    ticket = engine.submit(cloned(), EventRecorder())
    engine.tick()
    engine.cancel(ticket)
    engine.tick()
    gate.open.set()
    settle(engine)
    after = EventRecorder()
    engine.submit(cloned(max_frames=2), after)
    engine.tick()
    settle(engine)
    drain(engine)
    assert len(after.codes) == 2


def test_voices_of_cancelled_requests_count_towards_the_cache_limit(
    cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(cloner, prompt_cache=2)
    voices = voices_of(engine)
    gate = Gate(voices, monkeypatch)
    voices.start(lambda: None)
    for index in range(5):
        ticket = engine.submit(cloned(seconds=1.2 + index / 10, x_vector_only=True), EventRecorder())
        engine.tick()
        engine.cancel(ticket)
        engine.tick()
    gate.open.set()
    settle(engine)
    engine.submit(cloned(seconds=2.0, x_vector_only=True, max_frames=1), EventRecorder())
    settle(engine)
    drain(engine)
    assert len(voices.cached_voices) == 2
    assert not voices.reading


@pytest.mark.logs_errors
def test_failed_decoding_of_reference_frames_is_not_cached(cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(cloner)
    network = core_of(engine, Mode.BASE).code2wav_streams.network
    with monkeypatch.context() as spoiled:

        def fail(*_: object) -> None:
            raise RuntimeError

        spoiled.setattr(network, "state_after", fail)
        broken = speak(engine, cloned(max_frames=3))
    assert isinstance(broken.end, Broken)
    assert type(broken.end.error) is GenerationFailed
    whole = speak(engine, cloned(max_frames=3))
    assert np.array_equal(whole.pcm, speak(engine_of(cloner), cloned(max_frames=3)).pcm)


# --- Tests of speaker embeddings that a client sends.


def of_embedding(x_vector: NDArray[np.float32]) -> SpeechRequest:
    prompt = VoicePrompt(fingerprint="", x_vector=x_vector)
    reference = Reference(samples=np.zeros(0, np.float32), x_vector_only=True, prompt=prompt)
    return replace(cloned(max_frames=3), reference=reference)


def test_speaker_embedding_gives_the_codes_of_its_reference(cloner: Checkpoint) -> None:
    engine = engine_of(cloner)
    clone = cloned(x_vector_only=True, max_frames=3)
    prompt = prompt_for(engine, clone)
    recorder = speak(engine, of_embedding(prompt.x_vector))
    assert np.array_equal(recorder.codes, speak(engine, clone).codes)
    assert not np.array_equal(speak(engine, of_embedding(-prompt.x_vector)).codes, recorder.codes)


@pytest.mark.parametrize("spoil", [lambda x: x[1:], lambda x: np.append(x, x), lambda x: x * np.nan, lambda x: x[:0]])
def test_unsuitable_speaker_embedding_is_refused(
    cloner: Checkpoint, spoil: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> None:
    engine = engine_of(cloner)
    embedding = spoil(np.ones(cloner.config.talker.hidden_size, np.float32))
    with pytest.raises(InvalidConfig) as refused:
        speak(engine, of_embedding(embedding))
    assert refused.value.param == "speaker_embedding"


@pytest.mark.parametrize("size", [0.0, 1e20, 3e38])
def test_speaker_embedding_of_any_size_affects_no_other_row(cloner: Checkpoint, size: float) -> None:
    engine = engine_of(cloner, slots=2)
    extreme = of_embedding(np.full(cloner.config.talker.hidden_size, size, np.float32))
    alone = speak(engine, cloned(max_frames=3))
    _, beside = speak_together(engine, extreme, cloned(max_frames=3))
    assert np.array_equal(beside.codes, alone.codes)


# --- Tests of preparing a prompt before its first request.


def test_prepared_prompt_equals_the_prompt_of_a_request(cloner: Checkpoint) -> None:
    engine = engine_of(cloner)
    prompt = prompt_for(engine, cloned())
    assert prompt.fingerprint == cloner.fingerprint == engine.cards[0].fingerprint
    reference = cloned().reference
    assert reference is not None
    read = voices_of(engine).read(reference, "key")
    assert read.codes is not None
    assert np.array_equal(prompt.codes, read.codes.numpy())
    assert np.array_equal(prompt.x_vector, read.x_vector.numpy())
    assert prompt_for(engine, cloned(x_vector_only=True)).codes is None


@pytest.mark.logs_errors
def test_error_of_a_voice_prompt_hides_the_text_of_its_cause(reading: tuple[Engine, Gate]) -> None:
    engine, gate = reading
    gate.fails.add(1)
    gate.open.set()
    made: list[VoicePrompt | SpeechError] = []
    reference = cloned().reference
    assert reference is not None
    engine.prepare(reference, Mode.BASE, made.append)
    settle(engine)
    (error,) = made
    assert type(error) is GenerationFailed
    assert "somebody" not in str(error)


def test_unusable_reference_is_refused_immediately(cloner: Checkpoint, speaker: Checkpoint) -> None:
    reference = Reference(samples=voice(0.4, 1), x_vector_only=True)
    refused: list[VoicePrompt | SpeechError] = []
    engine_of(cloner).prepare(reference, Mode.BASE, refused.append)
    engine_of(speaker).prepare(reference, Mode.BASE, refused.append)
    engine_of(speaker).prepare(reference, custom_voice().mode, refused.append)
    assert [type(error) for error in refused] == [ReferenceTooShort, ModeNotServed, ModeNotServed]
