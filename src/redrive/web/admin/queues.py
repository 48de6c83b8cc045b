"""The three routes of R28: the queues, a queue's dead letters, and bringing some of them back.

Looking never changes a message. A re-drive is an operation: nothing is nowhere at any moment, and it is
answered with where its progress can be asked.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.lanes import Lane
from redrive.core.ports import PAGE, QueueCounts
from redrive.office.filters.terms import Filter, Named, NameField
from redrive.office.operations import Kind, Order, Selection
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import Cursor, DryRun, Limit, NoQuery, Query, Reveal, asked
from redrive.web.admin.description import OPERATE, READ, Route
from redrive.web.admin.letters import place
from redrive.web.admin.office import Office, check_reveal
from redrive.web.admin.starting import BODY_BYTES, start
from redrive.web.answers import respond
from redrive.web.documents import decode
from redrive.web.limits import read_json


class ListMessages(Query, frozen=True):
    """How many of a queue's letters, from where."""

    limit: Limit = 20
    cursor: Cursor | None = None
    reveal: Reveal = "false"


class StartQuery(Query, frozen=True):
    """Whether it is only to be said what would happen."""

    dry_run: DryRun = "false"


class QueueRedrive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of a queue's letters come back, the oldest first; `rate` such as `20/s`."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE)]
    rate: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    canary: Annotated[int, msgspec.Meta(ge=0, le=500)] = 0


_QUEUES = Route(
    method="GET",
    path="/queues",
    name="listQueues",
    summary="The queues, and how many dead letters each has",
    allowed=READ,
    document="QueueList",
)
_MESSAGES = Route(
    method="GET",
    path="/queues/{queue}/messages",
    name="listQueueMessages",
    summary="A queue's dead letters, the oldest first; the queue's or its dead-letter queue's name",
    allowed=READ,
    query=ListMessages,
    document="QueueMessages",
)
_REDRIVE = Route(
    method="POST",
    path="/queues/{queue}/re-drive",
    name="redriveQueue",
    summary="Bring a queue's oldest dead letters back",
    allowed=OPERATE,
    query=StartQuery,
    body="QueueRedrive",
    document="OperationDocument",
    started=True,
    dry_run="PreviewDocument",
)
_BODY = msgspec.json.Decoder(QueueRedrive)


class Queues:
    """The routes."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [
            _QUEUES.operation(self.every),
            _MESSAGES.operation(self.messages),
            _REDRIVE.operation(self.redrive),
        ]

    async def every(self, call: Call) -> Response:
        asked(call, NoQuery)
        counts = await self._office.store.queues()
        tenant = call.credential.tenant
        if tenant is None:
            return respond(200, {"queues": [_queue(one) for one in counts]})
        lanes = [(one, await self._office.store.lane(one.queue, tenant)) for one in counts]
        return respond(200, {"queues": [_part(one, lane) for one, lane in lanes if lane is not None]})

    async def messages(self, call: Call) -> Response:
        query = asked(call, ListMessages)
        reveal = query.reveal == "true"
        if reveal:
            check_reveal(call)
        queue = await self._office.queue(call, call.request.path_params["queue"])
        page = await self._office.index.find(
            _letters_of(queue), scope=call.credential.tenant, after=query.cursor, limit=query.limit
        )
        letters = await self._office.shown(call, page.letters, reveal=reveal)
        return respond(200, {"queue": queue, "messages": letters, "cursor": place(page)["cursor"]})

    async def redrive(self, call: Call) -> Response:
        query = asked(call, StartQuery)
        queue = await self._office.queue(call, call.request.path_params["queue"])
        raw = await read_json(call.request, BODY_BYTES)
        body = decode(_BODY, raw)
        selection = Selection(filter=str(_letters_of(queue)), limit=body.limit)
        order = Order(Kind.REDRIVE, selection, rate=body.rate, canary=body.canary)
        return await start(self._office, call, order, raw, dry_run=query.dry_run == "true")


def _letters_of(queue: str) -> Filter:
    return Filter((Named(NameField.QUEUE, (queue,)),))


def _queue(counts: QueueCounts) -> dict[str, object]:
    return {
        "queue": counts.queue,
        "state": counts.state.value,
        "waiting": counts.pending + counts.scheduled + counts.retry_scheduled,
        "processing": counts.processing,
        "published": counts.published,
        "dlq": counts.dlq,
    }


def _part(counts: QueueCounts, lane: Lane) -> dict[str, object]:
    """A tenant's part of a queue."""
    return {
        "queue": counts.queue,
        "state": counts.state.value,
        "waiting": lane.waiting,
        "processing": lane.in_flight,
        "published": lane.done,
        "dlq": lane.dead,
    }
