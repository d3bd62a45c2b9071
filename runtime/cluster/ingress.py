"""Ingress that keeps HAProxy's servers consistent with the current replicas.

The ingress also sets the weight of each server from the replica's load, and drains replicas before they stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from runtime.cluster.balance import Load, Replica, ReplicaState, weights
from runtime.cluster.haproxy import ANY_BACKEND, BACKENDS, VOICES_MAP, WYOMING_BACKEND, HAProxy, ServerEntry
from runtime.cluster.view import ClusterView
from runtime.request import Mode
from runtime.server.wyoming.announcement import announce_port
from runtime.settings import Settings
from runtime.shared.certificates import certificates
from runtime.shared.names import new_id
from runtime.shared.port.serving import WYOMING_VARIABLE, address_of

log = logging.getLogger(__name__)

QUERY_TIMEOUT_S = 1.0  # Timeout of a load request to a replica.


class Ingress:
    """Ray Serve actor that owns the public port of a machine.

    Thread: event loop.
    """

    async def __init__(  # type: ignore[misc]  # Ray Serve awaits this method.
        self, directory: Any, environment: dict[str, str], *replicas: Any, folder: str
    ) -> None:
        """Open the ports and start HAProxy.

        Args:
            directory: Handle of the `Directory` actor.
            environment: Settings as environment variables.
            replicas: Handles of the deployments that the ingress needs, so that Serve starts them.
            folder: Folder for HAProxy's files on this machine.

        Raises:
            PortInUse, InvalidSetting: The port cannot be opened, or HAProxy is not installed.
        """
        settings = Settings.from_env({**os.environ, **environment})
        self._settings = settings
        self._directory = directory
        self._name = new_id()
        self._http = httpx.AsyncClient(
            verify=certificates(), trust_env=False, timeout=QUERY_TIMEOUT_S, limits=httpx.Limits()
        )
        self.replicas: dict[str, Replica] = {}
        self.loads: dict[str, Load] = {}
        self._server_names: dict[str, str] = {}  # Name of each replica's server, which is the same in all backends.
        # Names of replicas for which HAProxy has no free server entry. Each name is logged once.
        self._without_place: set[str] = set()
        self._sent: dict[str, tuple[object, ...]] = {}  # Last values that were sent to HAProxy, by server.
        self._voices: dict[str, str] = {}
        self._version = -1
        self._view = ClusterView(self, self._http, settings)
        view_port = await self._view.start()
        self._haproxy = HAProxy(settings, Path(folder), view_port)
        await self._haproxy.start()
        self._task = asyncio.create_task(self._run(), name="ingress")
        self._announcing: asyncio.Task[None] | None = None
        if settings.server.wyoming and settings.server.wyoming_announced:
            self._announcing = asyncio.create_task(self._announce(), name="wyoming-announcement")

    @property
    def ports(self) -> dict[str, str]:
        """Return the addresses of non-HTTP ports by protocol."""
        return {"wyoming": self._settings.server.wyoming} if self._settings.server.wyoming else {}

    async def _announce(self) -> None:
        """Announce the port of Wyoming on the local network."""
        name, port = address_of(self._settings.server.wyoming, setting=WYOMING_VARIABLE)
        addresses = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
        await announce_port(str(addresses[0][4][0]), port)

    @property
    def ready(self) -> list[Replica]:
        """Return the replicas that accept new requests."""
        return [replica for replica in self.replicas.values() if replica.state is ReplicaState.READY]

    async def check_health(self) -> None:
        """Raise an error if the ingress is unhealthy.

        Ray Serve calls this method periodically.

        Raises:
            RuntimeError: HAProxy or the task that updates HAProxy has ended.
        """
        if not self._haproxy.alive or self._task.done():
            raise RuntimeError("HAProxy has ended")

    async def __del__(self) -> None:
        if not hasattr(self, "_task"):
            return
        # The ingress is not announced any more. It keeps its open connections and still adds new replicas to HAProxy.
        if self._announcing is not None:
            self._announcing.cancel()
            await asyncio.gather(self._announcing, return_exceptions=True)
        await self._haproxy.stop(self._settings.server.drain_s)
        self._task.cancel()
        await self._view.stop()

    async def _run(self) -> None:
        while True:
            try:
                await self._update()
            except Exception:
                log.exception("HAProxy could not be updated")
                if not self._haproxy.alive:
                    return
            await asyncio.sleep(self._settings.cluster.balance_s)

    async def _update(self) -> None:
        version, replicas = self._version, list(self.replicas.values())
        with suppress(Exception):  # The last known state is used while the directory restarts.
            version, replicas = await asyncio.wait_for(
                self._directory.replicas.remote(self._name, self._version), QUERY_TIMEOUT_S
            )
        self.replicas = {replica.name: replica for replica in replicas}
        self._assign_servers()
        answers, server_entries = await asyncio.gather(
            asyncio.gather(*map(self._query, self.ready)), self._haproxy.server_entries()
        )
        self.loads = {name: load for name, load in answers if load is not None}
        commands, values = self._commands(server_entries)
        await self._haproxy.run_commands(commands)
        # The values count as sent only if all commands succeeded. Otherwise the next call sends the values again.
        self._sent = values
        await self._send_voices()
        self._version = version

    async def _query(self, replica: Replica) -> tuple[str, Load | None]:
        """Request the load of a replica, and return the replica's name and load.

        The load is None if the replica does not respond. HAProxy's health checks handle this case.
        """
        try:
            body = (await self._http.get(f"{replica.url}/ready")).json()
            return replica.name, Load(slots=body["slots"], active=body["active"], waiting=body["waiting"])
        except (httpx.HTTPError, ValueError, KeyError):
            return replica.name, None

    def _assign_servers(self) -> None:
        """Assign a server entry to each new replica, and release the entries of lost replicas."""
        for name in self._server_names.keys() - self.replicas.keys():
            del self._server_names[name]
        used = set(self._server_names.values())
        free = (
            server
            for number in range(1, self._settings.cluster.max_replicas + 1)
            if (server := f"r{number}") not in used
        )
        for name in self.replicas.keys() - self._server_names.keys():
            if (place := next(free, None)) is not None:
                self._server_names[name] = place
            elif name not in self._without_place:
                log.error("no server entry is free for %s: VOICEWRIGHT_MAX_REPLICAS is too small", name)
        self._without_place = self.replicas.keys() - self._server_names.keys()

    def _commands(self, server_entries: list[ServerEntry]) -> tuple[list[str], dict[str, tuple[object, ...]]]:
        """Return the commands that update HAProxy's servers, and the new values by server."""
        connections: dict[str, dict[str, int]] = defaultdict(dict)
        names = {server: name for name, server in self._server_names.items()}
        for entry in server_entries:
            if entry.server in names:
                connections[entry.backend][names[entry.server]] = entry.connections
        commands: list[str] = []
        values: dict[str, tuple[object, ...]] = {}
        check_ports: dict[str, int] = {}  # Health check port by server name.
        for backend in BACKENDS:
            serving = self._serving(backend)
            loads = {name: load for name, load in self.loads.items() if name in serving}
            weight_by_name = weights(loads, connections[backend])
            for name, server in self._server_names.items():
                if (replica := serving.get(name)) is not None:
                    port = replica.wyoming_port if backend == WYOMING_BACKEND else replica.port
                    values[f"{backend}/{server}"] = (replica.host, port, replica.state, weight_by_name.get(name, 1))
                    if backend == WYOMING_BACKEND:
                        check_ports[f"{backend}/{server}"] = replica.port
        for server, now in values.items():
            commands += server_commands(server, self._sent.get(server), now, check_port=check_ports.get(server))
        for server in self._sent.keys() - values.keys():
            commands += [f"set server {server} state maint", f"disable health {server}"]
        # Servers that an earlier ingress has added to this HAProxy process.
        unknown = {f"{entry.backend}/{entry.server}" for entry in server_entries if entry.is_up} - values.keys()
        for server in unknown - self._sent.keys():
            commands += [f"set server {server} state maint", f"disable health {server}"]
        return commands, values

    def _serving(self, backend: str) -> dict[str, Replica]:
        """Return the replicas of a backend by name.

        A Wyoming client sees the voices of only one replica. Therefore replicas with speakers (CustomVoice) serve
        Wyoming if there are any.
        """
        if backend == ANY_BACKEND:
            return self.replicas
        if backend != WYOMING_BACKEND:
            return {name: replica for name, replica in self.replicas.items() if backend in replica.modes}
        is_open = bool(self._settings.server.wyoming)
        of_tcp = {name: replica for name, replica in self.replicas.items() if is_open and replica.wyoming_port}
        speakers = {name: replica for name, replica in of_tcp.items() if Mode.CUSTOM_VOICE in replica.modes}
        return speakers or of_tcp

    async def _send_voices(self) -> None:
        """Update HAProxy's map from speaker names to modes."""
        voices = {
            name.lower(): Mode.CUSTOM_VOICE.value
            for replica in self.replicas.values()
            for checkpoint in replica.checkpoints
            if Mode.CUSTOM_VOICE in checkpoint.modes
            for name in checkpoint.speakers
            if not any(character.isspace() or character in ";\\" for character in name)
        }
        if voices != self._voices:
            path = self._haproxy.folder / VOICES_MAP
            await self._haproxy.run_commands(
                [f"clear map {path}", *(f"add map {path} {name} {mode}" for name, mode in voices.items())]
            )
            self._voices = voices


def server_commands(
    server: str, before: tuple[object, ...] | None, now: tuple[object, ...], *, check_port: int | None = None
) -> list[str]:
    """Return the commands for HAProxy's admin socket that update one server.

    Args:
        server: Server name as BACKEND/NAME.
        before: Last values (host, port, state, weight) that were sent to HAProxy, or None.
        now: New values.
        check_port: Port of the health checks if it differs from the server's port, or None.
    """
    host, port, state, weight = now
    commands = []
    if before is None or before[:2] != now[:2]:
        commands += [f"set server {server} addr {host} port {port}"]
        if check_port is not None:
            commands += [f"set server {server} check-port {check_port}"]
    if before is None or before[:3] != now[:3]:
        if state is ReplicaState.DRAINING:
            commands += [f"set server {server} state drain"]
        else:
            commands += [
                f"set server {server} state ready",
                f"enable health {server}",
                f"set server {server} health up",
            ]
    if before is None or before[3] != weight:
        commands += [f"set server {server} weight {weight}"]
    return commands
