"""What many say together against what each says alone, in one run and from a file of an earlier one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.pipeline import Said, differ_from, main


def said(*codes: int) -> Said:
    return Said(np.array(codes)[:, None], np.zeros(0, np.int16))


@pytest.mark.parametrize(
    ("one", "other", "frame"),
    [((1, 2, 3), (1, 2, 3), None), ((1, 2, 3), (1, 5, 3), 1), ((1, 2), (1, 2, 3), 2), ((4, 2), (1, 2, 3), 0)],
)
def test_the_first_frame_that_differs(one: tuple[int, ...], other: tuple[int, ...], frame: int | None) -> None:
    assert differ_from(said(*one), said(*other)) == frame


def test_what_was_said_alone_is_kept_and_compared(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def differing(frames: int) -> list[str]:
        words = f"pipeline --model {endless} --device cpu --rows 1,3 --frames {frames} --alone {tmp_path / 'alone'}"
        monkeypatch.setattr("sys.argv", words.split())
        main()
        rows = capsys.readouterr().out.splitlines()[-2:]
        return [row[15:40].strip() for row in rows]

    assert differing(6) == ["0", "0"]
    assert [path.name for path in tmp_path.iterdir()] == ["alone"]
    assert differing(6) == ["0", "0"]
    assert differing(7) == ["1 (6)", "3 (6)"]
