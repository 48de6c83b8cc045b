"""Messages that are no letters: what waits, runs, is scheduled, done or removed.

Why one waits is said on its own page.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from redrive.core.letters import MessagePhase
from redrive.web.admin.messages import Name
from redrive.web.admin.route import READ, Cursor, Parameters
from redrive.web.pages.live import pause_s
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import PageRoute, Visit, asked_of

_PAGE: Final = 50


class AskMessages(Parameters, frozen=True):
    """Which messages."""

    state: MessagePhase = MessagePhase.WAITING
    queue: Name | None = None
    tenant: Name | None = None
    cursor: Cursor | None = None


class MessagesPages:
    """The routes."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [PageRoute(path="/messages", answer=self.find, allowed=READ)]

    async def find(self, visit: Visit) -> Response:
        asked, acting = asked_of(visit, AskMessages), visit.acting
        found = await acting.message_list.page(
            asked.state, queue=asked.queue, tenant=asked.tenant, after=asked.cursor, limit=_PAGE
        )
        queues = [one.queue for one in await acting.queues.parts()]
        return self._renderer.page(
            visit,
            "messages.html",
            asked=asked,
            found=found.document,
            queues=queues,
            phases=list(MessagePhase),
            pause_s=pause_s(len(queues)),
        )
