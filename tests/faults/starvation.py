"""How long the machine let processes wait for a processor: a limit in seconds is for the time beside that.

Linux counts for each thread how long it was ready to run and did not. That is asked for again and again while
a test runs, so that the waiting within any part of it is known afterwards; on another system nothing is
counted, and a limit is as it stands.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_PAUSE_S = 0.02


class Waited(NamedTuple):
    """How long all threads together had waited, asked between two instants of the monotonic clock."""

    from_s: float
    until_s: float
    waited_s: float


class Starvation:
    """Counts for this process and for the others whose ids `pids` says."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._threads: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._samples: list[Waited] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def within(self, began_s: float, ended_s: float) -> float:
        """How long they waited between two instants, from the last look before to the first one after."""
        self._look()
        before = bisect_right(self._samples, began_s, key=lambda one: one.until_s) - 1
        after = bisect_left(self._samples, ended_s, key=lambda one: one.from_s)
        return self._samples[after].waited_s - self._samples[max(0, before)].waited_s

    def beside(self, began_s: float, ended_s: float) -> float:
        """How much of the time between two instants was none of the machine's fault."""
        return max(0.0, ended_s - began_s - self.within(began_s, ended_s))

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE_S):
            self._look()

    def _look(self) -> None:
        """A thread that has ended keeps what it had waited."""
        with self._lock:
            from_s = time.monotonic()
            for pid in (os.getpid(), *self._pids()):
                with suppress(OSError):
                    for thread in list(Path(f"/proc/{pid}/task").iterdir()):
                        self._threads[thread] = _waited_ns(thread, self._threads.get(thread, 0))
            waited_s = sum(self._threads.values()) / 1e9
            self._samples.append(Waited(from_s, time.monotonic(), waited_s))


def _waited_ns(thread: Path, known: int) -> int:
    try:
        return int((thread / "schedstat").read_text().split()[1])
    except OSError:
        return known
