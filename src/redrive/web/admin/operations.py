"""Operations: started by ids or by filter, looked at, paused, resumed and cancelled.

A conductor carries them out: this process's own, another server's or a worker's. Export and restore name
files and are not among them: an export is a download here, restoring is the command line's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from redrive.mail.stored import QUEUE as MAIL_QUEUE
from redrive.office.operations import (
    NoOperation,
    Operation,
    OperationError,
    OperationKind,
    Operations,
    Order,
    Selection,
)
from redrive.office.operations.operation import CHUNK, NAMED_LETTERS
from redrive.office.queues import NoQueue, Queues
from redrive.web.access import Call, Route
from redrive.web.admin.route import OPERATE, READ, AdminRoute, Cursor, Limit, NoParameters, Parameters, asked
from redrive.web.admin.start import BODY_BYTES, StartingRoom, StartParameters, as_of
from redrive.web.documents import decode, respond
from redrive.web.limits import read_json
from redrive.web.problems import BAD_QUERY, INVALID, WRONG_STATE, FieldError, Refusal

_ALL = 1_000_000

LetterId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class OrderBody(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What to do with which letters: `ids`, those of a `filter`, or `all`, and of them the oldest `limit`.

    `undiscard` brings back what was discarded and is kept. `canary` letters go first and are waited for;
    `ramp`: ever larger parts follow. Without them a re-drive of more than 20 has a canary of 5 and the rate
    20/s: write 0 and "none" to have it without. It halts when more than `haltShare` of at least `haltLeast`
    that came back failed. `expired` takes one-time letters too. `asOf` and `counted` are the `asOf` and
    `count` of a dry run: what died after it is not taken, and no more than it counted.
    """

    kind: Literal["redrive", "discard", "undiscard"]
    ids: Annotated[list[LetterId], msgspec.Meta(min_length=1, max_length=NAMED_LETTERS)] | None = None
    filter: Annotated[str, msgspec.Meta(max_length=2_000)] | None = None
    all: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=_ALL)] | None = None
    rate: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    canary: Annotated[int, msgspec.Meta(ge=0, le=CHUNK)] | None = None
    ramp: bool = False
    halt_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2
    halt_least: Annotated[int, msgspec.Meta(ge=1, le=_ALL)] = 5
    expired: bool = False
    to_queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None
    as_of: datetime | None = None
    counted: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None


class ListOperations(Parameters, frozen=True):
    """How many, from where."""

    limit: Limit = 20
    cursor: Cursor | None = None


_START = AdminRoute(
    method="POST",
    path="/operations",
    name="startOperation",
    summary="Re-drive or discard letters, or bring discarded ones back, by ids or by filter",
    allowed=OPERATE,
    query=StartParameters,
    body="OrderBody",
    document="OperationDocument",
    started=True,
    dry_run="PreviewDocument",
    problems=(BAD_QUERY,),
)
_LIST = AdminRoute(
    method="GET",
    path="/operations",
    name="listOperations",
    summary="Operations, the newest first",
    allowed=READ,
    query=ListOperations,
    document="OperationPage",
)
_SHOW = AdminRoute(
    method="GET",
    path="/operations/{id}",
    name="showOperation",
    summary="An operation and how far it is",
    allowed=READ,
    document="OperationDocument",
)


def _switch(verb: str, summary: str) -> AdminRoute:
    return AdminRoute(
        method="POST",
        path=f"/operations/{{id}}/{verb}",
        name=f"{verb}Operation",
        summary=summary,
        allowed=OPERATE,
        document="OperationDocument",
        problems=(WRONG_STATE,),
    )


_PAUSE = _switch("pause", "Move nothing more until it is resumed")
_RESUME = _switch("resume", "Go on after a pause or a halt")
_CANCEL = _switch("cancel", "End it where it is; what was moved stays moved")
_BODY = msgspec.json.Decoder(OrderBody)


class OperationRoom(StartingRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _START.to(self.start_one),
            _LIST.to(self.every),
            _SHOW.to(self.show),
            _PAUSE.to(self.pause),
            _RESUME.to(self.resume),
            _CANCEL.to(self.cancel),
        ]

    async def start_one(self, call: Call) -> Response:
        query = asked(call, StartParameters)
        raw = await read_json(call.request, BODY_BYTES)
        order = await self._order(call, decode(_BODY, raw))
        return await self.start(call, order, raw, dry_run=query.dry_run == "true")

    async def every(self, call: Call) -> Response:
        query = asked(call, ListOperations)
        found = await self.acting(call).operations.list(limit=query.limit, before=query.cursor)
        return respond(200, found.document)

    async def show(self, call: Call) -> Response:
        asked(call, NoParameters)
        operations = self.acting(call).operations
        return respond(200, operations.document(await operations.show(call.request.path_params["id"])))

    async def pause(self, call: Call) -> Response:
        return await self._change(call, Operations.pause)

    async def resume(self, call: Call) -> Response:
        return await self._change(call, Operations.resume)

    async def cancel(self, call: Call) -> Response:
        return await self._change(call, Operations.cancel)

    async def _change(self, call: Call, verb: Callable[[Operations, str], Awaitable[Operation]]) -> Response:
        asked(call, NoParameters)
        operations, name = self.acting(call).operations, call.request.path_params["id"]
        try:
            await verb(operations, name)
        except NoOperation:
            raise
        except OperationError as error:
            raise Refusal(WRONG_STATE, str(error)) from error
        return respond(200, operations.document(await operations.show(name)))

    async def _order(self, call: Call, body: OrderBody) -> Order:
        if (body.ids is not None, body.filter is not None, body.all).count(True) != 1:
            raise _unclear('give ids, a filter, or "all": true; one of them')
        if body.filter is not None and not body.filter.strip():
            raise _unclear('is empty, which matches every letter: write "all": true for that')
        acting = self.acting(call)
        acting.view.filter(body.filter or "")
        return Order(
            OperationKind(body.kind),
            Selection(
                ids=tuple(body.ids or ()),
                filter=body.filter or "",
                limit=body.limit,
                as_of=as_of(body.as_of),
                counted=body.counted,
            ),
            rate=body.rate,
            canary=body.canary,
            ramp=body.ramp,
            halt_share=body.halt_share,
            halt_least=body.halt_least,
            expired=body.expired or body.kind != "redrive",
            to_queue=None if body.to_queue is None else await target(acting.queues, body.to_queue),
        )


async def target(queues: Queues, given: str) -> str:
    """The queue that letters are to go to: one that the caller knows, and not the mail gateway's."""
    try:
        queue = await queues.target(given)
    except NoQueue:
        raise _no_target("is not a queue here: GET /admin/dlq/queues lists them") from None
    if queue == MAIL_QUEUE:
        raise _no_target("belongs to the mail gateway: send mails to /v1/emails")
    return queue


def _unclear(problem: str) -> Refusal:
    """A forgotten value never means every letter."""
    return Refusal(
        INVALID, "it is not said which letters are meant: see errors", [FieldError("filter", problem)]
    )


def _no_target(problem: str) -> Refusal:
    return Refusal(INVALID, "nothing was started: see errors", [FieldError("toQueue", problem)])
