"""A store whose process dies right after its n-th call: the store has done it, the answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redrive.core.store import Store


class Died(BaseException):
    """The process is gone: nothing of ours may catch this and go on."""


class DyingStore:
    """Hands every call on to a store until its last one."""

    def __init__(self, store: Store, calls: int) -> None:
        self._store = store
        self._left = calls

    @property
    def dead(self) -> bool:
        return self._left <= 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("now", "index", "skew_ms"):
            return found
        return self._counted(found)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Died
            answer = await call(*arguments, **named)
            if self._left == 0:
                raise Died
            return answer

        return counted
