"""A store for a process that sleeps right before one of its calls, while something else happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redrive.core.store import Store


class SlowStore:
    """Hands every call on to a store; before the first one of a name, `meanwhile` happens."""

    def __init__(self, store: Store, call: str, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._call = call
        self._meanwhile: Callable[[], Awaitable[object]] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._slept(found) if name == self._call else found

    def _slept(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def slept(*arguments: Any, **named: Any) -> Any:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                await meanwhile()
            return await call(*arguments, **named)

        return slept
