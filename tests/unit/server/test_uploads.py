"""Reference audio as messages carry it."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile

from runtime.errors import AddressRefused, SpeechError
from runtime.server.uploads import read_upload
from runtime.settings import Limits
from tests.support.signals import voice

VOICE = voice(1.5, 3)


def wav() -> str:
    file = io.BytesIO()
    soundfile.write(file, VOICE, 24_000, format="WAV", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize("head", ["", "data:audio/wav;base64,", "data:;base64,", "DATA:audio/x-wav;codecs=1;base64,"])
def test_base64_is_taken_bare_and_as_data_url(head: str) -> None:
    read = read_upload(head + wav(), Limits())
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
        "http://127.0.0.1:8210/x.wav",
        "file:///etc/passwd",
        "/etc/passwd",
        "../../etc/passwd",
        "FILE:/etc/hostname",
    ],
)
def test_anything_else_is_refused_and_nothing_is_opened(text: str) -> None:
    error = read_upload(text, Limits())
    assert isinstance(error, SpeechError)
    is_address = ":/" in text
    assert (error.code, error.param) == ("address_refused" if is_address else "invalid_ref_audio", "ref_audio")
    assert "passwd" not in str(error)


def test_an_https_address_is_fetched_where_the_server_has_a_fetch() -> None:
    asked: list[str] = []

    def fetch(address: str) -> bytes:
        asked.append(address)
        return base64.b64decode(wav())

    read = read_upload("HTTPS://voices.example/x.wav", Limits(), fetch)
    assert isinstance(read, np.ndarray)
    assert np.array_equal(read, VOICE)
    for other in ("http://voices.example/x.wav", "file:///etc/passwd", "https:/x"):
        assert isinstance(read_upload(other, Limits(), fetch), AddressRefused)
    assert asked == ["HTTPS://voices.example/x.wav"]
