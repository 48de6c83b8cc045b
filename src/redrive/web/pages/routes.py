"""All pages, in turns, behind one door."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from redrive.app import Redrive
from redrive.web.access import Anyone, Route
from redrive.web.admin.routes import Turns, refusing
from redrive.web.pages.admin import AdminPages
from redrive.web.pages.keys import KeyPages
from redrive.web.pages.letter import LetterPages
from redrive.web.pages.letters import LettersPages
from redrive.web.pages.live import LivePages
from redrive.web.pages.mail import MailPages
from redrive.web.pages.messages import MessagesPages
from redrive.web.pages.operations import OperationPages
from redrive.web.pages.overview import OverviewPages, SharedOverview
from redrive.web.pages.queues import QueuePages
from redrive.web.pages.sign_in import SignInPages
from redrive.web.pages.tenants import TenantPages

if TYPE_CHECKING:
    from redrive.web.pages.door import PageDoor


def page_routes(app: Redrive, door: PageDoor, live: LivePages, *, proxied: bool = False) -> list[Route]:
    """The pages of an open app; `proxied`: all requests come through proxies that were named."""
    renderer, turns = door.renderer, Turns()
    shared = SharedOverview(app)
    rooms = (
        SignInPages(app, door.gate, renderer, proxied=proxied),
        live,
        OverviewPages(renderer, shared),
        LettersPages(renderer),
        LetterPages(app, renderer),
        OperationPages(app, renderer),
        MessagesPages(renderer),
        QueuePages(renderer, shared),
        TenantPages(renderer),
        MailPages(app, renderer),
        AdminPages(renderer),
        KeyPages(renderer),
    )
    routes = [page.route() for room in rooms for page in room.routes()]
    return [
        route if isinstance(route.allowed, Anyone) else replace(route, answer=refusing(route.answer, turns))
        for route in routes
    ]
