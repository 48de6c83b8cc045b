"""Queues: how deep, how fast, how old, what becomes due; and the switch that stops one."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from redrive.core.totals import OTHER
from redrive.office.documents.control import queue_list
from redrive.web.admin.route import OPERATE, READ
from redrive.web.pages.door import redirect
from redrive.web.pages.live import pause_s
from redrive.web.pages.overview import SharedOverview
from redrive.web.pages.plots import Bars
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import PageRoute, Visit

_EVERY: Final = 5


class QueuePages:
    """The routes."""

    def __init__(self, renderer: Renderer, shared: SharedOverview) -> None:
        self._renderer = renderer
        self._shared = shared

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/queues", answer=self.every, allowed=READ),
            PageRoute(path="/queues/{queue}", answer=self.show, allowed=READ),
            PageRoute(
                path="/queues/{queue}", answer=self.change, allowed=OPERATE, method="POST", unbound=True
            ),
        ]

    async def every(self, visit: Visit) -> Response:
        if not visit.unbound:
            parts = queue_list(await visit.acting.queues.parts()).queues
            return self._renderer.page(
                visit, "queues.html", queues=None, parts=parts, flows={}, pause_s=pause_s(len(parts))
            )
        seen = await self._shared.show(visit)
        together = set(seen.counted_together)
        flows = {one.queue: one for one in seen.last_hour}
        return self._renderer.page(
            visit,
            "queues.html",
            queues=seen.queues,
            parts=None,
            flows=flows,
            together=together,
            others=flows.get(OTHER),
            pause_s=pause_s(len(seen.queues)),
        )

    async def show(self, visit: Visit) -> Response:
        acting = visit.acting
        queue = await acting.queues.named(visit.named("queue"))
        (part,) = [one for one in queue_list(await acting.queues.parts()).queues if one.queue == queue]
        due = await acting.message_list.due_soon(queue)
        bars = Bars([[count] for count in due.counts], ("waiting",), height=110)
        labels = [(number, number) for number in range(0, len(due.counts), _EVERY)]
        return self._renderer.page(visit, "queue.html", one=part, due=due, bars=bars, labels=labels)

    async def change(self, visit: Visit) -> Response:
        queues, name = visit.acting.queues, visit.named("queue")
        match visit.form.text("verb"):
            case "pause":
                await queues.pause(name)
            case "resume":
                await queues.resume(name)
            case _:
                raise visit.form.unknown_verb()
        return redirect(f"/queues/{name}")
