"""Startup and shutdown of a Ray node on this machine, without its dashboard and metrics."""

from __future__ import annotations

import io
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType

from runtime.errors import InvalidSetting

log = logging.getLogger(__name__)

# Number of attempts to start Ray. On a busy machine, Ray's processes may not start within Ray's own timeout of 30 s.
ATTEMPTS = 2
START_TIMEOUT_S = 120
STOP_MARGIN_S = 4.0  # Seconds that replicas have after the drain timeout, before Ray is stopped.

# Environment variables that must be set before Ray is imported.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # By default, Ray lowers the priority of workers (niceness 15), and HAProxy and the runtimes would inherit it.
    "RAY_worker_niceness": "0",
    "RAY_enable_metrics_collection": "0",  # The cluster has its own metrics (runtime/cluster/view.py).
    "RAY_prestart_worker_first_driver": "0",  # No idle workers are started while Ray's own processes start.
}


def logs_folder() -> Path:
    """Return the folder of Ray's log files."""
    return Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / "ray" / "session_latest" / "logs"


def start_ray(address: str | None, namespace: str) -> None:
    """Start Ray on this machine, with one retry, or connect to the cluster at ``address``.

    Raises:
        InvalidSetting: Ray did not start. The message contains the folder of the log files.
    """
    import ray

    if address is None:
        # The new function makes Ray treat the packages of its dashboard as missing. Ray's agents then start without
        # HTTP servers and modules, which saves half of their CPU time. The agents themselves are needed, because the
        # raylet exits after 15 s without them, and Ray 2.60 has no setting for this.
        ray._private.utils.get_dashboard_dependency_error = lambda: ImportError("not used")
    error: Exception | None = None
    for _ in range(ATTEMPTS if address is None else 1):
        try:
            with _time_limit(START_TIMEOUT_S):
                ray.init(
                    address=address or "local",
                    namespace=namespace,
                    include_dashboard=False if address is None else None,
                    logging_level=logging.CRITICAL,
                    log_to_driver=False,
                )
            return
        except Exception as failure:
            error = failure
            log.info("Ray did not start", exc_info=True)
            ray.shutdown()
            _kill_children()
    reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    why = f"Ray did not start ({reason}); its logs are in {logs_folder()}"
    raise InvalidSetting(name="cluster", value="not started", why=why) from None


def stop_ray(drain_s: float, second_signal: threading.Event) -> None:
    """Stop Ray Serve and Ray on this machine.

    Ray Serve has `drain_s` seconds and a margin to stop. Then Ray is stopped. Ray's log lines about its shutdown are
    suppressed.

    Args:
        drain_s: Seconds that running requests have to finish.
        second_signal: Event that is set at a second signal, and ends the wait.
    """
    import ray
    from ray import serve

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        ended = threading.Event()

        def shut_down() -> None:
            with suppress(Exception):  # Serve's controller may have ended already.
                serve.shutdown()
            ended.set()

        threading.Thread(target=shut_down, name="serve-shutdown", daemon=True).start()
        for _ in range(int((drain_s + STOP_MARGIN_S) * 10)):
            if second_signal.is_set() or ended.wait(0.1):
                break
        ray.shutdown()


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Context manager that raises TimeoutError after `seconds`, if run on the main thread."""

    def expire(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _kill_children() -> None:
    """Kill the processes of a failed start, which would slow down the next start.

    This process has no other child processes.
    """
    with suppress(OSError):
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
