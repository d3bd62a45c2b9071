"""Tests for the check of a recording: speech detection, trimming and advice."""

from __future__ import annotations

import io

import numpy as np
import pytest
import silero_vad
import soundfile
import soxr
import torch
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, TranscriptMismatch
from runtime.request import SAMPLE_RATE
from runtime.settings import DEMO_CHECKPOINT, Limits
from runtime.voices.activity import detect_speech_by_level, detect_speech_by_probability
from runtime.voices.checks import check_transcript
from runtime.voices.recording_check import MARGIN_S, PAUSE_S, check_recording, clean_reference, prepare_recording
from runtime.voices.speech_detector import _likelihood, find_speech
from tests.support.signals import chords, cough, drums, voice
from tests.support.spoken import WORDS, generate

LIMITS = Limits()
Samples = NDArray[np.float32]


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def noise(count: int, level: float) -> Samples:
    return np.random.default_rng(1).normal(0, level, count).astype(np.float32)


def codes(samples: Samples, transcript: str | None = None) -> set[str]:
    """Return the codes of the advice on a recording."""
    return {advice.code for advice in prepare_recording(samples.astype(np.float32), transcript, LIMITS).advice}


@pytest.fixture(scope="module")
def speech() -> Samples:
    """Return four seconds of speech of the embedded voice."""
    return generate()


# --- Tests of speech detection.


def test_speech_is_detected_between_noises(speech: Samples) -> None:
    hum = (0.05 * np.sin(2 * np.pi * 100 * np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE)).astype(np.float32)
    found = find_speech(np.concatenate([hum, speech, noise(2 * SAMPLE_RATE, 0.01)]))
    assert found.span is not None
    assert abs(found.span[0] - 2.1) < 0.3
    assert abs(found.span[1] - 2 - len(speech) / SAMPLE_RATE) < 0.3
    assert find_speech(noise(3 * SAMPLE_RATE, 0.1)).seconds < 0.5
    assert find_speech(silence(3)).span is None


def test_speech_detection_equals_the_silero_package(speech: Samples) -> None:
    padded = np.concatenate([silence(1), speech, silence(1)])
    heard = torch.from_numpy(soxr.resample(padded, SAMPLE_RATE, 16_000))
    stamps = silero_vad.get_speech_timestamps(
        heard, silero_vad.load_silero_vad(), return_seconds=True, speech_pad_ms=0, time_resolution=3
    )
    span = find_speech(padded).span
    assert span == pytest.approx((stamps[0]["start"], stamps[-1]["end"]), abs=0.04)


def test_speech_probability_equals_the_silero_package(speech: Samples) -> None:
    heard = soxr.resample(np.concatenate([silence(0.3), speech, noise(1000, 0.1)]), SAMPLE_RATE, 16_000)
    network = silero_vad.load_silero_vad()
    expected = network.audio_forward(torch.from_numpy(heard), sr=16_000)[0].numpy()
    assert np.allclose(_likelihood(heard), expected, atol=1e-4)


def test_speech_detection_ignores_short_gaps_and_clicks() -> None:
    likely = np.zeros(100, np.float32)
    likely[10:30] = 0.9
    likely[20:22] = 0.1  # The gap is shorter than a pause.
    likely[50:53] = 0.9  # Click with a duration of 0.1 s.
    likely[60:80] = 0.6
    likely[65:80] = 0.4  # Speech at a lower level.
    found = detect_speech_by_probability(likely, 0.032)
    assert np.flatnonzero(found.windows).tolist() == [*range(10, 30), *range(60, 80)]


# --- Tests of trimming a recording to its speech.


def test_recording_is_trimmed_to_speech_and_ends_in_a_pause(speech: Samples) -> None:
    cleaned = clean_reference(np.concatenate([silence(2), speech, silence(3)]))
    assert not cleaned[-round(PAUSE_S * SAMPLE_RATE) :].any()
    assert abs(len(cleaned) / SAMPLE_RATE - len(speech) / SAMPLE_RATE - PAUSE_S) < 2 * MARGIN_S + 0.2
    middle = speech[len(speech) // 2 :][:10_000]
    assert middle.tobytes() in cleaned.tobytes()


def test_level_based_trimming_is_used_if_no_speech_is_found() -> None:
    tone = (0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE)).astype(np.float32)
    cleaned = clean_reference(np.concatenate([silence(1), tone, silence(1)]))
    assert abs(len(cleaned) / SAMPLE_RATE - 2 - 2 * MARGIN_S - PAUSE_S) <= 0.02
    assert len(clean_reference(silence(0.004))) == round(0.504 * SAMPLE_RATE)
    assert detect_speech_by_level(tone).seconds == pytest.approx(2.0)
    assert "no_speech" in codes(tone)


@pytest.mark.parametrize(("seconds", "is_enough"), [(0.1, False), (0.25, False), (0.35, True)])
def test_recording_too_short_after_trimming_is_refused(seconds: float, is_enough: bool) -> None:
    click = np.concatenate([silence(1), noise(round(seconds * SAMPLE_RATE), 0.3), silence(1)])
    if is_enough:
        assert len(prepare_recording(click, None, LIMITS).samples) >= LIMITS.min_reference_s * SAMPLE_RATE
        return
    with pytest.raises(BadReferenceAudio, match="left after trimming"):
        prepare_recording(click, None, LIMITS)


def test_prepared_recording_with_a_trailing_pause_stays_within_the_reference_limit() -> None:
    longest = np.tile(voice(2.0, 1), 30)
    assert len(prepare_recording(longest, None, LIMITS).samples) == 60 * SAMPLE_RATE


# --- Tests of the advice about a recording.


def test_good_recording_gets_no_advice(speech: Samples) -> None:
    assert codes(speech, WORDS) == set()
    assert codes(np.concatenate([silence(1), speech, silence(1)]), WORDS) == set()


def test_recording_without_speech_gets_no_advice_about_its_length(speech: Samples) -> None:
    found = codes(speech[: 3 * SAMPLE_RATE // 4])
    assert "no_speech" in found
    assert "short" not in found


@pytest.mark.parametrize("code", ["short", "long", "clipping", "noise", "silence", "bandwidth", "quiet", "no_speech"])
def test_each_recording_fault_gets_its_advice_code(speech: Samples, code: str) -> None:
    padded = np.concatenate([silence(0.5), speech, silence(0.5)])
    recordings = {
        "short": speech[: 2 * SAMPLE_RATE],
        "long": np.tile(speech, 9),
        "clipping": np.clip(20 * speech, -1, 1),
        "noise": padded + noise(len(padded), 0.02),
        "silence": np.concatenate([speech, silence(8)]),
        "bandwidth": soxr.resample(soxr.resample(speech, SAMPLE_RATE, 8_000), 8_000, SAMPLE_RATE),
        "quiet": 0.05 * speech,
        "no_speech": noise(4 * SAMPLE_RATE, 0.1),
    }
    found = codes(recordings[code])
    assert code in found
    assert len(found - {"noise", "silence"}) <= 1 or code in {"no_speech", "clipping"}


def with_background(speech: Samples, sound: Samples, below_db: float) -> Samples:
    """Return speech with pauses, mixed with a sound that is `below_db` dB quieter."""
    pause = silence(0.6)
    padded = np.concatenate([pause, speech, pause, speech, pause])
    level = np.sqrt((speech[np.abs(speech) > 0.005] ** 2).mean()) * 10 ** (-below_db / 20)
    return padded + level * np.resize(sound, len(padded))


@pytest.mark.parametrize("below_db", [0, 6, 12, 17, 24, 40])
@pytest.mark.parametrize("sound", [chords(12), drums(12), noise(12 * SAMPLE_RATE, 1)], ids=["chords", "drums", "noise"])
def test_music_and_noise_are_reported_by_their_level_below_the_speech(
    speech: Samples, sound: Samples, below_db: float
) -> None:
    recording = with_background(speech, sound, below_db)
    found = check_recording(recording, None)
    levels = found.levels
    assert levels.speech_db is not None
    if levels.pauses_db is not None:
        # The level of the speech includes the level of the noise. If both are equal, the sum is 3 dB higher.
        expected = 10 * np.log10(1 + 10 ** (below_db / 10))
        assert levels.speech_db - levels.pauses_db == pytest.approx(expected, abs=3)
    assert ("noise" in {hint.code for hint in found.advice}) == (below_db < 20 and levels.pauses_db is not None)
    assert levels.pauses_db is not None or below_db < 12, "only loud music leaves no pause"


@pytest.mark.parametrize("name", ["angus", "clara", "clone", "design_high_fast", "design_low_slow"])
def test_samples_of_the_embedded_voice_are_not_noisy(name: str) -> None:
    samples, rate = soundfile.read(DEMO_CHECKPOINT / "samples" / f"{name}.wav", dtype="float32")
    assert rate == SAMPLE_RATE
    for room_db in (None, 50, 40, 30):
        sound = silence(1) if room_db is None else noise(len(samples), 1)
        found = check_recording(with_background(samples, sound, room_db or 0), None)
        assert "noise" not in {hint.code for hint in found.advice}, room_db


def without_pauses(speech: Samples) -> Samples:
    """Return only the parts of the recording in which the network has detected speech."""
    activity = find_speech(speech)
    flags = np.repeat(activity.windows, round(activity.window_s * SAMPLE_RATE))
    return speech[: len(flags)][flags[: len(speech)]]


@pytest.mark.parametrize(("below_db", "is_noisy"), [(10, True), (14, True), (17, True), (30, False), (None, False)])
def test_steady_noise_is_measured_in_speech_without_pauses(
    speech: Samples, below_db: float | None, is_noisy: bool
) -> None:
    dense = np.tile(without_pauses(speech), 2)
    if below_db is not None:
        dense = dense + noise(len(dense), float(np.sqrt((dense**2).mean())) * 10 ** (-below_db / 20))
    found = check_recording(dense, None)
    assert ("noise" in {advice.code for advice in found.advice}) == is_noisy
    if is_noisy:
        assert found.levels.speech_db is not None
        assert found.levels.pauses_db is not None
        assert found.levels.speech_db - found.levels.pauses_db == pytest.approx(below_db, abs=1.5)


@pytest.mark.parametrize("decay_s", [0.6, 1.2])
def test_echo_in_speech_without_pauses_is_not_noise(speech: Samples, decay_s: float) -> None:
    assert "noise" not in codes(in_room(without_pauses(speech), decay_s, 0.7))


def test_cough_in_one_pause_is_not_noise(speech: Samples) -> None:
    pause = silence(0.3)
    parts = [pause, speech, pause, cough(), pause, speech, pause]
    assert "noise" not in codes(np.concatenate(parts) + noise(sum(map(len, parts)), 1e-4))


def test_advice_is_one_sentence_per_fault() -> None:
    faulty = np.concatenate([np.clip(noise(SAMPLE_RATE, 2.0), -1, 1), silence(3)])
    advice = prepare_recording(faulty, None, LIMITS).advice
    assert len({hint.code for hint in advice}) == len(advice) >= 3
    for hint in advice:
        assert hint.sentence[0].isupper() or hint.sentence[0].isdigit()
        assert hint.sentence.endswith(".")
        assert "\n" not in hint.sentence


@pytest.mark.parametrize(
    ("change", "share"), [("quieter", 0.005), ("quieter", 0.08), ("resampled", 0.005), ("compressed", 0.08)]
)
def test_clipping_is_found_after_the_recording_was_made_quieter(speech: Samples, change: str, share: float) -> None:
    limit = np.quantile(np.abs(speech), 1 - share)
    clipped = 0.2 * np.clip(speech, -limit, limit) / limit
    if change == "resampled":
        clipped = soxr.resample(soxr.resample(clipped, SAMPLE_RATE, 44_100), 44_100, SAMPLE_RATE)
    elif change == "compressed":
        clipped = through_codec(clipped)
    assert "clipping" in codes(clipped)


def through_codec(samples: Samples) -> Samples:
    """Return the samples after MP3 compression."""
    file = io.BytesIO()
    soundfile.write(file, samples, SAMPLE_RATE, format="MP3", compression_level=0.4)
    file.seek(0)
    return soundfile.read(file, dtype="float32")[0]


@pytest.mark.parametrize("change", ["limited", "telephone", "8-bit", "compressed"])
def test_unclipped_speech_at_full_level_gets_no_clipping_advice(speech: Samples, change: str) -> None:
    loud = speech / np.abs(speech).max()
    if change == "limited":
        # A limiter scales each 10 ms to the same peak, and does not cut off single samples.
        peaks = np.abs(loud[: len(loud) // 240 * 240]).reshape(-1, 240).max(axis=1)
        gain = np.minimum(1, 0.2 / np.maximum(peaks, 1e-6))
        loud = loud[: len(peaks) * 240] * np.interp(np.arange(len(peaks) * 240) / 240, np.arange(len(gain)) + 0.5, gain)
    elif change == "telephone":
        narrow = soxr.resample(loud, SAMPLE_RATE, 8_000)
        coded = np.round(127 * np.sign(narrow) * np.log1p(255 * np.abs(narrow)) / np.log(256)) / 127
        loud = soxr.resample(np.sign(coded) * (256 ** np.abs(coded) - 1) / 255, 8_000, SAMPLE_RATE)
    elif change == "8-bit":
        loud = np.round(127 * loud) / 128
    else:
        loud = through_codec(0.8 * loud)
    assert "clipping" not in codes(0.99 * loud)


def in_room(samples: Samples, decay_s: float, direct: float) -> Samples:
    """Return speech in a room with an exponential decay by 60 dB in `decay_s` seconds."""
    time = np.arange(round(decay_s * SAMPLE_RATE)) / SAMPLE_RATE
    response = np.random.default_rng(2).normal(size=len(time)) * 10 ** (-3 * time / decay_s)
    response /= np.sqrt((response**2).sum())
    response[0] = direct
    wet = np.convolve(samples, response)[: len(samples)]
    return (0.5 * wet / np.abs(wet).max()).astype(np.float32)


@pytest.mark.parametrize(
    ("decay_s", "direct", "has_echo"), [(0.6, 0.7, True), (1.2, 0.7, True), (0.2, 2.0, False), (0.4, 4.0, False)]
)
def test_echo_is_reported_for_a_reverberant_room(
    speech: Samples, decay_s: float, direct: float, has_echo: bool
) -> None:
    assert ("echo" in codes(in_room(speech, decay_s, direct))) == has_echo


def test_echo_is_unknown_in_noise(speech: Samples) -> None:
    found = check_recording(speech + noise(len(speech), 0.05), None)
    assert found.levels.decay_db is None
    assert "echo" not in {advice.code for advice in found.advice}


def test_noise_is_measured_in_a_short_silence_and_with_an_offset(speech: Samples) -> None:
    recording = np.concatenate([speech, silence(0.3), speech])
    levels = check_recording(0.5 * recording + np.float32(0.3), None).levels
    assert levels.pauses_db is not None
    assert levels.pauses_db < -60
    samples, _ = soundfile.read(DEMO_CHECKPOINT / "samples" / "clone.wav", dtype="float32")
    pauses_db = check_recording(samples, None).levels.pauses_db
    assert pauses_db is not None
    assert pauses_db < -60


# --- Test of the complete result of the check.


def test_recording_check_reports_the_trimmed_range_and_levels(speech: Samples) -> None:
    recording = np.concatenate([silence(2), speech, silence(3)]) + noise(len(speech) + 120_000, 1e-4)
    found = check_recording(recording, WORDS)
    kept = prepare_recording(recording, WORDS, LIMITS)
    assert found.end_s - found.start_s == pytest.approx(len(kept.samples) / SAMPLE_RATE - PAUSE_S, abs=0.05)
    assert found.start_s == pytest.approx(1.9, abs=0.3)
    assert found.seconds == pytest.approx(5 + len(speech) / SAMPLE_RATE)
    assert found.levels.peak_db == pytest.approx(20 * np.log10(np.abs(speech).max()), abs=0.1)
    assert found.levels.pauses_db == pytest.approx(-80, abs=1)
    assert found.levels.speech_db is not None
    assert -35 < found.levels.speech_db < -5
    assert found.levels.clipped == 0
    quieter = check_recording(0.1 * speech, None).levels
    assert quieter.speech_db == pytest.approx(check_recording(speech, None).levels.speech_db - 20, abs=0.5)


def test_transcript_mismatch_is_reported_with_other_advice(speech: Samples) -> None:
    found = check_recording(np.concatenate([speech, silence(8)]), "Quite another and very much longer text. " * 10)
    assert isinstance(found.mismatch, TranscriptMismatch)
    assert "silence" in {advice.code for advice in found.advice}
    assert check_recording(silence(2), None).levels.peak_db is None


# --- Tests that compare a transcript with the audio.


@pytest.mark.parametrize(
    ("transcript", "seconds"),
    [
        ("The quick brown fox jumps over the lazy dog.", 3.0),
        ("The quick brown fox jumps over the lazy dog.", 5.5),
        ("今天天气很好，我们去公园散步吧。", 3.5),
        ("こんにちは、元気ですか。", 2.5),
        ("안녕하세요 반갑습니다.", 2.0),
        ("Добрый день, как поживаете?", 2.2),
        ("Room 2024.", 1.8),
    ],
)
def test_ordinary_speaking_rate_gets_no_remark(transcript: str, seconds: float) -> None:
    assert list(check_transcript(transcript, seconds)) == []


@pytest.mark.parametrize(("seconds", "word"), [(1.4, "long"), (9.0, "short")])
def test_unusual_speaking_rate_gets_a_remark(seconds: float, word: str) -> None:
    (advice,) = check_transcript("The quick brown fox jumps over the lazy dog.", seconds)
    assert advice.code == "transcript"
    assert word in advice.sentence


@pytest.mark.parametrize(
    ("transcript", "seconds"), [("x" * 300, 3.0), ("Hi.", 20.0), ("你好" * 40, 3.0), ("...", 20.0)]
)
def test_transcript_of_another_recording_is_refused(transcript: str, seconds: float) -> None:
    with pytest.raises(TranscriptMismatch) as refused:
        list(check_transcript(transcript, seconds))
    assert refused.value.param == "ref_text"


def test_transcript_is_compared_with_speech_without_silence(speech: Samples) -> None:
    long = np.concatenate([speech, silence(30)])
    assert "transcript" not in codes(long, WORDS)
    with pytest.raises(TranscriptMismatch):
        prepare_recording(speech, "Quite another and very much longer text. " * 10, LIMITS)
