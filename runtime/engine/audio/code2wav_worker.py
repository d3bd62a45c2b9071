"""Worker threads that run the audio decoder Code2Wav while frames are generated.

The most urgent task runs first. Only these threads change the state of Code2Wav streams, and each stream is changed by
one thread at a time. Before each frame, the engine may replace the waiting tasks, so an urgent chunk never waits for
less urgent tasks. On devices with parallel streams, urgent chunks have a separate thread and do not wait for a running
task.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from runtime.engine.execution.heartbeat import Heartbeat

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Code2WavTask:
    """Code2Wav call that waits for a worker thread.

    The thread calls `begin` while it holds the worker's lock. After `begin`, the task cannot be withdrawn.
    """

    urgency: tuple[bool, float]  # Sort key: (not urgent, deadline).
    begin: Callable[[], Callable[[], None]]  # Function that starts the task and returns the function that runs it.

    @property
    def is_urgent(self) -> bool:
        return not self.urgency[0]


TaskFilter = Callable[[Code2WavTask], bool]


def accept_every_task(task: Code2WavTask) -> bool:
    """Return True for every task, because a single worker thread runs all tasks."""
    return True


class Code2WavWorker:
    """One or two threads that run Code2Wav tasks, the most urgent task first.

    Before `start`, tasks run on the caller's thread (in `speak` and in tests).
    """

    def __init__(self, prepare: Callable[[], None] = lambda: None, wake: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.RLock()
        # Function that each thread calls first. For example, it sets torch's number of threads, which is a setting per
        # thread.
        self._prepare = prepare
        self._wake_engine = wake  # Function that is called after every task.
        # Waiting tasks by owner, with the most urgent task of each owner first.
        self._waiting: dict[object, list[Code2WavTask]] = {}
        self._has_tasks = threading.Condition(self.lock)
        self._closing = False
        self.threads: list[threading.Thread] = []
        self.heartbeats: list[Heartbeat] = []  # Heartbeats of the worker threads.

    def start(self, *, separate_urgent: bool = False) -> None:
        """Start the worker threads.

        Args:
            separate_urgent: True to run urgent chunks on a separate thread.
        """
        threads: dict[str, TaskFilter] = {"Code2Wav": accept_every_task}
        if separate_urgent:
            threads = {"urgent Code2Wav": lambda task: task.is_urgent, "Code2Wav": lambda task: not task.is_urgent}
        for name, takes in threads.items():
            heartbeat = Heartbeat()
            thread = threading.Thread(target=self._run, args=(takes, heartbeat), name=name, daemon=True)
            self.threads.append(thread)
            self.heartbeats.append(heartbeat)
            thread.start()

    def close(self) -> None:
        """Finish the running tasks, drop the waiting tasks, and end the threads."""
        with self.lock:
            self._closing = True
            self._waiting.clear()
            self._has_tasks.notify_all()
        for thread in self.threads:
            thread.join()

    def withdraw(self, owner: object) -> None:
        """Remove the waiting tasks of an owner."""
        with self.lock:
            self._waiting.pop(owner, None)

    def replace_tasks(self, owner: object, tasks: Callable[[], list[Code2WavTask]]) -> None:
        """Call `tasks`, and replace the waiting tasks of an owner with the result.

        The worker's lock is held during the call.
        """
        with self.lock:
            self._waiting.pop(owner, None)
            if new_tasks := tasks():
                self._waiting[owner] = new_tasks
                self._has_tasks.notify_all()
        if not self.threads:
            while (run := self.next_task()) is not None:
                run()
        elif new_tasks and new_tasks[0].is_urgent:
            time.sleep(0)  # Let another thread take the GIL and send this audio, because a listener waits for it.

    def next_task(self, takes: TaskFilter = accept_every_task) -> Callable[[], None] | None:
        with self.lock:
            mine = (
                (task, owner) for owner, tasks in self._waiting.items() if (task := next(filter(takes, tasks), None))
            )
            task, owner = min(mine, key=lambda entry: entry[0].urgency, default=(None, None))
            if task is None:
                return None
            self._waiting[owner].remove(task)
            if not self._waiting[owner]:
                del self._waiting[owner]
            return task.begin()

    def _await(self, takes: TaskFilter) -> Callable[[], None] | None:
        """Return the next task that this thread accepts.

        Returns:
            None after the worker was closed.
        """
        with self.lock:
            while not self._closing:
                if (run := self.next_task(takes)) is not None:
                    return run
                self._has_tasks.wait()
        return None

    def _run(self, takes: TaskFilter, heartbeat: Heartbeat) -> None:
        self._prepare()
        while (run := self._await(takes)) is not None:
            heartbeat.step()
            try:
                run()
            except Exception:  # The task reports its own failure, and the worker continues.
                log.exception("a Code2Wav task failed")
            heartbeat.mark_idle()
            self._wake_engine()
