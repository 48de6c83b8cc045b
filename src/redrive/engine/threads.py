"""Threads for `def` handlers: daemons, so that a handler that never ends cannot keep a process alive.

As many as run at once, kept for reuse. The worker bounds how many that is.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

_Job = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """Runs calls in threads; a call that has not begun can still be cancelled through its future."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def run(self, call: Callable[[], Any]) -> Future[Any]:
        """Start a call in the caller's context."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(
                    target=self._work, name=f"redrive-handler-{self._count}", daemon=True
                ).start()
        self._jobs.put((future, lambda: context.run(call)))
        return future

    def close(self) -> None:
        """Let the idle threads end; busy ones end after their call."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            _perform(future, call)
            del job, future, call
            with self._lock:
                self._idle += 1


def _perform(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the future
        future.set_exception(error)
    else:
        future.set_result(result)
