"""Measurement of start times with many stored recordings and voices.

Starts are also measured with a missing index, which must be built again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.voices.library import Library
from runtime.voices.listing import SUFFIX
from runtime.voices.voice_file import write_voice
from studio.settings import StoreSettings
from studio.store.database import FILE
from studio.store.store import Store
from studio.store.takes import TakeQuery
from tests.support.keeping import pcm_of
from tests.support.take_writers import OWNER, fields
from tests.support.voices import create_voice

SECONDS = 2.0  # Duration of a take in seconds.


def _timed(open_: Callable[[], Any]) -> float:
    began = time.perf_counter()
    open_()
    return time.perf_counter() - began


def recovery(folder: Path, count: int) -> str:
    """Measure start times with `count` recordings and `count` voices, and return a summary.

    Raises:
        AssertionError: A recording or a voice was lost.
    """
    settings = StoreSettings(data=str(folder / "takes"), max_takes=2 * count)
    store = Store(settings)
    store.open()
    sound = pcm_of(SECONDS)
    for _ in range(count):
        store.takes.store_take(OWNER, fields(), sound)
    store.close()

    def opened() -> Store:
        store = Store(settings)
        store.open()
        assert len(store.takes.page(OWNER, TakeQuery(limit=100))[0]) == min(count, 100)
        return store

    whole_s = _timed(lambda: opened().close())
    for suffix in ("", "-wal", "-shm"):
        (folder / "takes" / (FILE + suffix)).unlink(missing_ok=True)
    lost_s = _timed(lambda: opened().close())

    (folder / "voices").mkdir()
    for number in range(count):
        voice = create_voice(f"Voice {number}", samples=48_000)
        (folder / "voices" / f"{voice.id}{SUFFIX}").write_bytes(write_voice(voice))
    voices_s = [_timed(lambda: _voices(folder / "voices", count)) for _ in range(2)]
    return (
        f"{count} takes: open in {1000 * whole_s:.0f} ms, {lost_s:.1f} s where their list is lost; {count} voices: "
        f"{1000 * voices_s[1]:.0f} ms, {voices_s[0]:.1f} s where it is"
    )


def _voices(folder: Path, count: int) -> None:
    library = Library(folder)
    library.open()
    assert len(library.cards()) + len(library.problems()) == count
    assert not library.problems()
    library.close()
