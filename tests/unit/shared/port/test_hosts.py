"""Tests for the validation of the Host header."""

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
def test_loopback_port_accepts_only_loopback_names_and_addresses(address: str) -> None:
    hosts = Hosts("", address, {})
    assert all(hosts.allow(header) for header in ALWAYS), address
    assert not any(hosts.allow(header) for header in NEVER), address


@pytest.mark.parametrize(
    "name", ["gpu-box:7860", "voicewright", "studio.local", "host.docker.internal", "tts.svc.cluster.local", "box.lan"]
)
def test_public_port_accepts_only_unregistrable_names(name: str) -> None:
    assert Hosts("", "0.0.0.0", {}).allow(name)
    assert Hosts("", "192.168.1.5", {}).allow(name)
    assert not Hosts("", "127.0.0.1", {}).allow(name)


def test_operator_can_allow_more_host_names() -> None:
    hosts = Hosts("tts.example.com, *.studio.example", "127.0.0.1", {})
    assert hosts.allow("tts.example.com:443")
    assert hosts.allow("TTS.example.com")
    assert hosts.allow("a.b.studio.example")
    for other in ("example.com", "x.tts.example.com", "studio.example", "evilstudio.example"):
        assert not hosts.allow(other), other
    assert Hosts("*", "127.0.0.1", {}).allow("evil.example")
    assert Hosts("", "tts.example.com", {}).allow("tts.example.com")  # A port accepts its own host name.


def test_hugging_face_space_accepts_the_host_of_its_proxy() -> None:
    assert Hosts("", "0.0.0.0", {"SPACE_ID": "owner/name"}).allow("owner-name.hf.space")
