"""Tests for speech over a network that delays, loses or blocks data."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidMessage

from runtime.settings import ServerSettings
from tests.conftest import FolderOf
from tests.support.bad_network import Link, bad_network
from tests.support.runtime_server import RunningServer
from tests.support.silence import detection_time_s
from tests.support.speech_client import same_sound, speak_text, talk
from tests.wire.conftest import Serving

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}
FAR = Link(delay_s=0.2, loss=0.01)
SECONDS = 60.0


async def test_delay_and_packet_loss_change_no_byte(either: RunningServer) -> None:
    async with asyncio.timeout(SECONDS):
        plain = await speak_text(either.socket, "The bread is warm.", **VOICE)
        async with bad_network(either.port, FAR) as network:
            began = time.monotonic()
            takes = await asyncio.gather(*(speak_text(network.url, "The bread is warm.", **VOICE) for _ in range(8)))
            assert time.monotonic() - began > 4 * FAR.delay_s, "the network was not between them"
        assert network.lost
        assert all(same_sound(take.pcm, plain.pcm) for take in takes)
        assert {take.end["type"] for take in takes} == {"audio.done"}
    either.wait_until_idle()


@pytest.mark.slow
async def test_cancel_over_a_slow_network_is_acknowledged_and_no_audio_follows(server: RunningServer) -> None:
    async with asyncio.timeout(SECONDS):
        async with bad_network(server.port, FAR) as network, talk(network.url, **LONG) as session:
            await session.send_text("Speak for a long time.")
            await session.first_audio()
            await session.send("context.cancel")
            await session.receive_until("context.cancelled")
            await session.send("ping", t=5)
            assert await session.receive() == {"type": "pong", "t": 5}
    server.wait_until_idle()


async def test_client_reading_single_bytes_receives_all_audio(server: RunningServer) -> None:
    async with asyncio.timeout(SECONDS):
        plain = await speak_text(server.socket, "Slowly.", **VOICE | {"max_frames": 3})
        async with bad_network(server.port, Link(segment=1)) as network:
            take = await speak_text(network.url, "Slowly.", **VOICE | {"max_frames": 3})
        assert same_sound(take.pcm, plain.pcm)
        assert take.end["type"] == "audio.done"


async def test_connection_resets_inside_a_frame_release_slots_and_affect_no_other_client(either: RunningServer) -> None:
    """Each client sends more than 900 bytes, a third of them in the handshake.

    Most connections are reset in the middle of a message.
    """
    dice = random.Random(1)

    async def broken(cut_after: int) -> int:
        async with bad_network(either.port, Link(segment=97, cut_after=cut_after)) as network:
            with suppress(ConnectionClosed, ConnectionError, InvalidMessage, EOFError):
                async with talk(network.url, **LONG, instructions="x" * 200) as session:
                    await session.send_text("Speak for a long time.")
                    await session.send("input.text", text="And after that?" * 20)
                    await session.closed()
            return network.cut

    async with asyncio.timeout(SECONDS):
        plain = await speak_text(either.socket, "Who is there?", **VOICE)
        cuts = [broken(dice.randrange(1, 900)) for _ in range(40)]
        neighbours = [speak_text(either.socket, "Who is there?", **VOICE) for _ in range(3)]
        heard, ends = await asyncio.gather(asyncio.gather(*neighbours), asyncio.gather(*cuts))
        assert ends == [1] * len(cuts)
        assert all(same_sound(take.pcm, plain.pcm) for take in heard)
    either.wait_until_idle()
    either.wait_for_no_tasks()


@pytest.mark.slow
async def test_silent_network_is_detected_within_two_pings_and_slow_network_is_tolerated(
    folder_of: FolderOf, serving: Serving
) -> None:
    """Two clients receive audio when the connection of one client becomes silent.

    The other client answers every ping after 0.4 s and must stay connected.
    """
    ping_s = 2.0

    async def silence(server: RunningServer) -> None:
        async with (
            bad_network(server.port, Link(delay_s=0.2)) as slow,
            bad_network(server.port, Link()) as silent,
            talk(slow.url) as patient,
            talk(silent.url, **LONG) as cut_off,
        ):
            after_s = await detection_time_s(server.own_http, silent, cut_off, others=1)
            await asyncio.to_thread(server.wait_until_idle)
            # A ping is sent within one interval, and the pong must arrive within another interval. The rest is a margin
            # for a busy machine.
            assert after_s < 2 * ping_s + 2
            await asyncio.sleep(max(0.0, 2.5 * ping_s - after_s))
            await patient.send("ping", t=1)
            assert await patient.receive_until("pong") == {"type": "pong", "t": 1}
            silent.reset()  # No client waits for the server's close frame.

    with serving(folder_of("brief", "custom_voice"), server=ServerSettings(ping_s=ping_s, send_s=60)) as server:
        await asyncio.wait_for(silence(server), SECONDS)
