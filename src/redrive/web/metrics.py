"""`/metrics`: what Prometheus scrapes, read from the store at that moment."""

from __future__ import annotations

from starlette.responses import Response

from redrive.office.access import Permission
from redrive.office.metrics import MeasuredStore, scrape
from redrive.telemetry.metrics import MEDIA_TYPE
from redrive.web import description
from redrive.web.access import Call, Route

_TEXT = {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}


class MetricsRoute:
    """The route, for keys that belong to no tenant: the figures are of all."""

    def __init__(self, store: MeasuredStore) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        problems = description.problems(description.GUARDED)
        return [
            Route(
                method="GET",
                path="/metrics",
                name="getMetrics",
                summary="Totals, sizes and ages over all processes, for Prometheus",
                allowed=frozenset({Permission.READ}),
                answer=self.answer,
                described={"responses": {"200": _TEXT} | problems, "security": [{"key": []}]},
                unbound=True,
            )
        ]

    async def answer(self, _: Call) -> Response:
        made = await scrape(self._store)
        return Response(made.text(), headers={"Content-Type": MEDIA_TYPE})
