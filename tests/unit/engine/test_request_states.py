"""Tests that a waiting request is only in the states listed in docs/architecture.md.

The states of the engine and of sessions are called places there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from runtime.engine.engine import Engine
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import AudioChunk, Finished, Mode, SpeechEvent
from runtime.server.session.commands import Append, AudioMessage, FinishText, ReadStoredVoice, Submit
from tests.support.engines import MAX_TICKS, EventRecorder, VirtualClock, cloned, core_of, engine_of
from tests.support.late_device import LateDevice
from tests.unit.server.native.driver import Driver, two_voices

ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"


def named_places() -> list[str]:
    """Return the second column of the table of places in docs/architecture.md."""
    section = (
        ARCHITECTURE.read_text(encoding="utf-8").partition("## Request states and queues")[2].partition("\n## ")[0]
    )
    return re.findall(r"^\| \d+ \| ([^|]+?) \|", section, re.MULTILINE)


class RequestPath:
    """Session and engine that serve one request, with the states in which it was found."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.core = core_of(engine, Mode.BASE)
        self.driver = Driver(cards=engine.cards)
        self.number = self.ticket = -1
        self.chunks: list[AudioChunk] = []
        self.received = 0  # Number of audio messages that the client has received.
        self.has_ended = False
        self.visited: list[str] = []

    def execute_commands(self) -> None:
        """Execute the commands of the session, as a connection does."""
        for command in self.driver.commands:
            match command:
                case Submit(number, request):
                    self.number = number
                    self.ticket = self.engine.submit(request, self.on_speech)
                case Append(_, text):
                    self.engine.append_text(self.ticket, text)
                case FinishText():
                    self.engine.finish_text(self.ticket)
        self.record_places()

    def on_speech(self, event: SpeechEvent) -> None:
        self.has_ended = isinstance(event, Finished)
        if isinstance(event, AudioChunk):
            self.chunks.append(event)
        self.driver.session.on_speech(self.number, event)
        self.record_places()

    def record_places(self) -> None:
        """Record the places in which the request is found for the first time."""
        places = [place for place, is_there in self.probes().items() if is_there()]
        assert places or self.has_ended, f"it is nowhere, after {self.visited}"
        self.visited += [place for place in places if place not in self.visited]

    def probes(self) -> dict[str, Callable[[], bool]]:
        core, table = self.core, self.core.table
        slot = next((slot for slot, sequence in core.sequences.items() if sequence.ticket == self.ticket), -1)
        return {
            "the session's text buffer": lambda: self.ticket < 0,
            "the engine's command queue": lambda: self.ticket > 0 and bool(self.engine.commands),
            "the waiting queue": lambda: core.waiting.find(self.ticket) is not None,
            "a slot": lambda: slot >= 0,
            "in flight on the device": lambda: (
                slot >= 0 and bool(core.in_flight.is_prefilling or table.launched[slot] > table.sampled[slot])
            ),
            "the Code2Wav queue": lambda: slot >= 0 and bool(table.pending[slot] > 0),
            "the send queue": lambda: len(self.chunks) > self.received,
        }

    def read(self) -> bytes:
        """Receive all pending messages as the client, and return their audio."""
        pcm = b""
        while (message := self.driver.session.pop_message()) is not None:
            if isinstance(message, AudioMessage):
                self.received += 1
                pcm += message.data[-2 * message.samples :]
        return pcm


def test_request_waits_only_in_the_documented_states(cloner: Checkpoint) -> None:
    clock, pcm = VirtualClock(), b""
    # The device is still busy when the engine polls for results.
    engine = engine_of(cloner, slots=1, device=LateDevice(2), clock=clock)
    other = EventRecorder()
    engine.submit(cloned(max_frames=3), other)  # This request occupies the only slot at first.
    engine.tick()
    path = RequestPath(engine)
    path.driver.configure(voice="Clara", max_frames=12, seed=7)
    path.driver.send("input.text", text="Hello world, the old phone is slow.")
    path.driver.send("input.done")
    path.record_places()
    (recall,) = [command for command in path.driver.commands if isinstance(command, ReadStoredVoice)]
    path.driver.decoded(recall.upload, two_voices().reference(recall.voice_id))
    path.execute_commands()
    for _ in range(MAX_TICKS):
        engine.tick()
        clock.now += 0.02
        path.record_places()
        if path.has_ended:
            break
        pcm += path.read()
        engine.ack_sent(path.ticket, len(pcm) // 2)
    assert path.has_ended
    *earlier, code2wav_queue, send_queue = named_places()
    # The first audio is sent before the Code2Wav queue gets a frame.
    assert path.visited == [*earlier, send_queue, code2wav_queue]
    assert len(path.visited) <= 7
    assert pcm + path.read() == b"".join(chunk.pcm for chunk in path.chunks)
    assert len(path.chunks) > 1
    assert not any(is_there() for is_there in path.probes().values())
