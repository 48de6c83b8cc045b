"""Who serves which queue in an app, and how: its handlers, with what configuration says of their queues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from redrive.config import Settings
from redrive.core.errors import ConfigurationError
from redrive.core.limits import Rate
from redrive.core.retry import RetryPolicy
from redrive.core.settings import QueueSettings
from redrive.core.values import as_span
from redrive.engine.handlers import Handler, Registry, Served
from redrive.wiring import fit_policy


class Roster:
    """The handlers of one app. `settings` may be replaced until the app is opened."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._registry = Registry()
        self._policies: dict[str, RetryPolicy] = {}

    def configure(self, settings: Settings) -> None:
        """Go by other settings from now on."""
        self._settings = settings
        self._policies.clear()

    def add(self, queue: str, function: Callable[..., Any], retry: object, chosen: QueueSettings) -> None:
        """Serve a queue with a function; a queue that is served already is a ConfigurationError."""
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise ConfigurationError(
                f"retry is of type {type(retry).__name__}: give a policy, as in RetryPolicy(attempts=8)"
            )
        self._registry.add(queue, function, retry, chosen)
        self._policies.clear()

    def served(self, queues: Collection[str] = ()) -> Sequence[Served]:
        """The handlers, or those of `queues` with what runs on their dead letters."""
        for queue in queues:
            if self._registry.get(queue) is None:
                raise ConfigurationError(
                    f"this app has no handler for {queue!r}: register one, or name another"
                )
        from redrive.office.deaths import told_in

        wanted = {*queues, *map(told_in, queues)}
        return [self._serve(handler) for handler in self._registry if not queues or handler.queue in wanted]

    def policy(self, queue: str) -> RetryPolicy:
        """How a queue retries: profile, [retry], the handler's own, [queues.NAME]."""
        policy = self._policies.get(queue)
        if policy is None:
            handler = self._registry.get(queue)
            chosen = self._settings.policy(queue, None if handler is None else handler.retry)
            policy = fit_policy(self._settings, queue, chosen)
            self._policies[queue] = policy
        return policy

    def _serve(self, handler: Handler) -> Served:
        settings = self._settings.queue(handler.queue, handler.settings)
        rate = None if settings.rate is None else Rate.parse(settings.rate)
        return Served(handler, self.policy(handler.queue), settings, rate)


def choose(
    queue: object,
    concurrency: object,
    deadline: object,
    rate: str | None = None,
    fair: bool = True,
    *,
    decorator: str = "handler",
) -> QueueSettings:
    """What a decorator says of its queue, or ConfigurationError."""
    refuse_bare(queue, decorator, "a queue")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise ConfigurationError(f"concurrency is of type {type(concurrency).__name__}: give a whole number")
    try:
        deadline_s = as_span(deadline).total_seconds()
    except ValueError as error:
        raise ConfigurationError(f"deadline {error}") from None
    if rate is not None:
        Rate.parse(rate)
    return QueueSettings(concurrency=concurrency, deadline_s=deadline_s, rate=rate, fair=fair)


def refuse_bare(given: object, decorator: str, wanted: str, example: str | None = None) -> None:
    """A decorator without its parentheses hands in the function: say how it is written."""
    if callable(given):
        name = getattr(given, "__name__", "handle")
        raise ConfigurationError(
            f'@app.{decorator} names {wanted}: write @app.{decorator}("{example or name}") above {name}, '
            f"not @app.{decorator} alone"
        )
