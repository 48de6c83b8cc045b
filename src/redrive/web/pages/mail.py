"""Mail: dead mails by code and by destination; in development, what the mailbox simulator received."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.responses import Response

from redrive.app import Redrive
from redrive.mail.stored import QUEUE
from redrive.mailbox import folder as folders
from redrive.office.groups import GroupBy
from redrive.office.queues import NoQueue, queue_term
from redrive.web.admin.route import READ
from redrive.web.pages.letter import FRAME_POLICY, REVEAL
from redrive.web.pages.mail_reader import parse_mail
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import PageRoute, Visit
from redrive.web.problems import NOT_FOUND, Refusal

_DESTINATIONS: Final = 100
_INBOX: Final = 50


class MailPages:
    """The routes. The simulator's folder is there only where one runs beside this store."""

    def __init__(self, app: Redrive, renderer: Renderer) -> None:
        self._folder = app.settings.data / "mailbox"
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/mail", answer=self.show, allowed=READ),
            PageRoute(path="/mail/inbox/{id}", answer=self.received, allowed=REVEAL, unbound=True),
            PageRoute(path="/mail/inbox/{id}/frame", answer=self.frame, allowed=REVEAL, unbound=True),
        ]

    async def show(self, visit: Visit) -> Response:
        acting = visit.acting
        groups, destinations, inbox = [], None, None
        try:
            await acting.queues.named(QUEUE)
        except NoQueue:
            pass
        else:
            groups = (await acting.groups.find(GroupBy.CODE, str(queue_term(QUEUE)))).document.groups
            destinations = (await acting.destinations.count(queue=QUEUE, limit=_DESTINATIONS)).document
        if visit.may("reveal") and visit.unbound and self._folder.is_dir():
            inbox = (await asyncio.to_thread(folders.latest, self._folder, _INBOX))[::-1]
        return self._renderer.page(
            visit,
            "mail.html",
            groups=groups,
            destinations=destinations,
            queue=QUEUE,
            inbox=inbox,
        )

    async def received(self, visit: Visit) -> Response:
        mail = await self._find(visit)
        read = await asyncio.to_thread(parse_mail, mail.content)
        return self._renderer.page(visit, "inbox.html", received=mail, mail=read)

    async def frame(self, visit: Visit) -> Response:
        html = (await asyncio.to_thread(parse_mail, (await self._find(visit)).content)).html
        headers = {"Content-Security-Policy": FRAME_POLICY, "X-Frame-Options": "SAMEORIGIN"}
        return Response(html or "", headers=headers, media_type="text/html")

    async def _find(self, visit: Visit) -> Any:
        """A mail as it arrived, after the audit has who reads it."""
        name = visit.named("id")
        found = None
        if name.isdecimal() and len(name) < 12 and self._folder.is_dir():
            found = await asyncio.to_thread(folders.find, self._folder, int(name))
        if found is None:
            raise Refusal(NOT_FOUND, "there is no such mail in the simulator's inbox")
        await visit.acting.view.mask({"inbox": found.id}, reveal=True)
        return found
