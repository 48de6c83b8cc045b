"""Tenants: what each gets against its weight, how long it waits, its place in line; its switches."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from redrive.core.lanes import Lane, LaneChange
from redrive.core.limits import Rate
from redrive.office.documents.control import tenant_lanes
from redrive.web.admin.messages import Name
from redrive.web.admin.route import OPERATE, READ, Cursor, Parameters
from redrive.web.pages.door import redirect
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import Form, PageRoute, Visit, asked_of

_PAGE: Final = 50


class AskTenants(Parameters, frozen=True):
    """Of which queue, from where."""

    queue: Name | None = None
    cursor: Cursor | None = None


class TenantPages:
    """The routes."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/tenants", answer=self.every, allowed=READ),
            PageRoute(path="/tenants/{tenant}", answer=self.show, allowed=READ),
            PageRoute(path="/tenants/{tenant}", answer=self.change, allowed=OPERATE, method="POST"),
        ]

    async def every(self, visit: Visit) -> Response:
        asked, acting = asked_of(visit, AskTenants), visit.acting
        parts = await acting.queues.parts()
        queues = [one.queue for one in parts]
        busiest = max(parts, key=lambda one: one.waiting + one.processing + one.dead, default=None)
        queue = asked.queue if asked.queue is not None or busiest is None else busiest.queue
        lanes: list[Lane] = []
        if queue is not None:
            queue = await acting.queues.named(queue)
            lanes = await acting.tenants.page(queue, after=asked.cursor, limit=_PAGE)
        more = len(lanes) == _PAGE and visit.unbound
        return self._renderer.page(
            visit,
            "tenants.html",
            asked=asked,
            queue=queue,
            queues=queues,
            lanes=lanes,
            done=sum(one.done for one in lanes) or 1,
            weights=sum(one.weight for one in lanes) or 1,
            cursor=lanes[-1].tenant if more else None,
        )

    async def show(self, visit: Visit) -> Response:
        tenant = visit.named("tenant")
        found = tenant_lanes(tenant, await visit.acting.tenants.show(tenant))
        return self._renderer.page(visit, "tenant.html", found=found)

    async def change(self, visit: Visit) -> Response:
        tenants, tenant, form = visit.acting.tenants, visit.named("tenant"), visit.form
        queue = form.text("queue") or None
        match form.text("verb"):
            case "pause":
                await tenants.pause(tenant, queue)
            case "resume":
                await tenants.resume(tenant, queue)
            case "set":
                await tenants.set(tenant, queue, _change(form))
            case _:
                raise form.unknown_verb()
        return redirect(f"/tenants/{tenant}")


def _change(form: Form) -> LaneChange:
    rate = form.text("rate").strip()
    return LaneChange(
        weight=form.number("weight"),
        cap=form.number("cap") or 0,
        rate=Rate.parse(rate) if rate else None,
        unlimited=not rate,
    )
