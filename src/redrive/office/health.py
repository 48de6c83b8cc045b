"""Whether the outbox is healthy: its counts now, what fires, how durable it is, and what runs.

The two limits are those of the alerts of the same name, compared now: whoever asks need not wait until a
process that watches has looked.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.core.alert_rules import DEFAULT_RULES
from redrive.core.alerts import AlertSeverity
from redrive.core.store import QueueCounts
from redrive.core.verdict import Reason
from redrive.office.alerts import Alerts
from redrive.office.documents.health import OutboxAlerts, OutboxHealth, OutboxMetrics, Versions
from redrive.office.index import TimeLimit
from redrive.office.view import View
from redrive.version import __version__

if TYPE_CHECKING:
    from redrive.office.office import Office

_COUNTING_S = 5.0


class OutboxCheck:
    """The verb, for one actor."""

    def __init__(self, office: Office, view: View, alerts: Alerts) -> None:
        self._store = office.store
        self._index = office.index
        self._rules = {rule.name: rule for rule in office.alerting.settings.rules}
        self._view = view
        self._alerts = alerts

    async def health(self) -> OutboxHealth:
        """How it does now; not for who is bound to a tenant."""
        self._view.demand_all()
        described = await self._store.describe()
        queues = await self._store.queues()
        metrics = _metrics(queues, await self._bounced(queues))
        alerts = OutboxAlerts(
            dlq_high=metrics.dlq - metrics.bounced > self._limit("dlq_high"),
            retry_backlog=metrics.retry_scheduled > self._limit("retry_backlog"),
            firing=await self._alerts.firing(),
        )
        critical = any(one.severity == AlertSeverity.CRITICAL for one in alerts.firing)
        return OutboxHealth(
            status="unhealthy" if alerts.dlq_high or critical else "healthy",
            metrics=metrics,
            alerts=alerts,
            durability=described.durability,
            versions=Versions(redrive=__version__, python=platform.python_version(), store=described.engine),
        )

    def _limit(self, name: str) -> float:
        """What a rule allows, as it is set; as it comes where the rule is about something else now."""
        known = DEFAULT_RULES[name]
        own = self._rules.get(name, known)
        return own.above if (own.metric, own.scope) == (known.metric, known.scope) else known.above

    async def _bounced(self, queues: Sequence[QueueCounts]) -> int:
        """Where there are too many to count in time, none: rather an alert too many than one too few."""
        if not any(one.dlq for one in queues):
            return 0
        try:
            return await self._index.count_reason(Reason.BOUNCED, _COUNTING_S)
        except TimeLimit:
            return 0


def _metrics(queues: Sequence[QueueCounts], bounced: int) -> OutboxMetrics:
    return OutboxMetrics(
        pending=sum(one.pending for one in queues),
        processing=sum(one.processing for one in queues),
        published=sum(one.published for one in queues),
        failed=0,
        dlq=sum(one.dlq for one in queues),
        bounced=bounced,
        retry_scheduled=sum(one.retry_scheduled for one in queues),
        scheduled=sum(one.scheduled for one in queues),
    )
