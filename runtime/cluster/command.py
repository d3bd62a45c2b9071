"""Command ``voicewright cluster``, which starts or changes a cluster of runtimes."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from runtime.cluster.local_ray import ENVIRONMENT, logs_folder, start_ray, stop_ray
from runtime.errors import InvalidSetting
from runtime.server.wyoming.announcement import check_announcement_support
from runtime.settings import Settings
from runtime.shared.port.serving import WYOMING_VARIABLE, address_of

log = logging.getLogger(__name__)

APPLICATION_NAME = "voicewright"
READY_TIMEOUT_S = 600.0  # Timeout until the first replica is ready, which is long because the checkpoint may be large.
_POLL_INTERVAL_S = 0.1


def cluster(
    settings: Settings,
    *,
    pools: Sequence[str],
    address: str | None,
    restart: bool,
    gpus: float | None,
) -> int:
    """Start a cluster and serve until a signal, or change a running cluster and return.

    Args:
        settings: Settings of all processes of the cluster.
        pools: One NAME=REPLICAS:MODEL[,MODEL…] per pool. If empty, one pool serves the models of the settings.
        address: Address of a running cluster that is changed, or None to start a cluster.
        restart: True to replace all replicas one after another.
        gpus: Number of GPUs reserved per replica. None reserves one GPU or NPU if Ray has any and the device allows it.

    Returns:
        Exit status.

    Raises:
        InvalidSetting: Ray or HAProxy is not installed, a pool is invalid, there are too few accelerators, or the
            cluster does not start.
    """
    # Ray stores the token of a local cluster in the user's folder. The token of another cluster must be in the
    # environment.
    if address is not None:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        from ray import serve
    except ImportError:
        why = "install the extra cluster, in a checkout: pip install ./clients/python '.[cluster]'"
        raise InvalidSetting(name="ray", value="not installed", why=why) from None
    from runtime.cluster.app import build, folder_of, with_accelerators
    from runtime.cluster.arguments import Arguments, Pool, check_accelerators
    from runtime.cluster.haproxy import find_haproxy, kill_orphan

    find_haproxy(settings.cluster.haproxy)
    if settings.server.wyoming:
        address_of(settings.server.wyoming, setting=WYOMING_VARIABLE)
        if settings.server.wyoming_announced:
            check_announcement_support()
    if gpus is not None and gpus < 0:
        raise InvalidSetting(name="--gpus", value=f"{gpus:g}", why="it must not be below 0")
    default = Settings()
    models = () if settings.models == default.models else settings.models
    arguments = Arguments(
        pools={
            name: Pool.model_validate({"models": of_pool, "replicas": count, "gpus": gpus})
            for name, count, of_pool in (
                map(pool_of, pools) if pools else [("speech", settings.cluster.replicas, models)]
            )
        },
        environment=replace(settings, models=default.models).as_env(),
        generation=int(time.time()) if restart else 0,
    )
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    start_ray(address, APPLICATION_NAME)
    counted = ray.cluster_resources()
    arguments = with_accelerators(arguments, counted)
    try:
        check_accelerators(arguments.pools.values(), counted)
    except InvalidSetting as missing:
        if address is None:
            ray.shutdown()
            raise
        # Missing accelerators are not an error here, because other machines may join the cluster later.
        log.warning("%s Replicas wait until Ray has more.", missing)
    serve.start(proxy_location="Disabled", logging_config={"enable_access_log": False, "log_level": "WARNING"})
    if address is not None:
        _deploy(build(arguments))
        return 0
    ended, second_signal = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: (second_signal if ended.is_set() else ended).set())
    try:
        _deploy(build(arguments))
        url = _url(settings)
        _wait_until_ready(url, ended)
        if not ended.is_set():
            ray_address = ray.get_runtime_context().gcs_address
            print(f"Voicewright cluster ready at {url} (Ray at {ray_address})", flush=True)
        ended.wait()
    finally:
        stop_ray(settings.server.drain_s, second_signal)
        kill_orphan(Path(folder_of(settings)))
    return 0


def _deploy(application: Any) -> None:
    """Deploy the application and wait until it runs.

    Raises:
        InvalidSetting: The deployment failed. The message contains the last log messages of its processes.
    """
    from ray import serve

    try:
        serve.run(application, name=APPLICATION_NAME, route_prefix=None)
    except RuntimeError as error:
        app_status = serve.status().applications.get(APPLICATION_NAME)
        deployments = () if app_status is None else app_status.deployments.values()
        messages = [deployment.message.strip().splitlines() for deployment in deployments]
        reasons = "; ".join(lines[-1].strip() for lines in messages if lines) or str(error)
        raise InvalidSetting(name="cluster", value="not started", why=reasons) from None


def pool_of(text: str) -> tuple[str, int, list[str]]:
    """Parse NAME=REPLICAS:MODEL[,MODEL…] into the name, the number of replicas and the models.

    Raises:
        InvalidSetting: The text does not have this format.
    """
    name, _, rest = text.partition("=")
    count, _, models = rest.partition(":")
    if not name.isidentifier() or not count.isdecimal() or not int(count) or not models:
        why = "write NAME=REPLICAS:MODEL, with commas between several models"
        raise InvalidSetting(name="--pool", value=repr(text), why=why)
    return name, int(count), models.split(",")


def _url(settings: Settings) -> str:
    host = settings.server.host
    return f"http://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{settings.server.port}"  # noqa: S104  The address is only compared.


def _wait_until_ready(url: str, ended: threading.Event) -> None:
    """Wait until a replica is ready or the command is interrupted.

    Raises:
        InvalidSetting: No replica was ready within `READY_TIMEOUT_S`.
    """
    end = time.monotonic() + READY_TIMEOUT_S
    with httpx.Client(trust_env=False, timeout=5.0) as client:
        while time.monotonic() < end and not ended.is_set():
            try:
                if client.get(f"{url}/ready").status_code == httpx.codes.OK:
                    return
            except httpx.HTTPError:
                pass
            ended.wait(_POLL_INTERVAL_S)
    if not ended.is_set():
        why = f"no replica is ready after {READY_TIMEOUT_S:g} s; Ray's logs say more ({logs_folder()})"
        raise InvalidSetting(name="cluster", value="not ready", why=why)
