"""A task that several attempts share, one after the other, until one of them waits.

An attempt that waits for nothing needs no task of its own, which would cost more than the attempt. The first
that waits keeps the task: it goes on in the one it began in, so that what it asked of it (a timeout, a task
group, a cancellation) holds. Whatever a handler does to its task ends with it: a task that was cancelled,
named or given a callback begins no other attempt.
Known weakness: attempts that wait for nothing and follow one another see the same `asyncio.current_task()`.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Self


class SharedTask(asyncio.Task[None]):
    """Begins attempts in turn; before the first there is nothing in it that could be cancelled."""

    begun = False
    touched = False

    def __init__(self, work: Coroutine[Any, Any, None], context: Context) -> None:
        super().__init__(work, loop=asyncio.get_running_loop(), context=context)

    def cancel(self, msg: Any | None = None) -> bool:
        """As for any task."""
        self.touched = True
        return self.begun and super().cancel(msg)

    def add_done_callback(self, fn: Callable[[Self], object], /, *, context: Context | None = None) -> None:
        """As for any task."""
        self.touched = True
        super().add_done_callback(fn, context=context)

    def set_name(self, value: object, /) -> None:
        """As for any task."""
        self.touched = True
        super().set_name(value)


@types.coroutine
def rest(attempt: Coroutine[Any, Any, None], waits_for: Any, context: Context) -> Generator[Any, Any, None]:
    """The steps of an attempt after its first, each in its context; its task sees what it waits for."""
    while True:
        step: Callable[[Any], Any]
        try:
            given = yield waits_for
            step = attempt.send
        except GeneratorExit:
            context.run(attempt.close)
            raise
        except BaseException as error:  # noqa: BLE001 - handed on to the attempt
            step, given = attempt.throw, error
        try:
            waits_for = context.run(step, given)
        except StopIteration:
            return
        finally:
            given = None
