"""Tests for the host routes: access, responses and refusals."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio.routes.host import HostRoutes
from studio.runtimes.given_runtime import GivenRuntime
from studio.runtimes.metrics import figures, quantile
from studio.runtimes.supervisor import ChildRuntime, Runtime
from studio.settings import StoreSettings, StudioSettings, VisitSettings
from studio.visitors import peer_user as peer_user_module
from studio.visitors.peer_user import NOBODY, peer_user
from tests.support.timeouts import becomes
from tests.unit.studio.serving import served

MODELS = "/studio/host/models"


@asynccontextmanager
async def studio(runtime: Runtime | None = None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    routes = HostRoutes(runtime or ChildRuntime(["--model", "one"]), StudioSettings(**settings), {}).routes()
    async with (
        served(routes) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        yield client


async def asked(path: str = "/studio/host", headers: dict[str, str] | None = None, **settings: Any) -> tuple[int, Any]:
    async with studio(**settings) as client:
        answer = await client.get(path, headers=headers)
        return answer.status_code, answer.json()


ROOT_ONLY = pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root may be another user")
KEYED = VisitSettings(host_key="open sesame")
EACH = StoreSettings(visitors="each")


async def test_host_on_this_machine_gets_all_host_data() -> None:
    status, fields = await asked()
    assert (status, fields["checkpoints"], fields["own"], fields["changing"]) == (200, ["one"], True, False)
    assert (fields["models"], fields["figures"], fields["ports"]) == ([], None, {})  # The runtime is not running yet.
    assert set(fields["memory"] or {}) in ({"own", "available"}, set())
    settings = {setting["env"]: setting for setting in fields["settings"]}
    assert settings["VOICEWRIGHT_MAX_TEXT_CHARS"]["value"] == 4096
    assert settings["VOICEWRIGHT_VISITORS"]["group"] == "store"


async def test_another_local_user_is_not_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for user, expected in ((None, 200), (0, 200), (os.getuid(), 200), (65_534, 403), (NOBODY, 403)):
        monkeypatch.setattr("studio.visitors.peer_user.peer_user", lambda _, user=user: user)
        assert (await asked())[0] == expected
    assert (await asked(headers={"x-host-key": KEYED.host_key}, visits=KEYED))[0] == 200


def unsupported(*_: object) -> tuple[int, int]:
    """Raise OSError, like a kernel without sock_diag."""
    raise OSError


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
@pytest.mark.parametrize("user", [os.getuid(), pytest.param(65_534, marks=ROOT_ONLY)])
@pytest.mark.parametrize("has_sock_diag", [True, False])
async def test_connection_owner_is_read_from_the_operating_system(
    user: int, has_sock_diag: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_sock_diag:
        monkeypatch.setattr(peer_user_module, "_diagnosed", unsupported)
    found: list[int | None] = []

    async def note(request: Request) -> Response:
        found.append(peer_user(request))
        return Response()

    async with served([Route("/", note)]) as address:
        host, port = address.split(":")
        ask = f"exec 3<>/dev/tcp/{host}/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
        as_user = {} if user == os.getuid() else {"user": user}
        asking = await asyncio.create_subprocess_exec("bash", "-c", ask, stdout=asyncio.subprocess.DEVNULL, **as_user)
        assert await asking.wait() == 0
    assert found == [user]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
@pytest.mark.parametrize("has_sock_diag", [True, False])
async def test_closed_socket_has_no_owner(has_sock_diag: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports root as the user of a socket without a process."""
    if not has_sock_diag:
        monkeypatch.setattr(peer_user_module, "_diagnosed", unsupported)
    found: list[int | None] = []
    is_asked, is_closed, is_found = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def note(request: Request) -> Response:
        is_asked.set()
        await is_closed.wait()
        found.append(peer_user(request))
        is_found.set()
        return Response()

    async with served([Route("/", note)]) as address:
        host, port = address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await is_asked.wait()
        writer.close()
        await writer.wait_closed()
        is_closed.set()
        await is_found.wait()
    assert found == [NOBODY]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connection_owner_lookup_does_not_read_the_full_table(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_user_module, "TABLES", ())
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        address = listener.getsockname()[:2]
        with socket.create_connection(address) as client:
            scope = {"type": "http", "client": client.getsockname()[:2], "server": address}
            assert peer_user(Request(scope)) == os.getuid()
            stranger = {**scope, "client": (host, 1)}
            # The request reads the table of sockets, which is empty in this test.
            assert peer_user(Request(stranger)) is None


async def test_host_can_read_runtime_metrics_preceded_by_restart_counters() -> None:
    async def metrics(_: Request) -> Response:
        return Response("voicewright_slots 4.0\n")

    runtime = ChildRuntime([])
    runtime.starts, runtime.restarts = 3, Counter(canary_differs=2)
    async with studio(runtime) as client, served([Route("/metrics", metrics)]) as address:
        alone = (await client.get("/studio/host/metrics")).text
        assert "voicewright_runtime_starts_total 3.0" in alone
        assert 'voicewright_runtime_restarts_total{reason="canary_differs"} 2.0' in alone
        runtime.url = f"http://{address}"
        assert (await client.get("/studio/host/metrics")).text == alone + "voicewright_slots 4.0\n"
        assert (await client.get("/studio/host")).json()["restarts"] == {"canary_differs": 2}
        stranger = await client.get("/studio/host/metrics", headers={"host": "studio.example"})
        assert stranger.status_code == 403


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({"host": "0.0.0.0"}, {}),
        ({"store": EACH}, {}),
        ({"visits": KEYED}, {}),
        ({"visits": KEYED}, {"x-host-key": "open barley"}),
        ({}, {"host": "studio.example"}),
        ({}, {"x-host-key": ""}),
        ({"visits": VisitSettings()}, {"x-forwarded-for": "203.0.113.5"}),
        ({"visits": VisitSettings()}, {"connection": "close"}),
        ({"visits": VisitSettings()}, {"x-real-ip": "203.0.113.5"}),
        ({"visits": VisitSettings()}, {"via": "1.1 proxy"}),
        ({"visits": VisitSettings()}, {"cf-connecting-ip": "203.0.113.5"}),
        ({"visits": VisitSettings()}, {"true-client-ip": "203.0.113.5"}),
        ({"visits": VisitSettings()}, {"x-forwarded-port": "443"}),
    ],
    ids=[
        "every address",
        "visitors apart",
        "no key",
        "wrong key",
        "another name",
        "empty key",
        "nginx",
        "closes",
        "real",
        "via",
        "Cloudflare",
        "true client",
        "port",
    ],
)
async def test_host_routes_are_refused_for_other_users(settings: dict[str, Any], headers: dict[str, str]) -> None:
    status, fields = await asked(headers=headers, **settings)
    if settings or "host" in headers:
        assert (status, fields["error"]["code"]) == (403, "host_only")
    else:
        assert status == 200  # Requests from the same machine need no key.


async def test_host_key_grants_remote_access_and_is_never_sent() -> None:
    status, fields = await asked(headers={"x-host-key": "open sesame"}, host="0.0.0.0", store=EACH, visits=KEYED)
    assert status == 200
    assert "open sesame" not in str(fields)


@pytest.mark.parametrize(
    "models",
    [None, [], "one", ["a"] * 33, [""], ["  "], [3], ["--host"], ["x" * 501], ["a\0b"], ["a\nb"]],
    ids=repr,
)
async def test_invalid_checkpoint_list_is_refused(models: object) -> None:
    runtime = ChildRuntime(["--model", "one"])
    async with studio(runtime) as client:
        answer = await client.post(MODELS, json={"models": models})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "models")
        assert not runtime.changing


async def test_unpaired_surrogate_is_refused_and_the_studio_continues() -> None:
    async with studio(runtime := ChildRuntime(["--model", "one"])) as client:
        for text in (r"\ud800", r"a\udfffb", r"a\u0000b"):
            answer = await client.post(MODELS, content=f'{{"models": ["{text}"]}}')
            assert 400 <= answer.status_code < 500
            assert not runtime.changing


async def test_checkpoint_change_replaces_only_the_model_arguments() -> None:
    stand_in = ["tests.unit.studio.stand_in", "ready"]
    runtime = ChildRuntime(["--device", "cpu", "--model", "one", "--model=two", "--max-slots", "2"], stand_in)
    supervision = asyncio.create_task(runtime.run())
    async with studio(runtime) as client:
        answer = await client.post(MODELS, json={"models": ["base=three"]})
        assert (answer.status_code, answer.json()["change"]) == (202, "The checkpoints are being checked.")
        again = await client.post(MODELS, json={"models": ["four"]})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "out_of_order")
        await becomes(lambda: not runtime.changing)
        assert runtime.status.problem is None
        assert runtime.args == ("--device", "cpu", "--max-slots", "2", "--model", "base=three")
        assert (await client.delete(MODELS)).status_code == 409
    supervision.cancel()
    await asyncio.gather(supervision, return_exceptions=True)


async def test_external_runtime_cannot_be_changed_and_foreign_origins_are_refused() -> None:
    async with studio(GivenRuntime("http://127.0.0.1:1")) as client:
        assert (await client.post(MODELS, json={"models": ["x"]})).json()["error"]["code"] == "out_of_order"
        assert (await client.delete(MODELS)).status_code == 409
        foreign = await client.post(MODELS, json={"models": ["x"]}, headers={"origin": "http://elsewhere.example"})
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "origin_refused")


def test_quantiles_of_a_histogram_are_interpolated() -> None:
    buckets = {0.1: 5.0, 0.2: 10.0, float("inf"): 10.0}
    assert quantile(buckets, 0.5) == pytest.approx(0.1)
    assert quantile(buckets, 0.95) == pytest.approx(0.19)
    assert quantile({0.1: 0.0, float("inf"): 4.0}, 0.95) == 0.1
    assert quantile({}, 0.5) is None


def test_metrics_are_summed_over_modes_and_dialects() -> None:
    page = (
        "# TYPE voicewright_underruns counter\n"
        'voicewright_underruns_total{mode="base"} 2.0\nvoicewright_underruns_total{mode="custom_voice"} 3.0\n'
        "# TYPE voicewright_active gauge\nvoicewright_active 4.0\n"
    )
    fields = figures(page)
    assert (fields["underruns"], fields["active"], fields["ttfa_p50_s"]) == (5, 4, None)


async def test_http_1_0_proxy_on_this_machine_does_not_grant_host_access() -> None:
    async def run() -> bytes:
        async with served(HostRoutes(ChildRuntime([]), StudioSettings(), {}).routes()) as address:
            host, port = address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /studio/host HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            line = await reader.readline()
            writer.close()
            return line

    assert b" 403 " in await run()
