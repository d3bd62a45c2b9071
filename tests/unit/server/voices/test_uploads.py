"""Tests for reference audio in client messages: base64, data URLs and limits."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote

import numpy as np
import pytest

from runtime.errors import SpeechError
from runtime.server.voices.uploads import read_upload
from runtime.settings import Limits
from tests.support.audio_files import audio_file
from tests.support.signals import voice

VOICE = voice(1.5, 3)


def wav() -> str:
    return base64.b64encode(audio_file(VOICE)).decode()


@pytest.mark.parametrize("head", ["", "data:audio/wav;base64,", "data:;base64,", "DATA:audio/x-wav;codecs=1;base64,"])
def test_base64_is_accepted_with_and_without_a_data_url(head: str) -> None:
    read = read_upload(head + wav(), Limits())
    assert isinstance(read, np.ndarray)
    assert np.array_equal(read, VOICE)


@pytest.mark.parametrize("head", ["", "data:audio/webm;codecs=opus;base64,"])
@pytest.mark.parametrize(
    "written",
    [
        lambda text: "\n".join(text[place : place + 76] for place in range(0, len(text), 76)) + "\n",
        lambda text: "\r\n".join(text[place : place + 64] for place in range(0, len(text), 64)),
        lambda text: text.rstrip("="),
        lambda text: text.translate(str.maketrans("+/", "-_")),
        lambda text: " " + text.rstrip("=").translate(str.maketrans("+/", "-_")) + "\t",
    ],
    ids=["base64 FILE", "PEM", "unpadded", "URL-safe", "all of it"],
)
def test_base64_variants_of_common_encoders_are_accepted(written: Callable[[str], str], head: str) -> None:
    assert {"+", "/", "="} <= set(wav())
    read = read_upload(head + written(wav()), Limits())
    assert isinstance(read, np.ndarray)
    assert np.array_equal(read, VOICE)


def test_data_url_may_be_percent_encoded() -> None:
    read = read_upload("data:audio/wav;base64," + quote(wav(), safe=""), Limits())
    assert isinstance(read, np.ndarray)
    assert np.array_equal(read, VOICE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "é",
        "AAA",
        "AAAA AAAA",
        "data:audio/wav,RIFF",
        "data:audio/wav;base64,???",
        "/etc/passwd",
        "../../etc/passwd",
    ],
)
def test_input_that_is_not_base64_is_refused_without_network_or_file_access(text: str) -> None:
    error = read_upload(text, Limits())
    assert isinstance(error, SpeechError)
    assert (error.code, error.param) == ("invalid_ref_audio", "ref_audio")
    assert "passwd" not in str(error)


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:8210/x.wav", "https://example.org/x.wav", "file:///etc/passwd", "FILE:/etc/hostname"]
)
def test_urls_are_refused_without_network_access(text: str) -> None:
    error = read_upload(text, Limits())
    assert isinstance(error, SpeechError)
    assert (error.code, error.param) == ("address_refused", "ref_audio")
    assert "passwd" not in str(error)


def test_upload_over_the_limit_is_refused() -> None:
    limits = Limits(max_upload_bytes=30_000)
    for size, code in [(30_000, "invalid_ref_audio"), (30_001, "message_too_large")]:
        error = read_upload(base64.b64encode(bytes(size)).decode(), limits)
        assert isinstance(error, SpeechError)
        assert error.code == code
