"""Processes that write to a voice library, for tests of concurrent writes and kills.

Command: ``python -m tests.support.writers kill|write FOLDER ...``.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from runtime.errors import VoiceNameTaken, VoiceNotFound
from runtime.voices.library import Library
from runtime.voices.voice import VoiceChanges
from tests.support.voices import create_voice


def kill_writers(folder: Path, times: int) -> None:
    """Kill a process that replaces a large voice in a loop, and repeat this `times` times."""
    library = Library(folder)
    library.open()
    voice = create_voice("Victim", samples=500_000)
    library.register_voice(voice)
    library.close()
    chance = random.Random(7)
    for number in range(times):
        if (child := os.fork()) == 0:
            writer = Library(folder)
            while True:
                writer.register_voice(create_voice("Victim", samples=500_000 + number), replace_id=voice.id)
        time.sleep(0.004 + 0.03 * chance.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reader = Library(folder)
        reader.open()
        assert [card.id for card in reader.cards()] == [voice.id], reader.problems()
        assert not reader.problems()
        reader.reference(voice.id)
        reader.close()


def write(folder: Path, who: str, times: int) -> None:
    """Add, rename and delete voices in a library that other processes change as well.

    All processes try to use the same name for one voice. `who` names this process.
    """
    library = Library(folder)
    library.open()
    for number in range(times):
        made = library.register_voice(create_voice(f"{who} {number}"))
        library.change(made.id, VoiceChanges(name=f"{who} {number}!"))
        if number % 2:
            library.delete(made.id)
        try:
            library.register_voice(create_voice("Shared"))
        except VoiceNameTaken:
            try:
                if (shared := library.find("shared")) is not None:
                    library.delete(shared.id)
            except VoiceNotFound:
                continue  # Another writer has changed the file in the meantime.


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        kill_writers(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
