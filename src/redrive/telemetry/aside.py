"""Runs what may take long beside the work, in order, in one thread of the process.

Whoever hands something over never waits for it, and neither does the end of the process: the thread is a
daemon. What is held is bounded: above that, nothing more is taken until something is done. `flush` waits a
little for what was handed over.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from redrive.machine.forks import watch

HELD = 2_048
_FLUSH_S = 2.0

Step = Callable[[], object]


class Aside:
    """The thread, which starts with the first step, and the steps that wait for it."""

    def __init__(self) -> None:
        self.forked()
        watch(self)
        atexit.register(self.flush)

    def forked(self) -> None:
        """In a child: what was handed over is the parent's to do, and its thread did not come along."""
        self._steps: SimpleQueue[Step] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = False

    def run(self, step: Step) -> bool:
        """Do this soon; False when too much waits already, and it is not done."""
        if self._steps.qsize() >= HELD:
            return False
        self._steps.put(step)
        if not self._started:
            self._start()
        return True

    def flush(self) -> None:
        """Wait for what was handed over, for some seconds at most."""
        done = threading.Event()
        if self._started:
            self._steps.put(done.set)
            done.wait(_FLUSH_S)

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                threading.Thread(target=_work, args=(self._steps,), name="redrive-aside", daemon=True).start()
                self._started = True


def _work(steps: SimpleQueue[Step]) -> None:
    while True:
        step = steps.get()
        with suppress(BaseException):
            step()


_aside = Aside()
run, flush = _aside.run, _aside.flush
