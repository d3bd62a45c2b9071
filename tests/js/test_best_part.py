"""Tests for the automatic selection in a recording with a cough, a hum and silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.js.conftest import Node
from tests.support.signals import cough, creak, hush, knock, voice
from tests.support.spoken import generate

RATE = 24_000
READ = """
  const { readFileSync } = await import('node:fs');
  const bytes = readFileSync(path);
  const pcm = new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
"""


def phrase(seconds: float, seed: int) -> NDArray[np.float32]:
    return voice(seconds, seed)


def silence(seconds: float) -> NDArray[np.float32]:
    return np.zeros(round(seconds * RATE), np.float32)


def hum(seconds: float) -> NDArray[np.float32]:
    time = np.arange(round(seconds * RATE)) / RATE
    tone = np.sin(2 * np.pi * 100 * time) + 0.5 * np.sin(2 * np.pi * 200 * time + 1)
    return (0.05 * tone).astype(np.float32)


def recorded(path: Path, *parts: NDArray[np.float32], noise_db: float = -62) -> tuple[str, list[float]]:
    """Write consecutive pieces of audio, with background noise, to a file.

    The result is the path of the file and the start of each piece in seconds.
    """
    quiet = np.concatenate(parts)
    sound = quiet + 10 ** (noise_db / 20) * np.random.RandomState(7).standard_normal(len(quiet))
    file = path / "recording.s16"
    (sound.clip(-1, 1) * 32767).astype("<i2").tofile(file)
    begins = np.cumsum([0, *(len(part) / RATE for part in parts)])
    return str(file), [float(begin) for begin in begins]


def heard(node: Node, path: str, cuts: list[dict[str, float]] | None = None) -> dict[str, Any]:
    """Return the selected part of a recording, with faults of the part and of the recording."""
    body = f"""async ({{ path, cuts }}) => {{
      {READ}
      const {{ analyseRecording }} = await import('/js/clone/speech_detection.js');
      const {{ bestPart, faultsOf }} = await import('/js/clone/selection.js');
      const analysis = analyseRecording(pcm);
      const best = bestPart(analysis);
      const all = faultsOf(analysis, {{ start: 0, end: analysis.seconds, cuts }});
      return {{ best, all, within: best && faultsOf(analysis, {{ ...best, cuts: [] }}) }};
    }}"""
    found: dict[str, Any] = node.evaluate(body, {"path": path, "cuts": cuts or []})
    return found


def codes(faults: list[dict[str, Any]]) -> list[str]:
    return [fault["code"] for fault in faults]


@pytest.mark.parametrize("noise_db", [-70, -50])
def test_best_part_of_a_long_recording_contains_no_cough_hum_or_silence(
    node: Node, tmp_path: Path, noise_db: float
) -> None:
    bad = [silence(1.5), phrase(4, 1), cough(), phrase(3, 2), silence(2), hum(4)]
    good = [silence(0.5), *(piece for seed in (3, 4, 5, 6) for piece in (phrase(3, seed), silence(0.4)))]
    late = [cough(2), silence(1), phrase(2.5, 1)]
    path, begins = recorded(tmp_path, *bad, *good, *late, noise_db=noise_db)
    found = heard(node, path)
    assert [code for code in codes(found["all"]) if code != "pause"] == ["cough", "hum", "cough"]
    coughs = [fault["at"] for fault in found["all"] if fault["code"] == "cough"]
    assert coughs == pytest.approx([begins[2], begins[15]], abs=0.06)
    best = found["best"]
    assert 10 <= best["end"] - best["start"] <= 15
    assert begins[6] <= best["start"] <= begins[7] + 0.1, "it begins in the pause before the good part"
    assert best["end"] <= begins[15]
    assert found["within"] == []


def test_loud_sh_sound_is_not_a_cough(node: Node, tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, *(piece for seed in range(1, 6) for piece in (phrase(1.5, seed), hush(seed))))
    assert codes(heard(node, path)["all"]) == []


def test_creaky_end_of_speech_is_not_a_cough(node: Node, tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, silence(1), generate(seed=1), silence(1))
    assert heard(node, path)["within"] == []
    pieces = (piece for seed in range(1, 6) for piece in (phrase(1.5, seed), creak(seed), silence(0.4)))
    path, _ = recorded(tmp_path, *pieces)
    assert codes(heard(node, path)["all"]) == []


@pytest.mark.parametrize("noise", [cough, knock])
def test_coughs_and_knocks_in_pauses_are_found(
    node: Node, tmp_path: Path, noise: Callable[[int], NDArray[np.float32]]
) -> None:
    pieces = [piece for seed in range(1, 6) for piece in (phrase(1.5, seed), silence(0.4), noise(seed), silence(0.4))]
    path, begins = recorded(tmp_path, *pieces)
    faults = heard(node, path)["all"]
    assert [fault["at"] for fault in faults if fault["code"] == "cough"] == pytest.approx(begins[2:-1:4], abs=0.04)


def test_clipped_speech_contains_no_coughs(node: Node, tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, silence(0.5), 40 * generate(seed=4), silence(0.5))
    assert codes(heard(node, path)["all"]) == []


def test_pure_tone_contains_no_speech(node: Node, tmp_path: Path) -> None:
    time = np.arange(10 * RATE) / RATE
    path, _ = recorded(tmp_path, (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32), noise_db=-120)
    found = heard(node, path)
    assert (found["best"], codes(found["all"])) == (None, ["hum"])


def test_short_recording_is_trimmed_to_its_speech(node: Node, tmp_path: Path) -> None:
    path, begins = recorded(tmp_path, silence(2), phrase(4, 1), silence(0.3), phrase(3, 2), silence(3))
    best = heard(node, path)["best"]
    assert best["start"] == pytest.approx(begins[1] - 0.15, abs=0.1)
    assert best["end"] == pytest.approx(begins[4] + 0.15, abs=0.1)


def test_part_is_selected_of_speech_without_pauses_but_not_of_silence(node: Node, tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, voice(60, 9))
    best = heard(node, path)["best"]
    assert 10 <= best["end"] - best["start"] <= 15
    path, _ = recorded(tmp_path, silence(20))
    assert heard(node, path) == {"best": None, "all": [], "within": None}
    path, _ = recorded(tmp_path, hum(6))
    assert heard(node, path)["best"] is None


def test_removed_recording_faults_are_not_reported_again(node: Node, tmp_path: Path) -> None:
    path, begins = recorded(tmp_path, phrase(4, 1), cough(), phrase(3, 2), silence(2), phrase(3, 3))
    faults = heard(node, path)["all"]
    assert codes(faults) == ["cough", "pause"]
    assert faults[1]["at"] == pytest.approx(begins[3], abs=0.15)
    left = heard(node, path, [fault["out"] for fault in faults])["all"]
    assert left == []


def test_cut_removes_its_duration_and_leaves_no_click(node: Node, tmp_path: Path) -> None:
    time = np.arange(RATE) / RATE
    path, _ = recorded(tmp_path, (0.4 * np.sin(2 * np.pi * 200 * time)).astype(np.float32), noise_db=-120)
    body = f"""async (path) => {{
      {READ}
      const {{ Reference }} = await import('/js/clone/reference.js');
      const reference = new Reference({{ pcm, name: '', source: 'upload', maxSeconds: 60 }});
      const whole = [...reference.selectedPcm];
      const before = reference.selection;
      reference.cutOut({{ start: 0.301, end: 0.4 }});
      reference.cutOut({{ start: 0.35, end: 0.5 }});
      reference.cutOut({{ start: 0.8, end: 0.9 }});
      const {{ cuts, length }} = reference;
      const cut = [...reference.selectedPcm];
      reference.move('start', 0.45);
      const late = reference.selectedPcm.length;
      reference.select(before);
      return {{ whole, cut, cuts, length, late, again: [...reference.selectedPcm].length }};
    }}"""
    found = node.evaluate(body, path)
    assert found["cuts"] == [{"start": 0.301, "end": 0.5}, {"start": 0.8, "end": 0.9}]
    assert found["length"] == pytest.approx(0.701)
    cut = np.array(found["cut"])
    assert len(cut) == pytest.approx(0.701 * RATE, abs=2 * 0.008 * RATE + 3)
    steepest = np.abs(np.diff(np.array(found["whole"]))).max()
    assert np.abs(np.diff(cut)).max() <= 1.5 * steepest
    assert found["late"] == pytest.approx((1 - 0.5 - 0.1) * RATE, abs=0.01 * RATE)
    assert found["again"] == RATE


@pytest.mark.parametrize(
    ("written", "understood", "missing", "extra"),
    [
        ("He always rings the bell.", "he rings the bell", ["always"], []),
        ("The bell, the bell!", "the bell", ["the", "bell"], []),
        ("你坐过吗？", "你坐过吗", [], []),
        ("Nobody spoke.", "", ["Nobody", "spoke"], []),
        ("The bell.", "So the old bell rang", [], ["So", "old", "rang"]),
    ],
)
def test_words_missing_from_the_recognised_text_are_listed(
    node: Node, written: str, understood: str, missing: list[str], extra: list[str]
) -> None:
    found = node.call("clone/transcript", "compareWords", written, understood, "en")
    assert [word["word"] for word in found["words"] if not word["heard"]] == missing
    assert found["heard"] == len(found["words"]) - len(missing)
    assert found["extra"] == extra
