"""A call that fails until a test says otherwise, before or after it did what was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redrive.core.errors import StoreUnavailable


class Outage:
    """A method of an object that raises from now on; `calls` counts how often it did.

    `done`: the call is done all the same, and only its answer is lost. `when` chooses the calls that fail.
    """

    def __init__(
        self,
        owner: object,
        name: str,
        *,
        done: bool = False,
        when: Callable[..., bool] = lambda *_, **__: True,
        error: Exception | None = None,
    ) -> None:
        self._owner, self._name, self._done, self._when = owner, name, done, when
        self._error = error or StoreUnavailable("an outage, for the test")
        self._real = getattr(owner, name)
        self.calls = 0
        setattr(owner, name, self._fail)

    def end(self) -> None:
        """From now on all is well."""
        setattr(self._owner, self._name, self._real)

    async def _fail(self, *given: Any, **named: Any) -> Any:
        if not self._when(*given, **named):
            return await self._real(*given, **named)
        if self._done:
            await self._real(*given, **named)
        self.calls += 1
        raise self._error
