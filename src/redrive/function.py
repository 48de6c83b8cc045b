"""What `@app.handler` gives back: the function as it was, which also submits to its own queue.

Called, it is the function, so that a test may call it. Its `submit` takes what the function takes, so that a
type checker finds a wrong payload before a worker does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypedDict, TypeVar, Unpack

from redrive.core.ports import Receipt
from redrive.engine.entries import Submission

if TYPE_CHECKING:
    from redrive.app import Redrive

Payload = TypeVar("Payload")
More = ParamSpec("More")
Answer = TypeVar("Answer")


class SubmitOptions(TypedDict, total=False):
    """What `Redrive.submit` takes besides queue and payload."""

    tenant: str
    dedupe: str | None
    delay: timedelta | float | None
    at: datetime | None
    ttl: timedelta | float | None
    track: str
    headers: Mapping[str, str] | None
    message_id: str | None


class QueueFunction(Generic[Payload, More, Answer]):
    """A handler's function, with `submit` and `submit_many` for its queue."""

    def __init__(
        self, app: Redrive, queue: str, function: Callable[Concatenate[Payload, More], Answer]
    ) -> None:
        functools.update_wrapper(self, function)
        self._app = app
        self.queue = queue
        self.function = function

    def __call__(self, payload: Payload, /, *more: More.args, **named: More.kwargs) -> Answer:
        return self.function(payload, *more, **named)

    def __repr__(self) -> str:
        return f"<handler of {self.queue!r}: {self.function!r}>"

    async def submit(self, payload: Payload, **options: Unpack[SubmitOptions]) -> Receipt:
        """As `Redrive.submit`, to this handler's queue."""
        return await self._app.submit(self.queue, payload, **options)

    async def submit_many(self, submissions: Iterable[Submission[Payload]]) -> list[Receipt]:
        """As `Redrive.submit_many`, to this handler's queue."""
        return await self._app.submit_many(self.queue, submissions)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that serves a queue, also when it serves another one already."""
    return function.function if isinstance(function, QueueFunction) else function
