"""Queues: which there are, a queue's dead letters, and bringing some of them back.

Looking never changes a message. A re-drive is an operation: nothing is nowhere at any moment, and it is
answered with where its progress can be asked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.ports import PAGE
from redrive.office.documents.control import queue_list
from redrive.office.documents.letters import QueueMessages
from redrive.office.operations import OperationKind, Order, Selection
from redrive.office.queues import queue_term
from redrive.web.access import Call, Route
from redrive.web.admin.route import (
    OPERATE,
    READ,
    AdminRoute,
    Cursor,
    Limit,
    NoParameters,
    Parameters,
    Reveal,
    asked,
)
from redrive.web.admin.start import BODY_BYTES, StartingRoom, StartParameters, as_of
from redrive.web.documents import decode, respond
from redrive.web.limits import read_json


class ListMessages(Parameters, frozen=True):
    """How many of a queue's letters, from where."""

    limit: Limit = 20
    cursor: Cursor | None = None
    reveal: Reveal = "false"


class QueueRedrive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How many of a queue's letters come back, the oldest first; `rate` such as `20/s`.

    Without canary and rate, more than 20 have a canary of 5 and the rate 20/s: 0 and "none" are without.
    `asOf` is that of a dry run: what died after it is not taken.
    """

    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE)]
    rate: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    canary: Annotated[int, msgspec.Meta(ge=0, le=500)] | None = None
    as_of: datetime | None = None


_QUEUES = AdminRoute(
    method="GET",
    path="/queues",
    name="listQueues",
    summary="The queues, and how many dead letters each has",
    allowed=READ,
    document="QueueList",
)
_MESSAGES = AdminRoute(
    method="GET",
    path="/queues/{queue}/messages",
    name="listQueueMessages",
    summary="A queue's dead letters, the oldest first; the queue's or its dead-letter queue's name",
    allowed=READ,
    query=ListMessages,
    document="QueueMessages",
)
_REDRIVE = AdminRoute(
    method="POST",
    path="/queues/{queue}/re-drive",
    name="redriveQueue",
    summary="Bring a queue's oldest dead letters back",
    allowed=OPERATE,
    query=StartParameters,
    body="QueueRedrive",
    document="OperationDocument",
    started=True,
    dry_run="PreviewDocument",
)
_BODY = msgspec.json.Decoder(QueueRedrive)


class QueueRoom(StartingRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _QUEUES.to(self.every),
            _MESSAGES.to(self.messages),
            _REDRIVE.to(self.redrive),
        ]

    async def every(self, call: Call) -> Response:
        asked(call, NoParameters)
        return respond(200, queue_list(await self.acting(call).queues.parts()))

    async def messages(self, call: Call) -> Response:
        query, acting = asked(call, ListMessages), self.acting(call)
        acting.view.check(reveal=query.reveal == "true")
        queue = await acting.queues.named(call.request.path_params["queue"])
        found = await acting.letters.find(
            str(queue_term(queue)), after=query.cursor, limit=query.limit, reveal=query.reveal == "true"
        )
        page = found.document
        return respond(200, QueueMessages(queue=queue, messages=page.letters, cursor=page.cursor))

    async def redrive(self, call: Call) -> Response:
        query, acting = asked(call, StartParameters), self.acting(call)
        queue = await acting.queues.named(call.request.path_params["queue"])
        raw = await read_json(call.request, BODY_BYTES)
        body = decode(_BODY, raw)
        selection = Selection(filter=str(queue_term(queue)), limit=body.limit, as_of=as_of(body.as_of))
        order = Order(OperationKind.REDRIVE, selection, rate=body.rate, canary=body.canary)
        return await self.start(call, order, raw, dry_run=query.dry_run == "true")
