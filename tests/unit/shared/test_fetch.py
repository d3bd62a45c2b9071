"""Tests for downloads of reference audio: only public HTTPS hosts are contacted."""

from __future__ import annotations

import http.server
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runtime.errors import AddressRefused, MessageTooLarge, SpeechError
from runtime.server.voices.uploads import read_upload
from runtime.settings import Limits
from runtime.shared.fetch import Fetcher, is_public, web_address_of

# Certificate for the host voices.example, valid for a hundred years.
CERTIFICATE = Path(__file__).parent / "data" / "certificate.pem"
SOUND = bytes(range(256)) * 100


@dataclass(slots=True)
class Trap:
    """Fake HTTPS server on this machine that records connections and requests."""

    port: int
    knocks: list[tuple[str, int]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)  # Path and Host header of each request.
    body: bytes = SOUND
    target: str = "https://voices.example/sound"  # Target of the redirect at /away.
    # The event is set when the client closes its connection to /endless.
    closed: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def trap() -> Iterator[Trap]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append((self.path, self.headers["Host"]))
            if self.path == "/slow":
                self.send_response(200)
                self.end_headers()
                for _ in range(100):
                    time.sleep(0.05)
                    self.wfile.write(b"x")
                return
            if self.path == "/endless":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                try:
                    for _ in range(100):
                        time.sleep(0.05)
                        self.wfile.write(b"x")
                except OSError:
                    found.closed.set()
                return
            self.send_response({"/away": 302, "/none": 404}.get(self.path, 200))
            self.send_header("Location", found.target.encode().decode("latin-1"))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *_: object) -> None:
            return

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
            connection, address = super().get_request()
            found.knocks.append(address)
            return connection, address

        def handle_error(self, *_: object) -> None:
            return  # Ignore errors, because the tested clients disconnect early.

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    found = Trap(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def fetcher(trap: Trap, *resolved: str, public: bool = False, seconds: float = 5.0) -> Fetcher:
    """Return a fetcher that resolves every name to these addresses.

    The fetcher connects to the port of the fake server instead of port 443.
    """
    return Fetcher(
        resolve=lambda _: list(resolved or ["127.0.0.1"]),
        is_public=(lambda _: True) if public else is_public,
        port=trap.port,
        context=ssl.create_default_context(cafile=str(CERTIFICATE)),
        seconds=seconds,
    )


def test_public_address_is_fetched(trap: Trap) -> None:
    data = fetcher(trap, public=True).fetch("https://Voices.Example:443/sound?take=2", max_bytes=10**6)
    assert data == SOUND
    assert trap.asked == [("/sound?take=2", "voices.example")]


ADDRESSES = [
    *(
        "http://voices.example/x",
        "ftp://voices.example/x",
        "file:///etc/passwd",
        "HTTPS:/voices.example/x",
        "//voices.example",
    ),
    *(
        "https:voices.example",
        "https:///x",
        "https://",
        "gopher://voices.example",
        "unix:/run/x",
        "https:\\\\voices.example/",
    ),
    *("https://127.0.0.1/x", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/"),
    *("https://017700000001/", "https://0177.0.0.1/", "https://127.0.0.1.", "https://127.0.0.1:443/", "https://0/"),
    *(
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[fe80::1%25lo]/",
        "https://[::]/",
    ),
    *(
        "https://localhost/",
        "https://LOCALHOST:443/",
        "https://intranet/",
        "https://ip6-localhost/",
        "https://voices.example./",
    ),
    *("https://user@voices.example/", "https://user:word@voices.example/", "https://voices.example@127.0.0.1/"),
    *(
        "https://127.0.0.1\\@voices.example/",
        "https://voices.example\\@127.0.0.1/",
        "https://voices.example#@127.0.0.1/",
    ),
    *(
        "https://voices.example/a\\b",
        "https://voices.example/#x",
        "https://voices.example/a b",
        "https://voices.example/a\tb",
    ),
    *(
        "https://voices.example/\r\nHost: x",
        "https://voices.example\n/",
        " https://voices.example/",
        "https://voices.example/\x00",
    ),
    *(
        "https://voices.example:8443/",
        "https://voices.example:80/",
        "https://voices.example:/",
        "https://voices.example:0443/",
    ),
    *("https://voices..example/", "https://.example/", "https://-voices.example/", "https://voices-.example/"),
    *(
        "https://voices.example%2f@127.0.0.1/",
        "https://voices%2eexample/",
        "https://ⓥoices.example/",
        "https://voices。example/",
    ),
    *(
        "https://voices_x.example/",
        "https://voices.example/" + "x" * 3000,
        "https://" + "a" * 64 + ".example/",
        "https://1.2.3/",
    ),
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_invalid_addresses_are_refused_without_connecting(trap: Trap, address: str) -> None:
    with pytest.raises(AddressRefused, match="only https"):
        fetcher(trap, public=True).fetch(address, max_bytes=10**6)
    assert trap.knocks == []


PRIVATE = [
    *(
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
    ),
    *(
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%lo",
        "fc00::1",
        "fec0::1",
    ),
    *(
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::",
    ),
    *("2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:db8::1", "::127.0.0.1", "not an address", ""),
]


@pytest.mark.parametrize("resolved", PRIVATE)
def test_names_of_private_machines_are_refused(trap: Trap, resolved: str) -> None:
    for addresses in ([resolved], ["93.184.216.34", resolved]):  # A single private address is enough for a refusal.
        with pytest.raises(AddressRefused, match="not a public one"):
            fetcher(trap, *addresses).fetch("https://voices.example/x", max_bytes=10**6)
    assert trap.knocks == []


def test_public_addresses_are_recognised() -> None:
    for address in ("93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808"):
        assert is_public(address), address


def test_host_name_is_resolved_only_once(trap: Trap) -> None:
    """In a DNS rebinding attack, the first address is public and the next address is local."""
    answers = iter([["192.0.2.1"], ["127.0.0.1"]])
    asked: list[str] = []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        return next(answers)

    opened = Fetcher(resolve=resolve, is_public=lambda _: True, port=trap.port, seconds=0.5)
    with pytest.raises(AddressRefused):
        opened.fetch("https://voices.example/x", max_bytes=10**6)
    assert asked == ["voices.example"]
    assert trap.knocks == []


@pytest.mark.parametrize("path", ["/away", "/none"])
def test_redirects_are_not_followed_and_error_bodies_not_read(trap: Trap, path: str) -> None:
    with pytest.raises(AddressRefused, match="status"):
        fetcher(trap, public=True).fetch(f"https://voices.example{path}", max_bytes=10**6)
    assert [asked for asked, _ in trap.asked] == [path]


def test_redirects_are_followed_if_allowed_and_checked_like_the_address(trap: Trap) -> None:
    def page(redirects: int, target: str) -> bytes:
        trap.asked.clear()
        trap.target = target
        answers = {"voices.example": "127.0.0.1", "inside.example": "10.0.0.1"}
        follower = Fetcher(
            field="url",
            redirects=redirects,
            resolve=lambda host: [answers[host]],
            is_public=lambda address: address == "127.0.0.1",
            port=trap.port,
            context=ssl.create_default_context(cafile=str(CERTIFICATE)),
        )
        return follower.fetch("https://voices.example/away", max_bytes=10**6)

    for target, asked in {"/sound?b=1#part": "/sound?b=1", "/größe": "/gr%C3%B6%C3%9Fe"}.items():
        assert page(1, target) == SOUND
        assert [path for path, _ in trap.asked] == ["/away", asked]
    for target, why in {
        "https://inside.example/x": "not a public one",
        "http://voices.example/x": "only https",
        "https://127.0.0.1/x": "only https",
        "/away": "redirects too often",
    }.items():
        with pytest.raises(AddressRefused, match=why) as refused:
            page(3, target)
        assert refused.value.param == "url"
        assert {asked for asked, _ in trap.asked} == {"/away"}


def test_tls_certificate_must_match_the_host_name(trap: Trap) -> None:
    with pytest.raises(AddressRefused, match="reached"):
        fetcher(trap, public=True).fetch("https://others.example/x", max_bytes=10**6)
    strict = Fetcher(resolve=lambda _: ["127.0.0.1"], is_public=lambda _: True, port=trap.port)
    with pytest.raises(AddressRefused, match="reached"):
        strict.fetch("https://voices.example/x", max_bytes=10**6)
    assert trap.asked == []


def test_body_over_the_limit_is_not_read(trap: Trap) -> None:
    with pytest.raises(MessageTooLarge):
        fetcher(trap, public=True).fetch("https://voices.example/x", max_bytes=len(SOUND) - 1)
    assert fetcher(trap, public=True).fetch("https://voices.example/x", max_bytes=len(SOUND)) == SOUND


def test_slow_response_times_out(trap: Trap) -> None:
    with pytest.raises(AddressRefused, match="within"):
        fetcher(trap, public=True, seconds=0.4).fetch("https://voices.example/slow", max_bytes=10**6)


def test_deadline_closes_the_connection_of_endless_headers(trap: Trap) -> None:
    with pytest.raises(AddressRefused, match="within"):
        fetcher(trap, public=True, seconds=0.4).fetch("https://voices.example/endless", max_bytes=10**6)
    assert trap.closed.wait(2)


def test_hanging_resolver_times_out() -> None:
    never = threading.Event()
    opened = Fetcher(resolve=lambda _: [str(never.wait(60))], seconds=0.2)
    try:
        with pytest.raises(AddressRefused, match="within"):
            opened.fetch("https://voices.example/x", max_bytes=10)
        assert not never.is_set()
    finally:
        never.set()


def test_url_is_parsed_once_into_host_and_target() -> None:
    place = web_address_of("https://Voices.Example?a=/b")
    assert (place.host, place.target) == ("voices.example", b"/?a=/b")


def test_addresses_are_not_logged(trap: Trap, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        fetcher(trap, public=True).fetch("https://voices.example/canary", max_bytes=10**6)
    assert "canary" not in caplog.text


def test_uploads_fetch_urls_only_if_allowed(trap: Trap) -> None:
    for allowed in (None, fetcher(trap)):
        error = read_upload("https://voices.example/x", Limits(), allowed)
        assert isinstance(error, SpeechError)
        assert (error.code, error.param) == ("address_refused", "ref_audio")
    assert trap.knocks == []
    error = read_upload("https://voices.example/x", Limits(), fetcher(trap, public=True))
    assert isinstance(error, SpeechError)
    assert error.code == "invalid_ref_audio"  # The URL was fetched, but its content is not audio.
    assert len(trap.knocks) == 1
