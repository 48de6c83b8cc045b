"""Messages: lists of what waits, runs, is done or was removed, and removing a tenant's waiting ones."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.letters import MessagePhase
from redrive.core.ports import PAGE
from redrive.office.documents.messages import RemovedMessages
from redrive.web.access import Call, Route
from redrive.web.admin.route import (
    OPERATE,
    READ,
    AdminRoom,
    AdminRoute,
    Cursor,
    DryRun,
    Limit,
    Parameters,
    asked,
)
from redrive.web.documents import respond
from redrive.web.problems import NOT_FOUND

_MOST = 20 * PAGE
_MOST_AGE_S = 10 * 366 * 86_400

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class ListPhase(Parameters, frozen=True):
    """Which messages: of a state, queue and tenant, and accepted at least `olderThanS` seconds ago."""

    state: MessagePhase = MessagePhase.WAITING
    queue: Name | None = None
    tenant: Name | None = None
    older_than_s: Annotated[int, msgspec.Meta(ge=0, le=_MOST_AGE_S)] | None = None
    limit: Limit = 20
    cursor: Cursor | None = None


class RemoveWaiting(Parameters, frozen=True):
    """Whose waiting messages, in one queue or in every queue that the tenant has used."""

    tenant: Name
    queue: Name | None = None
    dry_run: DryRun = "false"


_LIST = AdminRoute(
    method="GET",
    path="/messages",
    name="listMessages",
    summary="Messages that wait, are scheduled, run, are done or were removed; without payloads",
    allowed=READ,
    query=ListPhase,
    document="MessageListDocument",
    problems=(NOT_FOUND,),
)
_REMOVE = AdminRoute(
    method="POST",
    path="/messages/remove",
    name="removeMessages",
    summary=f"Remove a tenant's waiting messages, {_MOST:,} at most: repeat while `waiting` is not 0",
    allowed=OPERATE,
    query=RemoveWaiting,
    document="RemovedMessages",
    problems=(NOT_FOUND,),
)


class MessageRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [_LIST.to(self.every), _REMOVE.to(self.remove)]

    async def every(self, call: Call) -> Response:
        query = asked(call, ListPhase)
        found = await self.acting(call).message_list.page(
            query.state,
            queue=query.queue,
            tenant=query.tenant,
            older_than_s=query.older_than_s,
            after=query.cursor,
            limit=query.limit,
        )
        return respond(200, found.document)

    async def remove(self, call: Call) -> Response:
        query, acting = asked(call, RemoveWaiting), self.acting(call)
        if query.dry_run == "true":
            lanes = await acting.message_list.waiting(query.tenant, query.queue)
            waiting = sum(lane.waiting for lane in lanes)
            return respond(200, RemovedMessages(company_id=query.tenant, removed=0, waiting=waiting))
        done = await acting.message_list.remove(query.tenant, query.queue, most=_MOST)
        return respond(
            200, RemovedMessages(company_id=done.tenant, removed=done.removed, waiting=done.waiting)
        )
