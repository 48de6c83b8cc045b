"""What the writer runs: work on a unit, calls that wait for their answer, and the transaction they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import apsw

from redrive.stores.sqlite.clock import Instant

T = TypeVar("T")


@dataclass(slots=True)
class Unit:
    """What a piece of work writes with. `due` collects the queues in which it made work due."""

    db: apsw.Connection
    at: Instant
    due: set[str] = field(default_factory=set)

    @property
    def now(self) -> int:
        return self.at.now


Work = Callable[[Unit], T]


@dataclass(slots=True)
class Job:
    """One call of the writer, and its answer once the transaction is over. `apart`: it undoes only itself."""

    work: Work[Any]
    future: asyncio.Future[Any]
    drains: bool
    repeated: bool = False
    apart: bool = False
    result: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


@dataclass(slots=True)
class WriteTransaction:
    """The calls of one transaction, the queues in which they made work due, and what went wrong."""

    group: list[Job] = field(default_factory=list)
    due: set[str] = field(default_factory=set)
    error: BaseException | None = None
