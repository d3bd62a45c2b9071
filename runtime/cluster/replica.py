"""Ray Serve replica: an actor that runs, monitors and drains one runtime process.

The actor and the runtime are two processes, so Serve's threads do not share a Python interpreter with the engine.
Clients connect to the port of the runtime. The runtime ends together with the actor. If the runtime ends first, the
actor also ends, and Serve starts another actor.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from runtime.cluster.balance import Checkpoint, Replica
from runtime.cluster.directory import REPORT_INTERVAL_S
from runtime.cluster.store import Store, store_of
from runtime.server.http.keys import parse_keys
from runtime.settings import Settings
from runtime.shared.certificates import certificates
from runtime.shared.names import new_id

log = logging.getLogger(__name__)

PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
READY = "Voicewright runtime ready at "
_THREADS = "OMP_NUM_THREADS"
QUERY_TIMEOUT_S = 10.0  # Timeout of a request to the runtime.
CONNECT_GRACE_TIMEOUT_S = 1.0  # Seconds in which clients that connected just before a drain can start their requests.
STORE_CLOSE_TIMEOUT_S = 5.0  # Timeout for uploading the last changes of an ended runtime to the store.
_POLL_INTERVAL_S = 0.05  # Poll interval for the state of the runtime process.


def runtime_environment(environment: Mapping[str, str], *, processors: float, parent: int) -> dict[str, str]:
    """Return the environment of the Ray worker without Ray's limit of OpenMP threads.

    Ray sets OMP_NUM_THREADS=1 in workers without reserved CPUs unless the user has set the variable. The environment of
    the parent process shows whether the user has set it.

    Args:
        environment: Environment variables of the Ray worker.
        processors: Number of CPUs that Ray reserves for the worker.
        parent: Pid of the process that starts workers.
    """
    child_environment = dict(environment)
    if _THREADS in child_environment and not processors:
        # Without /proc, it is unknown if the parent already had the variable for the number of threads, so it is kept.
        with suppress(OSError):
            entries = Path("/proc", str(parent), "environ").read_bytes().split(b"\0")
            if not any(word.startswith(f"{_THREADS}=".encode()) for word in entries):
                del child_environment[_THREADS]
    return child_environment


class RuntimeReplica:
    """Ray Serve actor with one runtime process.

    Thread: event loop.
    """

    async def __init__(  # type: ignore[misc]  # Ray Serve awaits this method.
        self,
        directory: Any,
        *,
        pool: str,
        models: Sequence[str],
        environment: Mapping[str, str],
        host: str = "127.0.0.1",
        generation: int = 0,
    ) -> None:
        """Start a runtime and wait until it is ready.

        Args:
            directory: Handle of the `Directory` actor.
            pool: Name of the pool.
            models: Checkpoints that the runtime serves.
            environment: Settings as environment variables.
            host: Host to listen on, where "node" is this machine's address in the Ray cluster.
            generation: Number that is changed to make Serve replace replicas.

        Raises:
            RuntimeError: The runtime ended before it was ready. The message is the last line of its log.
        """
        self._directory = directory
        self._settings = Settings.from_env({**os.environ, **environment})
        self._name = f"{pool}-{new_id()}"
        self._last_line = ""
        self._store: Store = store_of(self._settings)
        self._folder = Path(tempfile.mkdtemp(prefix="voicewright-replica-"))
        if host == "node":
            from ray.util import get_node_ip_address

            host = get_node_ip_address()
        own_variables = {"VOICEWRIGHT_ELSEWHERE_FILE": str(self._other_checkpoints_file)}
        # The ingress opens and announces the public Wyoming port. The replica's port is private.
        if self._settings.server.wyoming:
            own_variables |= {"VOICEWRIGHT_WYOMING": f"tcp://{host}:0", "VOICEWRIGHT_WYOMING_ANNOUNCED": "no"}
        self._process = self._start(models, {**environment, **self._store.environment, **own_variables}, host)
        url = await asyncio.get_running_loop().run_in_executor(None, self._wait_until_ready)
        self._http = httpx.AsyncClient(
            base_url=url, verify=certificates(), trust_env=False, timeout=QUERY_TIMEOUT_S, headers=self._key
        )
        served = tuple(Checkpoint.of(entry) for entry in (await self._http.get("/v1/models")).json()["data"])
        ports = (await self._http.get("/ready")).json()["ports"]
        address = httpx.URL(url)
        self._replica = Replica(
            name=self._name,
            host=address.host,
            port=address.port or 0,
            wyoming_port=httpx.URL(ports["wyoming"]).port or 0 if "wyoming" in ports else 0,
            pool=pool,
            modes=tuple(sorted({mode for checkpoint in served for mode in checkpoint.modes})),
            checkpoints=served,
        )
        self._is_ending = False
        self._tasks = [
            asyncio.create_task(self._watch(), name="watch"),
            asyncio.create_task(self._report(), name="report"),
            asyncio.create_task(self._store.run(), name="store"),
        ]

    @property
    def _other_checkpoints_file(self) -> Path:
        """Return the path of the file that lists the checkpoints of other replicas."""
        return self._folder / "elsewhere.json"

    @property
    def _key(self) -> dict[str, str]:
        keys = [*self._settings.server.keys]
        if file := self._store.environment.get("VOICEWRIGHT_API_KEYS_FILE", self._settings.server.api_keys_file):
            keys += parse_keys(Path(file).read_text(encoding="utf-8"))
        return {"x-api-key": keys[0]} if keys else {}

    def _start(self, models: Sequence[str], environment: Mapping[str, str], host: str) -> subprocess.Popen[bytes]:
        import ray

        processors = float(ray.get_runtime_context().get_assigned_resources().get("CPU", 0.0))
        command = [
            sys.executable,
            "-m",
            "runtime.shared.child",
            "runtime.cli",
            "runtime",
            "--host",
            host,
            "--port",
            "0",
        ]
        for model in models:
            command += ["--model", model]
        server = self._settings.server
        return subprocess.Popen(  # noqa: S603  The command contains no user input.
            command,
            # When this process ends, the pipe is closed, and then the runtime also ends (runtime/shared/child.py).
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **runtime_environment(os.environ, processors=processors, parent=os.getppid()),
                **environment,
                "VOICEWRIGHT_SHARED_TICKETS": "1",
                # All connections come from the ingress, which limits the connections per address.
                "VOICEWRIGHT_MAX_CONNECTIONS_PER_ADDRESS": str(server.max_connections),
                "PYTHONPATH": os.pathsep.join(filter(None, [PACKAGE_ROOT, os.environ.get("PYTHONPATH")])),
            },
            start_new_session=True,
        )

    def _wait_until_ready(self) -> str:
        """Wait until the runtime is ready and return its URL.

        Thread: worker thread.
        """
        assert self._process.stdout is not None
        threading.Thread(target=self._copy_log, name="runtime-log", daemon=True).start()
        for line in self._process.stdout:
            message = line.decode("utf-8", "replace").strip()
            if message.startswith(READY):
                return message.removeprefix(READY)
        self._process.wait()
        raise RuntimeError(self._last_line or f"the runtime ended with status {self._process.returncode}")

    def _copy_log(self) -> None:
        """Copy the runtime's log to stderr.

        Thread: log thread.
        """
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last_line = line.decode("utf-8", "replace").strip() or self._last_line
            sys.stderr.buffer.write(line)
            sys.stderr.flush()

    async def _watch(self) -> None:
        """End this process if the runtime ends, so that Serve starts another replica."""
        while self._process.poll() is None:  # noqa: ASYNC110  Popen can only be polled.
            await asyncio.sleep(_POLL_INTERVAL_S)
        if self._is_ending:
            return
        log.error("the runtime of %s ended with status %s", self._name, self._process.returncode)
        with suppress(Exception):
            await asyncio.wait_for(self._directory.leave.remote(self._name), 1.0)
        with suppress(Exception):
            await asyncio.wait_for(self._store.close(), STORE_CLOSE_TIMEOUT_S)
        self._clear()
        os._exit(1)

    async def _report(self) -> None:
        known = None
        while not self._is_ending:
            with suppress(Exception):  # The directory may be restarting.
                served = await self._directory.report.remote(self._replica)
                if served != known:
                    self._write_other_checkpoints(served)
                    known = served
            await asyncio.sleep(REPORT_INTERVAL_S)

    def _write_other_checkpoints(self, served: Sequence[Checkpoint]) -> None:
        """Write the file that lists the checkpoints of other replicas atomically."""
        part = self._other_checkpoints_file.with_suffix(".part")
        others = [asdict(checkpoint) for checkpoint in served if checkpoint not in self._replica.checkpoints]
        part.write_text(json.dumps(others), encoding="utf-8")
        part.replace(self._other_checkpoints_file)

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    async def check_health(self) -> None:
        """Raise an error if the replica is unhealthy.

        Ray Serve calls this method periodically.

        Raises:
            httpx.HTTPError: The runtime does not respond, or its engine has failed.
        """
        if not self._is_ending:
            (await self._http.get("/health")).raise_for_status()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the numbers of used slots and of all slots, for the autoscaling policy."""
        load = (await self._http.get("/ready")).json()
        return {"slots_in_use": float(load["active"] + load["waiting"]), "slots": float(load["slots"])}

    async def __del__(self) -> None:
        """Drain the runtime and wait until its process has ended.

        Serve calls this method before it ends the actor, and waits up to a timeout.
        """
        if not hasattr(self, "_replica"):
            return
        self._is_ending = True
        with suppress(Exception):
            await asyncio.wait_for(self._directory.drain.remote(self._name), 10.0)
        await asyncio.sleep(CONNECT_GRACE_TIMEOUT_S)
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        while self._process.poll() is None:  # noqa: ASYNC110  Popen can only be polled.
            await asyncio.sleep(_POLL_INTERVAL_S)
        await self._store.close()
        self._clear()
        with suppress(Exception):
            await asyncio.wait_for(self._directory.leave.remote(self._name), 1.0)
        for task in self._tasks:
            task.cancel()
