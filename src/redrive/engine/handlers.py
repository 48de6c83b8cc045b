"""The handlers an app has: which function serves which queue, and how.

Handlers come from this registry only; nothing is imported by a name from a message.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redrive.core.errors import ConfigurationError
from redrive.core.limits import Rate
from redrive.core.message import check_queue
from redrive.core.retry import RetryPolicy
from redrive.core.settings import QueueSettings
from redrive.engine.payload import Decode, decoder


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that serves a queue, as it was registered."""

    queue: str
    function: Callable[..., Any]
    decode: Decode
    takes_delivery: bool
    is_async: bool
    retry: RetryPolicy | None = None
    settings: QueueSettings | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """A handler with everything that configuration says about its queue."""

    handler: Handler
    policy: RetryPolicy
    settings: QueueSettings
    rate: Rate | None

    @property
    def queue(self) -> str:
        return self.handler.queue


class Registry:
    """One handler a queue."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(
        self,
        queue: str,
        function: Callable[..., Any],
        retry: RetryPolicy | None = None,
        settings: QueueSettings | None = None,
    ) -> Handler:
        """Register a function; a queue that already has a handler is a ConfigurationError."""
        check_queue(queue)
        if queue in self._handlers:
            raise ConfigurationError(f"queue {queue!r} already has a handler: one function serves a queue")
        if _is(function, inspect.isgeneratorfunction) or _is(function, inspect.isasyncgenfunction):
            raise ConfigurationError(
                f"the handler of {queue!r} has a `yield`: calling it would run none of it; write it without"
            )
        annotation, takes_delivery = _signature(queue, function)
        handler = Handler(
            queue,
            function,
            decoder(annotation),
            takes_delivery,
            awaits(function),
            retry,
            settings,
        )
        self._handlers[queue] = handler
        return handler

    def __iter__(self) -> typing.Iterator[Handler]:
        return iter(self._handlers.values())

    def get(self, queue: str) -> Handler | None:
        """The handler of a queue, if it has one."""
        return self._handlers.get(queue)


def awaits(function: Callable[..., Any]) -> bool:
    """Whether what a call of it makes has to be awaited."""
    return _is(function, inspect.iscoroutinefunction)


def _signature(queue: str, function: Callable[..., Any]) -> tuple[object, bool]:
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) not in (1, 2):
        raise ConfigurationError(
            f"the handler of {queue!r} takes {len(positional)} parameters: "
            "give it the payload, and the delivery too if it wants it"
        )
    return _payload_type(function, positional[0].name), len(positional) == 2


def _payload_type(function: Callable[..., Any], name: str) -> object:
    called = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(called, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"the type of parameter {name!r} cannot be resolved ({error}): define it at module level"
        ) from error
    return hints.get(name)


def _is(function: Callable[..., Any], kind: Callable[[Any], bool]) -> bool:
    """Whether calling it, a partial of it, or its `__call__` makes something of this kind."""
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004 - asks about its kind
