"""Tests for voice files: written voices are read unchanged, and other files are refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from runtime.errors import InvalidConfig, VoiceFileInvalid
from runtime.request import SAMPLE_RATE, VoicePrompt
from runtime.shared.names import MAX_NAME_CHARS, checked_name, is_id, name_key
from runtime.voices.voice import Consent, Voice, to_float, to_pcm
from runtime.voices.voice_file import MAX_BYTES, MAX_PROMPTS, MAX_REFERENCE_S, read_voice, write_voice
from tests.support.examples import examples
from tests.support.signals import voice as signal
from tests.support.voices import BOMBS, create_prompt, create_voice, create_voice_file

FIRST = Path(__file__).with_name("data") / "first_version.voice"  # File of version 1, which has no tags.


def assert_same(one: Voice, other: Voice) -> None:
    for field in fields(Voice):
        if field.name not in {"reference", "prompts"}:
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    assert np.array_equal(one.reference, other.reference)
    assert one.prompts.keys() == other.prompts.keys()
    for name, made in one.prompts.items():
        assert np.array_equal(made.x_vector, other.prompts[name].x_vector)
        assert (made.codes is None) == (other.prompts[name].codes is None)
        if made.codes is not None:
            assert np.array_equal(made.codes, other.prompts[name].codes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prompts": {}},
        {"description": None, "tags": (), "transcript": None, "consent": None, "provenance": {}, "advice": ()},
        {"name": "Zoë 🎙️ می‌خواهم"},
        {"reference": np.array([-32768, 0, 32767], np.int16)},
        {
            "transcript": "\x01" * 4096,
            "advice": ("ÿ" * 500,) * 32,
            "provenance": {f"{n}": "好" * 500 for n in range(32)},
        },
    ],
)
def test_written_voice_reads_back_equal(changes: dict[str, Any]) -> None:
    made = create_voice(**changes)
    read = read_voice(write_voice(made))
    assert_same(read, made)
    assert all(prompt.x_vector.flags.writeable for prompt in read.prompts.values())


def test_voice_without_tags_is_compatible_with_older_readers() -> None:
    for tags, version in [((), b'"version":"1"'), (("calm",), b'"version":"2"')]:
        assert version in write_voice(create_voice(tags=tags))


def test_voice_file_of_version_1_can_be_read() -> None:
    voice = read_voice(FIRST.read_bytes())
    assert (voice.name, voice.tags, voice.transcript) == ("Clara", (), "„Guten Morgen“, 你好.")
    assert list(voice.prompts) == ["abc", "d-e_f"]


def test_samples_on_the_16_bit_grid_are_preserved_exactly() -> None:
    samples = signal(1.0, 4)
    assert np.array_equal(to_float(to_pcm(samples)), samples)
    assert np.abs(to_pcm(4 * samples / np.abs(samples).max())).max() <= 32768
    loud = to_float(to_pcm((3 * samples).astype(np.float32)))
    assert np.corrcoef(loud, samples)[0, 1] > 0.999999  # The samples are scaled down and not clipped.


SMALL = write_voice(create_voice(prompts={"abc": create_prompt()}, reference=np.arange(50, dtype=np.int16)))


def test_change_of_any_byte_of_a_voice_file_is_detected() -> None:
    for place in range(len(SMALL)):
        for flip in (0x01, 0x20, 0x80):
            data = bytearray(SMALL)
            data[place] ^= flip
            try:
                read = read_voice(bytes(data))
            except VoiceFileInvalid:
                continue
            raise AssertionError(f"byte {place} of {len(SMALL)} may change: {read.name}")


def test_truncation_of_a_voice_file_at_any_position_is_detected() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(VoiceFileInvalid):
            read_voice(SMALL[:length])
    with pytest.raises(VoiceFileInvalid):
        read_voice(SMALL + b"\0")


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=400), st.integers(0, len(SMALL)), st.integers(0, 40))
def test_arbitrary_bytes_are_refused_as_a_voice_file(rubbish: bytes, place: int, gone: int) -> None:
    for data in (rubbish, SMALL[:place] + rubbish + SMALL[place + gone :]):
        if data != SMALL:
            with pytest.raises(VoiceFileInvalid):
                read_voice(data)


def rewritten(change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return a small voice file with a changed header for the same tensors."""
    end = 8 + int.from_bytes(SMALL[:8], "little")
    header = json.loads(SMALL[8:end])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + SMALL[end:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda header: header["__metadata__"].update(version="4"), "version"),
        (lambda header: header["__metadata__"].update(version="3"), "neither a recording"),
        (lambda header: header["__metadata__"].update(version="1"), "metadata"),  # Version 1 has no tags.
        (lambda header: header["__metadata__"].update(format="pt"), "not a voice file"),
        (lambda header: header.pop("__metadata__"), "not a voice file"),
        (lambda header: header["__metadata__"].pop("sha256"), "metadata"),
        (lambda header: header["__metadata__"].update(extra="x"), "metadata"),
        (lambda header: header["__metadata__"].update(name=7), "not text"),
        (lambda header: header["__metadata__"].update(name="Other"), "checksum"),
        (lambda header: header.pop("reference"), "lacks the reference"),
        (lambda header: header["reference"].update(dtype="F32"), "tensor"),
        (lambda header: header["reference"].update(shape=[25, 2]), "tensor"),
        (lambda header: header["reference"].update(shape=[-50]), "shape"),
        (lambda header: header["reference"].update(shape=[True]), "shape"),
        (lambda header: header["reference"].update(shape=[MAX_REFERENCE_S * SAMPLE_RATE + 1]), "tensor"),
        (lambda header: header["reference"].update(data_offsets=[0, 10**15]), "are not at the offsets"),
        (lambda header: header["reference"].update(extra=1), "header"),
        (lambda header: header.update(model=header["reference"]), "tensor"),
        (lambda header: header.update({"prompt.../../x.codes": header["reference"]}), "tensor"),
        (lambda header: header.update({f"prompt.{n}.codes": header["reference"] for n in range(99)}), "too many"),
    ],
)
def test_foreign_header_is_refused_with_its_reason(change: Callable[[dict[str, Any]], None], reason: str) -> None:
    with pytest.raises(VoiceFileInvalid, match=reason):
        read_voice(rewritten(change))


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "../../etc/passwd"},
        {"name": ""},
        {"name": "a\x00b"},
        {"name": "a\u202eb"},
        {"name": "e\u0301"},  # The accent is not composed (NFC).
        {"language": "../en"},
        {"description": "x" * 501},
        {"transcript": "x" * 4097},
        {"tags": ("x" * 33,)},
        {"tags": ("calm", "Calm")},
        {"tags": (" calm",)},
        {"tags": tuple(f"{number}" for number in range(17))},
        {"created_at": float("inf")},
        {"consent": Consent(words="x" * 501)},
        {"provenance": {str(number): "x" for number in range(33)}},
        {"prompts": {"abc": VoicePrompt(fingerprint="abc", x_vector=np.full(4, np.nan, np.float32))}},
        {
            "prompts": {
                "abc": VoicePrompt(fingerprint="abc", x_vector=np.ones(4, np.float32), codes=np.full((2, 16), -1))
            }
        },
        {"prompts": {str(number): create_prompt(str(number)) for number in range(MAX_PROMPTS + 1)}},
        {"reference": np.zeros(0, np.int16)},
    ],
)
def test_invalid_voice_with_a_valid_checksum_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(VoiceFileInvalid):
        read_voice(write_voice(create_voice(**changes)))


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_malicious_voice_file_is_refused(bomb: dict[str, str]) -> None:
    with pytest.raises(VoiceFileInvalid):
        read_voice(create_voice_file(create_voice(), **bomb))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (2**63).to_bytes(8, "little") + b"{}",
        (200_000).to_bytes(8, "little") + b"[" * 200_000,
        pickle.dumps({"reference": 1}),
        save({"reference": np.zeros(10, np.int16)}),
        save({"weight": np.zeros(10, np.float32)}, {"format": "pt"}),
        bytes(MAX_BYTES + 1),
    ],
)
def test_files_of_other_formats_are_refused_as_voice_files(data: bytes) -> None:
    with pytest.raises(VoiceFileInvalid):
        read_voice(data)


def test_voice_file_with_a_duplicate_key_is_refused() -> None:
    end = 8 + int.from_bytes(SMALL[:8], "little")
    text = SMALL[8:end].rstrip()[:-1] + b',"__metadata__":{}}'
    with pytest.raises(VoiceFileInvalid, match="JSON"):
        read_voice(len(text).to_bytes(8, "little") + text + SMALL[end:])


@settings(max_examples=examples(500))
@given(st.text(max_size=80))
def test_name_is_stored_as_displayed_or_refused(name: str) -> None:
    try:
        kept = checked_name(name)
    except InvalidConfig:
        return
    assert 1 <= len(kept) <= MAX_NAME_CHARS
    assert checked_name(kept) == kept
    assert not is_id(kept)
    kept.encode()


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\t",
        "a\nb",
        "a\x7fb",
        "\u202dx",
        "x\u2066",
        "\ud800",
        "x\u2028y",
        "\ue000",
        "F" * 32,
        "\u200d\u200c",
        "\u3164",
        "Voice:clara",
        "ｖoice：clara",
    ],
)
def test_deceptive_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig):
        checked_name(name)


@pytest.mark.parametrize(
    "name", ["Ангус", "Κλάρα", "Anna 安娜", "Zoë 2", "さくら A", "DJ Смэш", "Анна TTS", "👩\u200d🎤"]
)
def test_names_in_any_alphabet_are_accepted(name: str) -> None:
    assert checked_name(name) == name


def test_equivalent_voice_names_have_one_key() -> None:
    for one, other in [("Clara", "CLARA"), ("straße", "STRASSE"), ("Ａ", "a"), ("Zoë", "Zoe\u0308"), ("ﬁn", "FIN")]:
        assert name_key(checked_name(one)) == name_key(checked_name(other))
    assert name_key("Clara") != name_key("Klara")
