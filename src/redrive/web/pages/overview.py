"""The first page: is anything wrong, where, and since when. For who is bound to a tenant, its part.

The overview is read once for all who look at it within a moment. Known weakness: whoever comes first after a
quiet minute waits until the causes are counted.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, assert_never
from urllib.parse import quote

from starlette.responses import Response

from redrive.app import Redrive
from redrive.office.access import Permission
from redrive.office.audit import Actor
from redrive.office.concerns import Concern, ConcernKind, concerns, tenant_concerns
from redrive.office.documents.control import queue_list
from redrive.office.documents.overview import OverviewDocument
from redrive.office.groups import GroupBy
from redrive.office.overview import Overview
from redrive.web.admin.route import READ
from redrive.web.pages.live import pause_s
from redrive.web.pages.plots import Bars
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import PageRoute, Visit

FLOWS: Final = ("done", "retried", "dead")
_FRESH_S: Final = 1.0
_STALE_S: Final = 60.0
_PATIENCE_S: Final = 0.05
_GROUPS: Final = 5
_TENANTS: Final = 8
_EVERY_MINUTES: Final = 10


class SharedOverview:
    """The overview of one store, for everyone who may see all tenants and reveals, or does not."""

    def __init__(self, app: Redrive) -> None:
        actor = Actor("dashboard", "dashboard")
        self._verbs: dict[bool, Overview] = {
            reveals: app.office.acting(actor, None, reveals=reveals).overview for reveals in (True, False)
        }
        self._seen: dict[bool, tuple[float, OverviewDocument]] = {}
        self._reading: dict[bool, asyncio.Task[OverviewDocument]] = {}

    async def show(self, visit: Visit) -> OverviewDocument:
        """How all stands, a second ago; where reading it takes long, as it stood in the last minute."""
        visit.acting.view.demand_all()
        reveals = visit.may(Permission.REVEAL)
        read_s, seen = self._seen.get(reveals, (0.0, None))
        old_s = time.monotonic() - read_s
        if seen is not None and old_s < _FRESH_S:
            return seen
        reading = self._reading.get(reveals)
        if reading is None or reading.done():
            reading = self._reading[reveals] = asyncio.create_task(self._read(reveals))
        patience_s = _PATIENCE_S if seen is not None and old_s < _STALE_S else None
        done, _ = await asyncio.wait({reading}, timeout=patience_s)
        return reading.result() if done or seen is None else seen

    async def _read(self, reveals: bool) -> OverviewDocument:
        seen = (await self._verbs[reveals].show()).document
        self._seen[reveals] = (time.monotonic(), seen)
        return seen


class OverviewPages:
    """The routes."""

    def __init__(self, renderer: Renderer, shared: SharedOverview) -> None:
        self._renderer = renderer
        self._shared = shared

    def routes(self) -> list[PageRoute]:
        return [PageRoute(path="/", answer=self.show, allowed=READ)]

    async def show(self, visit: Visit) -> Response:
        if not visit.unbound:
            return await self._of_tenant(visit)
        seen = await self._shared.show(visit)
        minutes = seen.minutes
        bars = Bars([[getattr(one, flow) for flow in FLOWS] for one in minutes], FLOWS)
        labels = [
            (number, one.at[11:16])
            for number, one in enumerate(minutes)
            if int(one.at[14:16]) % _EVERY_MINUTES == 0 and number < len(minutes) - 3
        ]
        waiting = [one.oldest_due_at for one in seen.queues if one.pending and one.oldest_due_at]
        return self._renderer.page(
            visit,
            "overview.html",
            seen=seen,
            concerns=[(one, _page_of(one)) for one in concerns(seen)],
            bars=bars,
            labels=labels,
            flows=FLOWS,
            dead=sum(one.dlq for one in seen.queues),
            waiting=sum(one.pending for one in seen.queues),
            scheduled=sum(one.scheduled + one.retry_scheduled for one in seen.queues),
            processing=sum(one.processing for one in seen.queues),
            oldest=min(waiting) if waiting else None,
            hour={flow: sum(getattr(one, flow) for one in minutes) for flow in FLOWS},
            tenants=seen.tenants[:_TENANTS],
            pause_s=pause_s(len(seen.queues)),
        )

    async def _of_tenant(self, visit: Visit) -> Response:
        acting = visit.acting
        queues = queue_list(await acting.queues.parts()).queues
        groups = (await acting.groups.find(GroupBy.FINGERPRINT, limit=_GROUPS)).document.groups
        operations = (await acting.operations.list(limit=_GROUPS, running=True)).document.operations
        alerts = await acting.alerts.firing()
        return self._renderer.page(
            visit,
            "overview_tenant.html",
            concerns=[(one, _page_of(one)) for one in tenant_concerns(queues, operations, alerts)],
            groups=groups,
            operations=operations,
            dead=sum(one.dlq for one in queues),
            waiting=sum(one.waiting for one in queues),
            processing=sum(one.processing for one in queues),
            published=sum(one.published for one in queues),
        )


def _page_of(concern: Concern) -> str | None:
    """Where to look into it."""
    one = f"/{quote(concern.name, safe='')}" if concern.count == 1 else ""
    match concern.kind:
        case ConcernKind.HALTED | ConcernKind.UNATTENDED:
            return f"/operations{one}"
        case ConcernKind.NO_HANDLER | ConcernKind.PAUSED:
            return f"/queues{one}"
        case ConcernKind.SUSPECTS:
            return "/queues"
        case ConcernKind.CRITICAL_ALERTS | ConcernKind.ALERTS:
            return "/alerts"
        case ConcernKind.DEAD_LETTERS:
            return "/letters"
        case ConcernKind.STORE_FULL:
            return None
    assert_never(concern.kind)
