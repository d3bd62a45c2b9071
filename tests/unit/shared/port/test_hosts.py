"""By which names a port may be called."""

from __future__ import annotations

import pytest

from runtime.shared.port.origins import Hosts

ALWAYS = ["", "localhost", "LOCALHOST:7860", "localhost.", "a.localhost:1", "127.0.0.1:80", "[::1]:7860", "192.168.1.5"]
NEVER = [
    "evil.example",
    "localhost.evil.example:7860",
    "127.0.0.1.evil.example",
    "evil.example:80@localhost",
    "user@localhost",
    "localhost/evil",
    "localhost?x",
    "localhost:port",
    "[::1",
    ":7860",
    "xlocalhost.example",
]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::"])
def test_a_port_goes_by_loopback_names_and_addresses_and_no_strangers_names(address: str) -> None:
    hosts = Hosts("", address, {})
    assert all(hosts.know(header) for header in ALWAYS), address
    assert not any(hosts.know(header) for header in NEVER), address


@pytest.mark.parametrize(
    "name", ["gpu-box:7860", "voicewright", "studio.local", "host.docker.internal", "tts.svc.cluster.local", "box.lan"]
)
def test_what_other_machines_reach_goes_by_names_that_nobody_can_register(name: str) -> None:
    assert Hosts("", "0.0.0.0", {}).know(name)
    assert Hosts("", "192.168.1.5", {}).know(name)
    assert not Hosts("", "127.0.0.1", {}).know(name)


def test_the_operator_names_others() -> None:
    hosts = Hosts("tts.example.com, *.studio.example", "127.0.0.1", {})
    assert hosts.know("tts.example.com:443")
    assert hosts.know("TTS.example.com")
    assert hosts.know("a.b.studio.example")
    for other in ("example.com", "x.tts.example.com", "studio.example", "evilstudio.example"):
        assert not hosts.know(other), other
    assert Hosts("*", "127.0.0.1", {}).know("evil.example")
    assert Hosts("", "tts.example.com", {}).know("tts.example.com")  # the name that it is bound by


def test_a_space_goes_by_whatever_its_proxy_says() -> None:
    assert Hosts("", "0.0.0.0", {"SPACE_ID": "owner/name"}).know("owner-name.hf.space")
