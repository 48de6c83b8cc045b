"""One act as each face does it, and the store that it is done to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redrive.office.office import ActingOffice

FINGERPRINT = "f" * 16


@dataclass(frozen=True)
class Filled:
    """A store with letters of two tenants, a waiting message, and an operation that nobody carries on."""

    file: Path
    key: str
    letters: tuple[str, ...]
    waiting: str
    operation: str

    def fit(self, text: str) -> str:
        return text.format(id=self.letters[0], other=self.letters[1], waiting=self.waiting, op=self.operation)


@dataclass(frozen=True)
class Act:
    """What is done by each face, and what of the command line's answer the others give too.

    `http` is a method, an address and a body. Without one, the act is not for callers from outside.
    """

    name: str
    cli: tuple[str, ...]
    python: Callable[[ActingOffice, Filled], Awaitable[Any]]
    http: tuple[str, str, Any] | None = None
    of_cli: Callable[[Any], Any] = lambda answer: answer
    of_http: Callable[[Any], Any] = lambda answer: answer
