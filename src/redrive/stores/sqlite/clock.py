"""The clock of a file: the machine's, but not what happens when somebody sets it.

It follows the wall clock and never goes back: set back by more than a moment, it runs on with the machine's
uptime until the wall has caught up, so that what is due stays due. The file keeps where it stood, for
processes that come later. A lease is measured by uptime, which nobody can set, as long as the machine has not
been started anew. Known weakness: where a boot has no name (other than on Linux), leases go by the wall
clock, and setting that forward ends them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec

from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "clock")

_MOMENT_MS = 1_000
_KEPT_MS = 10_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Instant(msgspec.Struct, frozen=True, gc=False):
    """The store's time, and how long the machine has been up; `boot` names the boot, None for unknown."""

    now: int
    boot: str | None
    up_ms: int

    def later(self, by_ms: int) -> Instant:
        return Instant(self.now + by_ms, self.boot, self.up_ms + by_ms)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine says of time."""

    wall_ms: Callable[[], int]
    up_ms: Callable[[], int]
    boot: str | None


def this_machine() -> Machine:
    """This one. Uptime counts the time asleep, where that can be asked for."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return Machine(_wall_ms, lambda: time.monotonic_ns() // 1_000_000, None)
    return Machine(_wall_ms, lambda: time.clock_gettime_ns(clock) // 1_000_000, _boot())


class UptimeClock:
    """The clock of one open file."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or this_machine()
        self._now, self._up_ms = self.machine.wall_ms(), self.machine.up_ms()
        self._kept_ms: int | None = None

    def now(self) -> int:
        """The store's time; asked for each message, so nothing else is made."""
        now, up_ms = self.machine.wall_ms(), self.machine.up_ms()
        reckoned = self._now + up_ms - self._up_ms
        if now < reckoned - _MOMENT_MS:
            now = reckoned
        self._now, self._up_ms = now, up_ms
        return now

    def read(self) -> Instant:
        """Which instant it is."""
        return Instant(self.now(), self.machine.boot, self._up_ms)

    def resume(self, db: apsw.Connection) -> None:
        """Go on from where the file's clock stood."""
        row = db.execute(SQL["read"]).fetchone()
        if row is None:
            return
        now, boot, up_ms = row
        if boot is not None and boot == self.machine.boot:
            self._now, self._up_ms = now, up_ms
        else:
            self._now, self._up_ms = max(self.machine.wall_ms(), now), self.machine.up_ms()

    def keep(self, db: apsw.Connection) -> None:
        """Write where it stands, now and then."""
        at = self.read()
        if self._kept_ms is None or at.up_ms - self._kept_ms >= _KEPT_MS:
            db.execute(SQL["keep"], (at.now, at.boot, at.up_ms))
            self._kept_ms = at.up_ms


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _boot() -> str | None:
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None
