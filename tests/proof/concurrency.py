"""Measurements with concurrent clients: reconnects, fairness and event loop delays."""

from __future__ import annotations

import asyncio
import io
import random
import time
from contextlib import AsyncExitStack

import httpx
import soundfile
from websockets.exceptions import InvalidStatus

from benchmarks.common.servers import BenchRuntime
from tests.proof.clients import LONG, quantile
from tests.proof.crowd import at_rest
from tests.support.signals import voice
from tests.support.speech_client import Talk, speak_text, talk

TEXT = "The bread is warm."
SHORT = {"task_type": "custom_voice", "max_frames": 12}
SEEDS = 8
LOSS_S = 2.0  # Seconds within which all sockets are disconnected.
POLITE = 4  # Number of clients that send one request after another.
FEW, STREAMS = 4, 64
LAG = 'voicewright_loop_lag_seconds_bucket{le="'


async def reconnects(runtime: BenchRuntime, count: int) -> str:
    """Disconnect many WebSockets within two seconds, and return a summary of the recovery.

    Most clients are disconnected during a response. All clients reconnect immediately. A refused client tries again
    after the retry time in the refusal.

    Raises:
        AssertionError: A response differs from the response without other requests, a refusal has no retry time, or
            resources are still in use.
    """
    alone = [(await speak_text(runtime.stream, TEXT, seed=seed, **SHORT)).pcm for seed in range(SEEDS)]
    before, dice = await at_rest(runtime), random.Random(1)
    all_there, moments = asyncio.Barrier(count), [dice.random() * LOSS_S for _ in range(count)]
    refusals = 0

    async def client(number: int) -> float:
        nonlocal refusals
        async with AsyncExitStack() as stack:
            session = await _let_in(stack, runtime, LONG)
            await session.send_text(TEXT)
            await all_there.wait()
            await asyncio.sleep(moments[number])
            session.connection.transport.abort()
        lost = time.monotonic()
        while True:
            async with AsyncExitStack() as stack:
                session = await _let_in(stack, runtime, {**SHORT, "seed": number % SEEDS})
                await session.send_text(TEXT)
                take = await session.receive_take()
            if take.end["type"] == "audio.done":
                assert take.pcm == alone[number % SEEDS], "a reply is not what it is alone"
                return time.monotonic() - lost
            assert (take.end["code"], take.pcm) == ("overloaded", b""), take.end
            refusals += 1
            await asyncio.sleep(take.end["retry_after_s"])

    waited_s = await asyncio.gather(*(client(number) for number in range(count)))
    after = await at_rest(runtime)
    assert not after.busy, "a slot or a session is left"
    return (
        f"{count} sockets lost within {LOSS_S:.0f} s, clients reconnect at once: {len(waited_s)} of {count} "
        f"replies bitwise correct, {quantile(waited_s, 0.5):.1f} s (p50) and {max(waited_s):.1f} s (all) after the "
        f"loss; {refusals} refusals, each with a retry time; {after.busy} slots or sessions left, threads "
        f"{after.threads - before.threads:+d}, files {after.files - before.files:+d}"
    )


async def _let_in(stack: AsyncExitStack, runtime: BenchRuntime, config: dict[str, object]) -> Talk:
    """Open a session on a new WebSocket, and return the session.

    If the server refuses because of too many connections, wait for the retry time and try again.
    """
    while True:
        try:
            return await stack.enter_async_context(talk(runtime.stream, **config))
        except InvalidStatus as refusal:
            await asyncio.sleep(float(refusal.response.headers["retry-after"]))


async def unfair_client(runtime: BenchRuntime, running: int, seconds: float) -> str:
    """Compare the time to first audio of normal clients with and without an unfair client.

    The result is a summary as text. The unfair client always has many running requests, and each normal client has one.
    The runtime distinguishes clients by their IP addresses. A refused client waits for the retry time of the refusal.

    Args:
        runtime: Runtime to measure.
        running: Number of requests that the unfair client has at any time.
        seconds: Duration of the measurement.
    """
    over = asyncio.Event()

    async def first_ms(address: str, seed: int, gone: float) -> float | None:
        """Return the milliseconds to the first audio, or None if all requests were refused."""
        began = time.perf_counter()
        while True:
            async with talk(runtime.stream, {"local_addr": (address, 0)}, **SHORT, seed=seed) as session:
                await session.send_text(TEXT)
                message = await session.receive()
                while not isinstance(message, bytes) and message["type"] != "error":
                    message = await session.receive()
                if isinstance(message, bytes):
                    ms = 1000 * (time.perf_counter() - began)
                    await session.receive_take()
                    return ms
            if time.perf_counter() > gone:
                return None
            await asyncio.sleep(message["retry_after_s"])

    async def polite(number: int, until: float) -> list[float | None]:
        results = []
        while time.perf_counter() < until:
            results.append(await first_ms(f"127.0.0.{10 + number}", number, until))
        return results

    async def all_polite() -> str:
        until = time.perf_counter() + seconds
        asked = [ms for results in await asyncio.gather(*(polite(n, until) for n in range(POLITE))) for ms in results]
        heard = [ms for ms in asked if ms is not None]
        results = f"{len(heard)} of {len(asked)} requests heard"
        if not heard:
            return results
        return f"{results}, first sound after {quantile(heard, 0.5):.0f} ms (p50), {quantile(heard, 0.95):.0f} (p95)"

    async def wants_everything(number: int) -> None:
        while not over.is_set():
            await first_ms("127.0.0.2", number, 0.0)

    alone = await all_polite()
    wanting = [asyncio.create_task(wants_everything(number)) for number in range(running)]
    await asyncio.sleep(1.0)
    crowded = await all_polite()
    over.set()
    await asyncio.gather(*wanting)
    return f"{POLITE} clients for {seconds:.0f} s alone: {alone}; next to {running} requests of one client: {crowded}"


async def busy_loop(runtime: BenchRuntime, seconds: float) -> str:
    """Measure event loop delays with few and with many speech streams, and return a summary.

    During the measurement, another client uploads, stores and deletes recordings.
    """
    async with httpx.AsyncClient(base_url=runtime.url, trust_env=False, timeout=120) as client:
        results = [await _late(runtime, client, streams, seconds) for streams in (FEW, STREAMS)]
    return "; ".join(results)


async def _late(runtime: BenchRuntime, client: httpx.AsyncClient, streams: int, seconds: float) -> str:
    sound = io.BytesIO()
    soundfile.write(sound, voice(4.0, 5), 24_000, format="FLAC")
    until, kept = time.monotonic() + seconds, 0

    async def stream(seed: int) -> None:
        while time.monotonic() < until:
            take = await speak_text(runtime.stream, TEXT, seed=seed, **SHORT)
            assert take.end["type"] == "audio.done", take.end

    async def librarian() -> None:
        nonlocal kept
        while time.monotonic() < until:
            files = {"audio_sample": ("a.flac", sound.getvalue(), "audio/flac")}
            form = {"name": "Somebody", "consent": "A test's own."}
            (await client.post("/v1/audio/voices", data=form, files=files)).raise_for_status()
            (listed,) = (await client.get("/v1/audio/voices?of=objects")).json()["data"]
            (await client.delete(f"/v1/audio/voices/{listed['id']}")).raise_for_status()
            kept += 1

    before = lags((await client.get("/metrics")).text)
    await asyncio.gather(librarian(), *(stream(seed) for seed in range(streams)))
    looks = {bound: count - before[bound] for bound, count in lags((await client.get("/metrics")).text).items()}
    shares = ", ".join(f"{100 * looks[ms / 1000] / max(looks.values()):.0f} % below {ms} ms" for ms in (10, 50, 250))
    return f"late under {streams} streams, with {kept} voices decoded, kept and deleted in {seconds:.0f} s: {shares}"


def lags(page: str) -> dict[float, float]:
    """Return the cumulative counts of event loop delays, keyed by upper bound in seconds.

    Args:
        page: Metrics in Prometheus format.
    """
    rows = (line.removeprefix(LAG).split('"} ') for line in page.splitlines() if line.startswith(LAG))
    return {float(bound): float(count) for bound, count in rows}
