"""Tests for the client's address and scheme if proxies are trusted or headers are forged."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from runtime.settings import ServerSettings
from runtime.shared.port.origins import TrustedProxies, network_of

PROXY = "10.0.0.9"


async def seen(count: int, *headers: tuple[str, str], kind: str = "http") -> tuple[str, str]:
    """Send a request through proxies, and return the client address and scheme that are seen.

    The application sees these values. The proxy has added these headers.
    """
    scopes: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    scheme = "ws" if kind == "websocket" else "http"
    scope = {"type": kind, "headers": raw, "client": (PROXY, 4711), "scheme": scheme}
    await TrustedProxies(app, count)(scope, None, None)  # type: ignore[arg-type]
    return scopes[0]["client"][0], scopes[0]["scheme"]


@pytest.mark.parametrize(
    ("count", "written", "address"),
    [
        (0, ["192.0.2.1"], PROXY),
        (1, ["192.0.2.1"], "192.0.2.1"),
        (1, ["1.1.1.1, 2.2.2.2, 192.0.2.1"], "192.0.2.1"),
        (1, ["1.1.1.1", "192.0.2.1"], "192.0.2.1"),
        (2, ["1.1.1.1, 192.0.2.1, 10.0.0.8"], "192.0.2.1"),
        (2, ["192.0.2.1"], PROXY),
        (1, ["1.1.1.1, 192.0.2.1:5123"], "192.0.2.1"),
        (1, ["[2001:db8::7]:443"], "2001:db8::7"),
        (1, ["1.1.1.1, unknown"], PROXY),
        (1, [""], PROXY),
        (1, [], PROXY),
    ],
)
async def test_client_address_is_that_seen_by_the_outermost_trusted_proxy(
    count: int, written: list[str], address: str
) -> None:
    assert (await seen(count, *(("x-forwarded-for", line) for line in written)))[0] == address


async def test_scheme_is_taken_from_the_trusted_proxy_and_mapped_to_ws() -> None:
    forwarded = ("x-forwarded-proto", "https")
    assert (await seen(1, forwarded))[1] == "https"
    assert (await seen(2, forwarded))[1] == "https"  # The inner proxy has forwarded the scheme.
    assert (await seen(1, forwarded, kind="websocket"))[1] == "wss"
    assert (await seen(0, forwarded))[1] == "http"
    assert (await seen(1, ("x-forwarded-proto", "gopher")))[1] == "http"


def test_hugging_face_space_trusts_one_proxy_by_default() -> None:
    space = {"SPACE_ID": "owner/name"}
    assert (ServerSettings().proxies({}), ServerSettings().proxies(space)) == (0, 1)
    assert ServerSettings(trusted_proxies=2).proxies(space) == 2


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2a00:1450:4001:81b::200e", "2a00:1450:4001:81b::/64"),
        ("2a00:1450:4001:81b:ffff::1", "2a00:1450:4001:81b::/64"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("fd00::17", "fd00::17"),
        ("fe80::17%eth0", "fe80::17%eth0"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_ipv6_clients_are_counted_by_network(address: str, network: str) -> None:
    assert network_of(address) == network
