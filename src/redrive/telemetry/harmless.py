"""A guard around code of others: what it raises is logged, each complaint once, and goes no further."""

from __future__ import annotations

import logging
from contextlib import suppress
from types import TracebackType

_log = logging.getLogger("redrive")


class Harmless:
    """`with harmless:` around tracing; one guard may be entered many times, from any thread."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.tell("tracing failed; the work goes on", error)
        return True

    def tell(self, text: str, error: Exception | None = None) -> None:
        """Log a complaint, if it is the first of its kind."""
        if text not in self._told:
            self._told.add(text)
            with suppress(Exception):
                _log.error(text, exc_info=error)
