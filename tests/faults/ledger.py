"""The two ledgers: what submitters asked for and were told, what workers handed over and settled.

A line is one `os.write` to a file opened O_APPEND, so lines of several processes never mix and a process
killed at any instant leaves whole lines behind. The kernel keeps them when a process dies; a ledger does
not outlive the machine.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

HANDED = "handed.jsonl"
ACCEPTED = "accepted.jsonl"


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload: what the handler does with the message.

    `fails` attempts of each generation fail temporarily; generations below `permanent` fail permanently.
    `gate` is a file that the handler waits for, but for the first `gate_after` attempts. `act` is one of the
    bad things in handlers.py. `padding` only makes the message larger.
    """

    fails: int = 0
    permanent: int = 0
    work_s: float = 0.0
    gate: str | None = None
    gate_after: int = 0
    act: str | None = None
    padding: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. `at_s` is the monotonic clock, which all processes of a machine share."""

    what: str
    id: str = ""
    attempt: int = 0
    generation: int = 0
    note: str = ""
    took_s: float = 0.0
    plan: Plan | None = None
    dedupe: str | None = None
    pid: int = 0
    at_s: float = 0.0


class Ledger:
    """A file to add lines to."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, line: Line) -> None:
        """Add a line; it is there when this returns, whatever happens to the process."""
        stamped = msgspec.structs.replace(line, pid=os.getpid(), at_s=time.monotonic())
        os.write(self._file, msgspec.json.encode(stamped) + b"\n")

    def close(self) -> None:
        os.close(self._file)


class Reader:
    """Reads a ledger that grows: each line once, whole lines only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines: list[Line] = []

    def lines(self) -> list[Line]:
        """All lines so far; none when nobody has written yet."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._lines += [msgspec.json.decode(row, type=Line) for row in whole.splitlines()]
            self._offset += len(whole)
        return self._lines


def read_lines(path: Path) -> list[Line]:
    """All lines so far."""
    return Reader(path).lines()
