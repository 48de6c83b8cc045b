"""Reports what handlers raise to Sentry: each failure group once an hour and process, not once an attempt.

It has a client of its own, beside one that the program may have set up: without local variables, breadcrumbs,
request data or anything else that could hold a payload, and with the texts of exceptions masked. The client
sends from a thread of its own and drops what it cannot send. The package is imported when a worker starts.
Known weakness: above a thousand groups an hour, new ones are not reported.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redrive.core.redaction import redact
from redrive.machine.forks import watch
from redrive.telemetry.events import Event, HandlerRaised, WorkerStarted
from redrive.version import __version__

if TYPE_CHECKING:
    from sentry_sdk import Client
    from sentry_sdk._types import Event as SentryEvent
    from sentry_sdk._types import Hint

_EVERY_S = 3_600.0
_GROUPS = 1_000
_FLUSH_S = 2.0


@dataclass(slots=True)
class _Group:
    reported_s: float
    unreported: int = 0


class SentrySink:
    """The sink, for one project of Sentry."""

    def __init__(self, dsn: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._dsn = dsn
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        self._client: Client | None = None
        watch(self)

    def __call__(self, event: Event) -> None:
        if isinstance(event, HandlerRaised):
            unreported = self._due(event.failure.fingerprint)
            if unreported is not None:
                self._report(event, unreported)
        elif isinstance(event, WorkerStarted):
            self._opened()

    def flush(self) -> None:
        """Send what waits, for some seconds at most."""
        if self._client is not None:
            self._client.flush(timeout=_FLUSH_S)

    def forked(self) -> None:
        """In a child: what the parent reported counts; its thread and its lock did not come along."""
        self._lock, self._client = threading.Lock(), None

    def _due(self, fingerprint: str) -> int | None:
        """How often the group failed since it was last reported; None when it is not to be reported now."""
        now_s = self._clock()
        with self._lock:
            group = self._groups.get(fingerprint)
            if group is not None and now_s < group.reported_s + _EVERY_S:
                group.unreported += 1
                return None
            if group is None and len(self._groups) >= _GROUPS:
                self._forget(now_s)
                if len(self._groups) >= _GROUPS:
                    return None
            self._groups[fingerprint] = _Group(now_s)
            return 0 if group is None else group.unreported

    def _forget(self, now_s: float) -> None:
        self._groups = {
            name: group for name, group in self._groups.items() if now_s < group.reported_s + _EVERY_S
        }

    def _opened(self) -> Client:
        if self._client is None:
            from sentry_sdk import Client

            self._client = Client(
                dsn=self._dsn,
                release=f"redrive@{__version__}",
                default_integrations=False,
                auto_enabling_integrations=False,
                include_local_variables=False,
                max_breadcrumbs=0,
                enable_backpressure_handling=False,
                before_send=_mask,
            )
            atexit.register(self.flush)
        return self._client

    def _report(self, raised: HandlerRaised, unreported: int) -> None:
        from sentry_sdk import Scope
        from sentry_sdk.utils import event_from_exception

        client, message = self._opened(), raised.delivery.message
        event, hint = event_from_exception(
            raised.error, client_options=client.options, mechanism={"type": "redrive", "handled": True}
        )
        event["fingerprint"] = [raised.failure.fingerprint]
        event["transaction"] = message.queue
        event["tags"] = {
            "queue": message.queue,
            "tenant": message.tenant,
            "attempt": str(raised.delivery.progress.attempts),
            "message_id": message.id,
        }
        event["extra"] = {"failures since the last report": unreported}
        client.capture_event(event, hint, Scope())


def _mask(event: SentryEvent, _: Hint) -> SentryEvent:
    """The texts of exceptions may hold secrets; nothing else here is from a message."""
    values: Any = event.get("exception", {}).get("values", [])
    for value in values:
        if isinstance(value.get("value"), str):
            value["value"] = redact(value["value"])
    return event
