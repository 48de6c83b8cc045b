"""How often the same thing is logged: in full the first times, then once a minute with a count.

A window of a minute begins with the first of a kind. What exceeds its limit is only counted, and the count is
reported when the window ends, even if nothing happens any more: a timer thread waits for that, and only while
there is something to report. After such a window the kind stays counted until a window is within the limit.
What is held is bounded: above a number of kinds, all new ones count as one. Called from any thread.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from redrive.machine.forks import watch

WINDOW_S = 60.0
KINDS = 1_000
_OTHER = "other"

Sample = TypeVar("Sample")


@dataclass(frozen=True, slots=True)
class Repeated(Generic[Sample]):
    """What happened `count` times in `lasted_s`, of which `untold` times were not logged."""

    sample: Sample
    count: int
    untold: int
    lasted_s: float


@dataclass(slots=True)
class _Window(Generic[Sample]):
    began_s: float
    ends_s: float
    limit: int
    told: int
    count: int = 0
    sample: Sample | None = None


class Repeats(Generic[Sample]):
    """Says what is logged in full; `report` is called with each count, possibly from another thread."""

    def __init__(
        self,
        report: Callable[[Repeated[Sample]], None],
        *,
        window_s: float = WINDOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._window_s = window_s
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[Hashable, _Window[Sample]] = {}
        self._timer: threading.Timer | None = None
        watch(self)

    def admit(self, kind: Hashable, limit: int, sample: Callable[[], Sample]) -> bool:
        """Whether to log this one in full; if not it counts, and `sample` may be asked for what it is."""
        with self._lock:
            window, ended = self._windows.get(kind), None
            if window is None or self._clock() >= window.ends_s:
                window, ended = self._window(kind, limit)
            window.count += 1
            admitted = window.count <= window.told
            if not admitted and window.sample is None:
                window.sample = sample()
                self._wait()
        if ended is not None:
            self._report(ended)
        return admitted

    def flush(self) -> None:
        """Report every count now, not at the end of its window."""
        self._report_all(lambda _: True)
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            atexit.unregister(self.flush)

    def forked(self) -> None:
        """In a child: what the parent counted is the parent's to report."""
        self._lock, self._windows, self._timer = threading.Lock(), {}, None

    def _window(self, kind: Hashable, limit: int) -> tuple[_Window[Sample], Repeated[Sample] | None]:
        """A new window of a kind, and the count of the one that it follows, if nobody reported that."""
        now_s, window = self._clock(), self._windows.get(kind)
        if window is None:
            if len(self._windows) >= KINDS:
                self._drop_ended(now_s)
            if len(self._windows) >= KINDS:
                kind = _OTHER
            return self._windows.setdefault(kind, _Window(now_s, now_s + self._window_s, limit, limit)), None
        return window, self._end(window, now_s)

    def _end(self, window: _Window[Sample], now_s: float) -> Repeated[Sample] | None:
        """Begin a window again; what was counted in it, where something was not logged."""
        ended, sample = None, window.sample
        if sample is not None:
            ended = Repeated(sample, window.count, window.count - window.told, now_s - window.began_s)
        window.told = 0 if window.count > window.limit else window.limit
        window.began_s, window.ends_s = now_s, now_s + self._window_s
        window.count, window.sample = 0, None
        return ended

    def _drop_ended(self, now_s: float) -> None:
        self._windows = {
            kind: window
            for kind, window in self._windows.items()
            if window.sample is not None or now_s < window.ends_s
        }

    def _report_all(self, is_due: Callable[[_Window[Sample]], bool]) -> None:
        with self._lock:
            now_s = self._clock()
            due = [one for one in self._windows.values() if one.sample is not None and is_due(one)]
            ended = [self._end(window, now_s) for window in due]
        for one in ended:
            if one is not None:
                self._report(one)

    def _wait(self) -> None:
        """Have a timer report what is counted; the caller holds the lock."""
        counted = [one.ends_s for one in self._windows.values() if one.sample is not None]
        if self._timer is not None or not counted:
            return
        pause_s = max(0.0, min(counted) - self._clock())
        self._timer = threading.Timer(pause_s, self._ring)
        self._timer.daemon = True
        self._timer.name = "redrive-repeats"
        self._timer.start()
        atexit.register(self.flush)

    def _ring(self) -> None:
        atexit.unregister(self.flush)
        now_s = self._clock()
        self._report_all(lambda window: now_s >= window.ends_s)
        with self._lock:
            if self._timer is threading.current_thread():
                self._timer = None
                self._wait()
