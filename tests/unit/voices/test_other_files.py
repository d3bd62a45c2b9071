"""Tests for voice files of the official demo and of voicebox."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from runtime.engine.engine import Engine
from runtime.errors import ConsentRequired, InvalidConfig, VoiceFileInvalid
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Mode, SpeechRequest, VoicePrompt
from runtime.server.voices.forms import VoiceForm, voice_from_form
from runtime.settings import Limits
from runtime.voices.voice import Voice
from runtime.voices.voice_file import read_voice, write_voice
from tests.support.engines import cloned, engine_of, speak
from tests.support.signals import voice

FIELDS = {"name": "Wilma", "consent": "Wilma said yes."}
TEXT = "One two three four five six."


def demo_file(prompt: VoicePrompt, text: str | None = "Some words.", **changes: Any) -> bytes:
    """Return a file as saved by the official demo: ``torch.save({"items": [asdict(item)]})``."""
    item = {
        "ref_code": None if prompt.codes is None else torch.tensor(prompt.codes),
        "ref_spk_embedding": torch.tensor(prompt.x_vector).to(torch.bfloat16),
        "x_vector_only_mode": prompt.codes is None,
        "icl_mode": prompt.codes is not None,
        "ref_text": text,
    }
    file = io.BytesIO()
    torch.save({"items": [{**item, **changes}]}, file)
    return file.getvalue()


def profile_file(recordings: dict[str, tuple[float, str]], **members: bytes) -> bytes:
    """Return a profile as exported by voicebox: manifest.json, samples.json and samples/*.wav."""
    file = io.BytesIO()
    about = {"name": "Wilma", "description": "calm", "language": "en"}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps({"version": "1.0", "profile": about, "has_avatar": False}))
        archive.writestr("samples.json", json.dumps({name: text for name, (_, text) in recordings.items()}))
        for number, (name, (seconds, _)) in enumerate(recordings.items()):
            sound = io.BytesIO()
            soundfile.write(sound, voice(seconds, number), 24_000, format="WAV", subtype="PCM_16")
            archive.writestr(f"samples/{name}", members.get(name, sound.getvalue()))
    return file.getvalue()


def imported(file: bytes, limits: Limits | None = None, **fields: str) -> Voice:
    form = VoiceForm({**FIELDS, **fields}, voice_file=file)
    return read_voice(write_voice(voice_from_form(form, limits or Limits())))


def spoken_with(stored: Voice, **kwargs: Any) -> SpeechRequest:
    return replace(cloned(max_frames=3, **kwargs), reference=stored.as_reference("of no checkpoint"))


def prompt_for(engine: Engine, request: SpeechRequest) -> VoicePrompt:
    assert request.reference is not None
    made: list[Any] = []
    engine.prepare(request.reference, Mode.BASE, made.append)
    (prompt,) = made
    assert isinstance(prompt, VoicePrompt)
    # The official demo stores x-vectors in bfloat16.
    x_vector = torch.tensor(prompt.x_vector).to(torch.bfloat16).float().numpy()
    return replace(prompt, x_vector=x_vector)


@pytest.mark.parametrize("is_x_vector_only", [False, True])
def test_demo_voice_gives_the_codes_of_the_clone_that_it_was_saved_from(
    cloner: Checkpoint, is_x_vector_only: bool
) -> None:
    engine = engine_of(cloner)
    clone = cloned(max_frames=3, x_vector_only=is_x_vector_only)
    assert clone.reference is not None
    prompt = prompt_for(engine, clone)
    stored = imported(demo_file(prompt, clone.reference.text))
    assert (stored.name, stored.provenance["source"]) == ("Wilma", "qwen-tts demo")
    same = replace(clone, reference=replace(clone.reference, prompt=prompt))
    assert np.array_equal(speak(engine, spoken_with(stored)).codes, speak(engine, same).codes)


def test_demo_voice_of_another_width_is_refused_by_the_checkpoint(cloner: Checkpoint) -> None:
    prompt = VoicePrompt(fingerprint="", x_vector=np.ones(2048, np.float32))
    with pytest.raises(InvalidConfig, match="x-vector has 2048 numbers; this checkpoint needs") as refused:
        speak(engine_of(cloner), spoken_with(imported(demo_file(prompt))))
    assert refused.value.param == "voice"


@pytest.mark.parametrize(
    "codes",
    [np.zeros((3, 99), np.int64), np.full((3, 16), 10**5), np.full((3, 16), -1), np.zeros((2000, 16), np.int64)],
)
def test_demo_voice_with_codes_of_another_model_is_refused(cloner: Checkpoint, codes: np.ndarray[Any, Any]) -> None:
    x_vector = np.ones(cloner.config.talker.hidden_size, np.float32)
    request = spoken_with(imported(demo_file(VoicePrompt(fingerprint="", x_vector=x_vector))))
    assert request.reference is not None
    prompt = VoicePrompt(fingerprint="imported", x_vector=x_vector, codes=codes)
    reference = replace(request.reference, prompt=prompt, text="Words.", x_vector_only=False)
    with pytest.raises(InvalidConfig, match="its codes"):
        speak(engine_of(cloner), replace(request, reference=reference))


PROMPT = VoicePrompt(fingerprint="", x_vector=np.ones(8, np.float32))
NO_DEMO_VOICES = {
    "another dictionary": lambda: demo_file(PROMPT, ref_spk_embedding=5),
    "not finite": lambda: demo_file(replace(PROMPT, x_vector=np.full(8, np.nan, np.float32))),
    "too wide": lambda: demo_file(replace(PROMPT, x_vector=np.ones(9000, np.float32))),
    "codes of another shape": lambda: demo_file(PROMPT, ref_code=torch.zeros(3), x_vector_only_mode=False),
    "damaged": lambda: demo_file(PROMPT)[:-300],
    "compressed": lambda: _compressed(demo_file(PROMPT)),
    "a huge pickle index": lambda: _with_pickle(b"\x80\x02}r\xff\xff\xff\x7f."),
}


def _with_pickle(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3")
    return file.getvalue()


def _compressed(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    return file.getvalue()


@pytest.mark.parametrize("fault", NO_DEMO_VOICES)
def test_file_without_a_demo_voice_is_refused(fault: str) -> None:
    with pytest.raises(VoiceFileInvalid):
        imported(NO_DEMO_VOICES[fault]())


def test_voicebox_profile_becomes_a_recorded_voice() -> None:
    stored = imported(profile_file({"a.wav": (2.0, TEXT), "b.wav": (3.0, TEXT)}), name="Betty")
    assert (stored.name, stored.description, stored.language) == ("Betty", "calm", "english")
    assert stored.transcript == f"{TEXT} {TEXT}"
    assert 5 < len(stored.reference) / 24_000 < 6.5
    assert stored.provenance["source"] == "voicebox"
    assert (
        voice_from_form(VoiceForm({"consent": "Yes."}, voice_file=profile_file({"a.wav": (3.0, TEXT)})), Limits()).name
        == "Wilma"
    )


def test_unusable_recordings_of_a_profile_are_reported() -> None:
    file = profile_file({"a.wav": (3.0, TEXT), "b.wav": (3.0, TEXT), "c.wav": (3.0, TEXT)})
    stored = imported(file, Limits(max_reference_s=7))
    assert stored.transcript == f"{TEXT} {TEXT}"
    assert "The profile has 3 recordings; 1 of them did not fit and were left out." in stored.advice


def test_damaged_voicebox_profile_is_refused() -> None:
    with pytest.raises(VoiceFileInvalid, match="its profile has no recording"):
        imported(profile_file({}))
    file = profile_file({"a.wav": (2.0, TEXT)}).replace(b"samples/a.wav", b"samples/b.wav")
    with pytest.raises(VoiceFileInvalid, match="lacks a recording"):
        imported(file)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(64 * 2**20))
        archive.writestr("samples.json", "{}")
    with pytest.raises(VoiceFileInvalid, match="16 MB"):
        imported(bomb.getvalue())


def test_voice_of_another_program_needs_consent() -> None:
    with pytest.raises(ConsentRequired):
        voice_from_form(VoiceForm({"name": "Wilma"}, voice_file=demo_file(PROMPT)), Limits())
