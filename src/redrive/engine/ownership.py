"""Whose cancellation it is: a handler that cancels every task it finds must not end the worker it runs in.

Handlers, and whatever they start, run in a context that says so. What belongs to the worker ignores a
cancellation that comes out of such a context; whoever runs the app, and the worker itself, are obeyed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

_handling: contextvars.ContextVar[bool] = contextvars.ContextVar("redrive_handling", default=False)


def handler_context() -> contextvars.Context:
    """The context that a handler's attempts copy."""
    context = contextvars.copy_context()
    context.run(_handling.set, True)
    return context


class OwnTask(asyncio.Task[None]):
    """A task of ours: only its owner ends it early, by `end`."""

    def cancel(self, msg: Any | None = None) -> bool:
        """As for any task, unless a handler asks."""
        return False if _handling.get() else super().cancel(msg)

    def end(self) -> None:
        """Cancel it, whoever asks."""
        super().cancel()


def start_own(work: Coroutine[Any, Any, None], name: str) -> OwnTask:
    """Start a task of ours in a context that is no handler's, so that its own timeouts may cancel it."""
    context = contextvars.copy_context()
    context.run(_handling.set, False)
    return OwnTask(work, loop=asyncio.get_running_loop(), name=name, context=context)


class Until(asyncio.Future[None]):
    """What the task that runs a worker waits for; a handler of that worker cannot cancel the wait.

    Cancelling a task cancels what it waits for, and ends there when that says it was done.
    """

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._waiting = asyncio.current_task()
        self._obeys_all = _handling.get()

    def cancel(self, msg: Any | None = None) -> bool:
        """As for any future, unless a handler asks."""
        if not _handling.get() or self._obeys_all or self.done():
            return super().cancel(msg)
        if self._waiting is not None:
            self._waiting.uncancel()
        return True
