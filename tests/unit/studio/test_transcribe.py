"""Tests for the transcription of recordings with a plug-in."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from huggingface_hub import constants
from numpy.typing import NDArray

from runtime.errors import InvalidSetting
from runtime.settings import Limits
from studio.routes.transcribe import transcribe_routes
from studio.transcribing import plugin
from studio.transcribing import service as desk_module
from studio.transcribing.plugin import RATE_HZ, Choice, Transcript
from studio.transcribing.service import TranscriptionService
from tests.support.audio_files import audio_file
from tests.support.hub import Hub, serving
from tests.support.signals import voice
from tests.support.spoken import WORDS, generate, share_heard, words_of
from tests.support.timeouts import TEST_TIMEOUT_S, until
from tests.support.whisper import require_whisper, whisper_base
from tests.unit.studio.serving import served

# Environment variable with the path of a file. `Slow` finishes its first transcription only after the file exists.
MAY_END = "VOICEWRIGHT_TEST_MAY_END"
SPHINX = Choice.of("tests.support.sphinx:transcriber")


def wav(samples: NDArray[np.float32], rate: int = 24_000) -> bytes:
    return audio_file(samples, rate)


def asked(
    choice: Choice,
    *recordings: bytes,
    query: str = "",
    limits: Limits | None = None,
    hear: Callable[[httpx.Response], None] = lambda _: None,
) -> list[httpx.Response]:
    """Send concurrent requests to a studio with this recogniser.

    Args:
        choice: Recogniser of the studio.
        recordings: Body of each request.
        query: Query string of the URL.
        limits: Limits of the studio.
        hear: Function that is called with each response.

    Returns:
        The responses, in the order of `recordings`.
    """

    async def run() -> list[httpx.Response]:
        async def post(client: httpx.AsyncClient, url: str, recording: bytes) -> httpx.Response:
            answer = await client.post(url, content=recording)
            hear(answer)
            return answer

        limits_ = limits or Limits()
        service = TranscriptionService(choice, limits_)
        try:
            async with served(transcribe_routes(service, limits_)) as place, httpx.AsyncClient(timeout=300) as client:
                address = f"http://{place}/studio/transcribe"
                posts = [post(client, address + query, recording) for recording in recordings]
                return await asyncio.gather(*posts)
        finally:
            await service.aclose()

    return asyncio.run(run())


def code(response: httpx.Response) -> tuple[int, str, str]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["message"]


def test_recording_is_transcribed() -> None:
    (heard,) = asked(SPHINX, wav(generate()))
    assert heard.status_code == 200
    said = heard.json()
    assert share_heard(WORDS, words_of(said["text"])) >= 0.6, said
    assert (said["language"], said["by"]) == ("en", "pocketsphinx")


def test_missing_recogniser_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("studio.plugins.version", absent)
    absent_ = Choice.of("faster-whisper:small")
    (heard,) = asked(absent_, wav(voice(2, 1)))
    feature = TranscriptionService(absent_, Limits()).feature(is_host=True)
    assert feature["available"] is False
    assert TranscriptionService(absent_, Limits()).feature(is_host=False)["how"] == ""
    own = TranscriptionService(SPHINX, Limits()).feature(is_host=False)
    assert own == {"available": True, "how": "", "model": None}
    status, name, sentence = code(heard)
    assert (status, name) == (501, "transcriber_missing")
    assert "pip install -e clients/python -e '.[asr]'" in str(feature["how"])
    assert "pip" not in sentence, "visitors install nothing"
    assert code(asked(Choice.of(""), b"")[0])[:2] == (501, "transcriber_missing")


@pytest.mark.slow
async def test_host_downloads_whisper_and_resumes_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_whisper()
    (tmp_path / "whisper").mkdir()
    home = tmp_path / "home"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setenv("HF_HOME", str(home))
    path, choice = "/studio/transcribe/model", Choice.of("faster-whisper:base")
    hosts = [False]
    service = TranscriptionService(choice, Limits())
    with serving(Hub({"Systran/faster-whisper-base": whisper_base(tmp_path / "whisper")}, rate=10**6)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        routes = transcribe_routes(service, Limits(), lambda _: hosts[0])
        async with served(routes) as place, httpx.AsyncClient(base_url=f"http://{place}", timeout=300) as client:

            async def until_state(state: str, got: int = 0) -> dict[str, Any]:
                async with asyncio.timeout(TEST_TIMEOUT_S):
                    while True:
                        model: dict[str, Any] = (await client.get(path)).json()["model"]
                        if model["state"] == state and model["got"] >= got:
                            return model
                        await asyncio.sleep(0.05)

            assert code(await client.post(path))[:2] == (403, "host_only")
            hosts[0] = True
            assert (await until_state("absent"))["of"] == 148_000_000
            assert code(await client.post("/studio/transcribe", content=wav(generate())))[1] == "transcriber_missing"
            hub.status = 503
            await client.post(path)
            assert (await until_state("failed"))["problem"]["code"] == "hub_unreachable"
            hub.status = None
            assert (await client.post(path)).json()["model"]["problem"] is None
            assert code(await client.post(path))[:2] == (409, "out_of_order")
            stopped = await until_state("fetching", got=2 * 10**6)
            assert (await client.delete(path)).json()["model"]["state"] == "absent"
            hub.rate = None
            hub.asked.clear()
            await client.post(path)
            here = await until_state("here")
            assert here["got"] == here["of"] > stopped["got"]
            assert [ranges for ranges in hub.weights_asked() if ranges.startswith("bytes=")], "from where it stopped"
            heard = await client.post("/studio/transcribe", content=wav(generate()))
            assert share_heard(WORDS, words_of(heard.json()["text"])) >= 0.9, heard.json()
            assert heard.json()["by"] == "faster-whisper base"
        await service.aclose()


def test_invalid_recording_is_refused_before_loading_the_recogniser() -> None:
    choice = Choice.of("tests.support.sphinx:break_sphinx")
    assert code(asked(choice, b"no sound")[0])[:2] == (400, "invalid_ref_audio")
    assert code(asked(choice, wav(voice(0.3, 1)))[0])[:2] == (400, "ref_too_short")
    assert code(asked(choice, wav(voice(3, 1)), limits=Limits(max_reference_s=2))[0])[:2] == (400, "ref_too_long")
    limits = Limits(max_upload_bytes=1024)
    assert code(asked(choice, wav(voice(3, 1)), limits=limits)[0])[:2] == (413, "message_too_large")


@pytest.mark.logs_errors
def test_recogniser_error_is_reported_without_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    (heard,) = asked(Choice.of("tests.support.sphinx:break_sphinx"), wav(voice(2, 1)))
    status, name, sentence = code(heard)
    assert (status, name) == (500, "transcription_failed")
    assert "no model" not in sentence
    assert "no model of that name" in caplog.text
    assert code(asked(Choice.of("no.such.module:function"), wav(voice(2, 1)))[0])[1] == "transcription_failed"


class Slow:
    """Fake recogniser whose transcript contains its input, its times and its instance count."""

    name = "slow"
    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def transcribe(self, samples: NDArray[np.float32], language: str | None) -> Transcript:
        begun = time.monotonic()
        until(Path(os.environ[MAY_END]).exists)
        return Transcript(f" {len(samples)} {language} {type(self).made} {os.getpid()} {begun} {time.monotonic()} ")


def crash() -> Slow:
    os._exit(9)


@pytest.mark.slow
def test_recordings_are_transcribed_one_at_a_time_with_a_bounded_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, may_end = wav(voice(2, 1)), tmp_path / "may end"
    monkeypatch.setenv(MAY_END, str(may_end))
    refused = 10 - desk_module.MAX_WAITING

    def hear(_: httpx.Response) -> None:
        nonlocal refused
        refused -= 1
        if refused == 0:  # The first transcription ends only after all other requests have been refused.
            may_end.touch()

    choice = Choice.of("tests.unit.studio.test_transcribe:Slow")
    answers = asked(choice, *[sound] * 10, query="?language=German", hear=hear)
    done = [answer.json()["text"].split(" ") for answer in answers if answer.status_code == 200]
    assert len(done) == desk_module.MAX_WAITING
    assert {code(answer)[1] for answer in answers if answer.status_code != 200} == {"transcriber_busy"}
    assert {tuple(said[:3]) for said in done} == {(str(2 * RATE_HZ), "de", "1")}
    (process,) = {int(said[3]) for said in done}
    assert process != os.getpid()
    times = sorted((float(said[4]), float(said[5])) for said in done)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


@pytest.mark.slow
@pytest.mark.logs_errors
def test_recogniser_crash_affects_no_other_request() -> None:
    answers = asked(Choice.of("tests.unit.studio.test_transcribe:crash"), wav(voice(2, 1)), wav(voice(2, 2)))
    assert {code(answer)[1] for answer in answers} == {"transcription_failed"}


@pytest.mark.parametrize("setting", ["whisper", "a:b:c", "../x:y", "a b:c", ":x", "module:"])
def test_recogniser_setting_that_cannot_be_imported_is_refused(setting: str) -> None:
    with pytest.raises(InvalidSetting):
        Choice.of(setting)


def test_install_hint_names_the_packaged_extra() -> None:
    extras = importlib.metadata.metadata("voicewright").get_all("Requires-Dist") or []
    named = [extra for extra in extras if extra.startswith(plugin.BUILT_IN)]
    assert not extras or not named or all("asr" in package for package in named)
