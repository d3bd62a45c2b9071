"""Tests for the message channel between the server's process and the engine's process."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from runtime.request import AudioChunk, Mode, Reference
from runtime.server.engine_process import channel
from runtime.server.engine_process.channel import MIN_SEPARATE_BYTES, Channel
from runtime.server.engine_process.messages import Call, Message, Method, Prepare, SinkEvent, Step
from tests.support.timeouts import TEST_TIMEOUT_S

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Yield the two ends of a message channel.

    Each end receives the messages that the other end sends.
    """
    (there_out, there_in), (back_out, back_in) = os.pipe(), os.pipe()
    with os.fdopen(there_out, "rb") as there, os.fdopen(back_out, "rb") as back:
        one = Channel(back, os.fdopen(there_in, "wb"))
        other = Channel(there, os.fdopen(back_in, "wb"))
        yield one, other
        one.close(TEST_TIMEOUT_S)
        other.close(TEST_TIMEOUT_S)


def received(end: Channel, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        messages.append(end.receive())
    return messages


def step(number: int) -> Step:
    return Step(number, 1000, "counting")


def test_messages_arrive_in_order(ends: Ends) -> None:
    one, other = ends
    for number in range(1000):
        one.send(step(number))
    assert received(other, 1000) == [step(number) for number in range(1000)]


def test_messages_of_several_threads_are_complete_and_ordered_per_thread(ends: Ends) -> None:
    one, other = ends

    def send(ticket: int) -> None:
        for samples in range(200):
            one.send(Call(Method.ACK_PLAYED, ticket, (samples,)))

    threads = [threading.Thread(target=send, args=(ticket,)) for ticket in range(4)]
    for thread in threads:
        thread.start()
    came = received(other, 800)
    for ticket in range(4):
        mine = [message for message in came if isinstance(message, Call) and message.ticket == ticket]
        assert mine == [Call(Method.ACK_PLAYED, ticket, (samples,)) for samples in range(200)]
    for thread in threads:
        thread.join()


def test_messages_sent_while_the_pipe_is_full_keep_their_order(ends: Ends) -> None:
    one, other = ends
    large = SinkEvent(1, AudioChunk(pcm=bytes(2**20), codes=np.zeros((1, 4), np.int64), first_sample=0))
    one.send(large)  # The message is larger than the buffer of the pipe, which nothing reads yet.
    for number in range(20):
        one.send(step(number))
    first, *others = received(other, 21)
    assert isinstance(first, SinkEvent)
    assert others == [step(number) for number in range(20)]


@pytest.mark.parametrize(
    "size", [0, 1, MIN_SEPARATE_BYTES // 4 - 1, MIN_SEPARATE_BYTES // 4, MIN_SEPARATE_BYTES // 4 + 1, 3_000_001]
)
def test_arrays_sent_through_the_channel_are_unchanged_and_writable(ends: Ends, size: int) -> None:
    one, other = ends
    samples = np.linspace(-1, 1, size, dtype=np.float32)
    one.send(Prepare(7, Reference(samples=samples, text="Words."), Mode.BASE))
    one.send(step(1))
    came, last = received(other, 2)
    assert isinstance(came, Prepare)
    assert (came.number, came.reference.text, last) == (7, "Words.", step(1))
    assert came.reference.samples.dtype == np.float32
    np.testing.assert_array_equal(came.reference.samples, samples)
    came.reference.samples[:] = 0


def test_arrays_of_any_shape_are_received_unchanged(ends: Ends) -> None:
    one, other = ends
    arrays = [
        np.arange(60_000, dtype=np.int64).reshape(3, 20_000)[:, ::2],
        np.asfortranarray(np.arange(60_000, dtype=np.int64).reshape(300, 200)),
        np.arange(16, dtype=np.int64).reshape(4, 4).T,
    ]
    for array in arrays:
        one.send(SinkEvent(1, AudioChunk(pcm=b"", codes=array, first_sample=0)))
    for array, message in zip(arrays, received(other, 3), strict=True):
        assert isinstance(message, SinkEvent)
        assert isinstance(message.event, AudioChunk)
        np.testing.assert_array_equal(message.event.codes, array)


def test_large_arrays_are_sent_outside_the_pickle() -> None:
    large, small = np.ones(MIN_SEPARATE_BYTES, np.float32), np.ones(5, np.float32)
    assert len(channel._pieces(Prepare(1, Reference(samples=small), Mode.BASE))) == 1
    pickled, *arrays = channel._pieces(Prepare(1, Reference(samples=large), Mode.BASE))
    assert [piece.nbytes for piece in arrays] == [large.nbytes]
    assert np.shares_memory(np.asarray(arrays[0]), large.view(np.uint8))  # The array is sent without a copy.
    assert pickled.nbytes < 2000


def test_closing_a_channel_is_end_of_file_at_its_other_end(ends: Ends) -> None:
    one, other = ends
    one.close(TEST_TIMEOUT_S)
    for _ in range(2):
        with pytest.raises(EOFError):
            other.receive()


def test_channel_that_closes_inside_a_message_is_at_end_of_file() -> None:
    out, into = os.pipe()
    with os.fdopen(out, "rb") as source:
        os.write(into, b"\x01\x00\x00\x00" + b"\x09" + bytes(7) + b"half")
        os.close(into)
        end = Channel(source, open(os.devnull, "wb"))  # noqa: SIM115  The channel closes it.
        with pytest.raises(EOFError):
            end.receive()
        end.close(TEST_TIMEOUT_S)


@pytest.mark.parametrize("length", [1, 7, 400, 10_000])
def test_partial_message_is_delivered_when_complete(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MIN_SEPARATE_BYTES", 64)
    samples = np.arange(100, dtype=np.float32)
    sent = [step(1), Prepare(7, Reference(samples=samples), Mode.BASE), step(2)]
    written = b"".join(piece for message in sent for piece in channel._pieces(message))
    out, into = os.pipe()
    with os.fdopen(out, "rb") as source:
        os.set_blocking(out, False)
        end = Channel(source, open(os.devnull, "wb"))  # noqa: SIM115  The channel closes it.
        came: list[Message] = []
        assert end.receive_now() is None
        for at in range(0, len(written), length):
            os.write(into, written[at : at + length])
            while (message := end.receive_now()) is not None:
                came.append(message)
        first, large, last = came
        assert (first, last) == (step(1), step(2))
        assert isinstance(large, Prepare)
        np.testing.assert_array_equal(large.reference.samples, samples)
        os.close(into)
        with pytest.raises(EOFError):
            end.receive_now()
        end.close(TEST_TIMEOUT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux widens a pipe")
def test_burst_of_audio_is_sent_without_the_writer_thread(ends: Ends) -> None:
    one, other = ends
    burst = [SinkEvent(1, AudioChunk(pcm=bytes(15_360), codes=np.zeros((4, 16), np.int64), first_sample=0))] * 32
    for message in burst:
        one.send(message)
    assert not one._unsent
    assert len(received(other, 32)) == 32


def test_close_writes_pending_messages(ends: Ends) -> None:
    one, other = ends
    came: list[Message] = []
    reading = threading.Thread(target=lambda: came.extend(received(other, 300)))
    for number in range(300):
        one.send(step(number))
    reading.start()
    one.close(TEST_TIMEOUT_S)
    reading.join()
    assert came == [step(number) for number in range(300)]


def test_close_has_a_timeout_for_a_hanging_reader(ends: Ends) -> None:
    one, other = ends
    large = Prepare(1, Reference(samples=np.zeros(2**20, np.float32)), Mode.BASE)
    one.send(large)
    one.close(0.01)
    assert len(received(other, 1)) == 1


@pytest.mark.logs_errors
def test_unpicklable_message_is_logged_and_closes_the_channel(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    one, other = ends
    one.send(step(1))
    assert other.receive() == step(1)
    one.send(Call(Method.APPEND_TEXT, 1, (threading.Lock(),)))
    with pytest.raises(EOFError):
        other.receive()
    (record,) = caplog.records
    assert (record.name, record.levelno) == (channel.__name__, logging.CRITICAL)


def test_messages_to_a_closed_peer_are_dropped_silently(ends: Ends) -> None:
    one, other = ends
    other._source.close()
    for number in range(3):
        one.send(step(number))
        one._writer.join(0.01)
    one.close(TEST_TIMEOUT_S)
    assert not one._writer.is_alive()
