"""Tests that uploaded pickles are refused without being executed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from runtime.errors import BadReferenceAudio, VoiceFileInvalid
from runtime.settings import Limits
from runtime.shared.audio.reference import read_reference
from runtime.voices.other_files import read_foreign_voice_file
from runtime.voices.voice_file import read_voice
from studio.documents.reading import read as read_document
from studio.documents.values import UnreadableError


class Trap:
    """Object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.fixture(params=["pickle", "torch.save"])
def trapped(request: pytest.FixtureRequest, tmp_path: Path) -> bytes:
    if request.param == "pickle":
        return pickle.dumps(Trap(tmp_path / "sprung"))
    torch.save({"reference": Trap(tmp_path / "sprung")}, tmp_path / "voice.pt")
    return (tmp_path / "voice.pt").read_bytes()


def test_pickles_are_refused_at_every_input(trapped: bytes, tmp_path: Path) -> None:
    with pytest.raises(VoiceFileInvalid):
        read_voice(trapped)
    with pytest.raises(VoiceFileInvalid):
        read_foreign_voice_file(trapped, Limits())
    with pytest.raises(BadReferenceAudio):
        read_reference(trapped, Limits())
    with pytest.raises(UnreadableError):
        read_document(trapped)
    assert not (tmp_path / "sprung").exists()


def test_trap_file_is_created_by_unpickling(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()
