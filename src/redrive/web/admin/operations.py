"""Operations: started by ids or by filter, looked at, paused, resumed and cancelled.

A conductor carries them out: this process's own, another server's or a worker's. Export and restore name
files and are not among them: an export is a download here, restoring is the command line's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response

from redrive.core.redaction import MASKED, redact
from redrive.mail.gateway import QUEUE as MAIL_QUEUE
from redrive.office import operations as office_operations
from redrive.office.filters import FilterError
from redrive.office.filters.guessing import MaskedValue
from redrive.office.operations import Kind, NoOperation, OperationError, Order, Selection, Snapshot
from redrive.office.operations.documents import operation_document
from redrive.office.operations.operation import CHUNK, NAMED_LETTERS
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import Cursor, Limit, NoQuery, Query, asked
from redrive.web.admin.description import OPERATE, READ, Route
from redrive.web.admin.office import Office
from redrive.web.admin.queues import StartQuery
from redrive.web.admin.starting import BODY_BYTES, start
from redrive.web.answers import respond
from redrive.web.documents import decode
from redrive.web.limits import read_json
from redrive.web.problem_types import BAD_QUERY, INVALID, WRONG_STATE
from redrive.web.problems import FieldError, Refused

_ALL = 1_000_000

LetterId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class OrderBody(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What to do with which letters: `ids`, or those of a `filter` (an empty one: all), the oldest `limit`.

    `canary` letters go first and are waited for; `ramp`: ever larger parts follow. It halts when more than
    `haltShare` of at least `haltLeast` that came back failed. `expired` takes one-time letters too.
    """

    kind: Literal["redrive", "discard"]
    ids: Annotated[list[LetterId], msgspec.Meta(min_length=1, max_length=NAMED_LETTERS)] | None = None
    filter: Annotated[str, msgspec.Meta(max_length=2_000)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_ALL)] | None = None
    rate: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    canary: Annotated[int, msgspec.Meta(ge=0, le=CHUNK)] = 0
    ramp: bool = False
    halt_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2
    halt_least: Annotated[int, msgspec.Meta(ge=1, le=_ALL)] = 5
    expired: bool = False
    to_queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


class ListOperations(Query, frozen=True):
    """How many, from where."""

    limit: Limit = 20
    cursor: Cursor | None = None


_START = Route(
    method="POST",
    path="/operations",
    name="startOperation",
    summary="Re-drive or discard letters, by ids or by filter",
    allowed=OPERATE,
    query=StartQuery,
    body="OrderBody",
    document="OperationDocument",
    started=True,
    dry_run="PreviewDocument",
    problems=(BAD_QUERY,),
)
_LIST = Route(
    method="GET",
    path="/operations",
    name="listOperations",
    summary="Operations, the newest first",
    allowed=READ,
    query=ListOperations,
    document="OperationPage",
)
_SHOW = Route(
    method="GET",
    path="/operations/{id}",
    name="showOperation",
    summary="An operation and how far it is",
    allowed=READ,
    document="OperationDocument",
)


def _switch(verb: str, summary: str) -> Route:
    return Route(
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


class Operations:
    """The routes."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [
            _START.operation(self.start),
            _LIST.operation(self.every),
            _SHOW.operation(self.show),
            _PAUSE.operation(self.pause),
            _RESUME.operation(self.resume),
            _CANCEL.operation(self.cancel),
        ]

    async def start(self, call: Call) -> Response:
        query = asked(call, StartQuery)
        raw = await read_json(call.request, BODY_BYTES)
        order = await self._order(call, decode(_BODY, raw))
        return await start(self._office, call, order, raw, dry_run=query.dry_run == "true")

    async def every(self, call: Call) -> Response:
        query = asked(call, ListOperations)
        desk = self._office.operations(call)
        page, cursor = await desk.page(limit=query.limit, before=query.cursor)
        shown = [self._shown(call, await desk.show(one.id)) for one in page]
        return respond(200, {"operations": shown, "cursor": cursor})

    async def show(self, call: Call) -> Response:
        asked(call, NoQuery)
        desk = self._office.operations(call)
        return respond(200, self._shown(call, await desk.show(call.request.path_params["id"])))

    def _shown(self, call: Call, seen: Snapshot) -> dict[str, Any]:
        """An operation; a filter that the caller may not ask is not told either."""
        document = operation_document(seen)
        try:
            asked_for = self._office.filter(call, document["filter"])
        except (MaskedValue, FilterError):
            return document | {"filter": MASKED}
        return document | {"filter": redact(document["filter"])} if asked_for.masked else document

    async def pause(self, call: Call) -> Response:
        return await self._change(call, office_operations.Operations.pause)

    async def resume(self, call: Call) -> Response:
        return await self._change(call, office_operations.Operations.resume)

    async def cancel(self, call: Call) -> Response:
        return await self._change(call, office_operations.Operations.cancel)

    async def _change(
        self,
        call: Call,
        verb: Callable[[office_operations.Operations, str], Awaitable[office_operations.Operation]],
    ) -> Response:
        asked(call, NoQuery)
        desk, name = self._office.operations(call), call.request.path_params["id"]
        try:
            await verb(desk, name)
        except NoOperation:
            raise
        except OperationError as error:
            raise Refused(WRONG_STATE, str(error)) from error
        return respond(200, operation_document(await desk.show(name)))

    async def _order(self, call: Call, body: OrderBody) -> Order:
        if (body.ids is None) == (body.filter is None):
            error = FieldError("filter", 'give ids, or a filter: "" means all letters')
            raise Refused(INVALID, "it is not said which letters are meant: see errors", [error])
        self._office.filter(call, body.filter or "")
        return Order(
            Kind(body.kind),
            Selection(ids=tuple(body.ids or ()), filter=body.filter or "", limit=body.limit),
            rate=body.rate,
            canary=body.canary,
            ramp=body.ramp,
            halt_share=body.halt_share,
            halt_least=body.halt_least,
            expired=body.expired or body.kind == "discard",
            to_queue=None if body.to_queue is None else await target(self._office, call, body.to_queue),
        )


async def target(office: Office, call: Call, given: str) -> str:
    """The queue that letters are to go to: one that the caller knows, and not the mail gateway's."""
    queue = await office.find_queue(call, given)
    if queue is None:
        raise _no_target("is no queue here: GET /admin/dlq/queues lists them")
    if queue == MAIL_QUEUE:
        raise _no_target("belongs to the mail gateway: send mails to /v1/emails")
    return queue


def _no_target(problem: str) -> Refused:
    return Refused(INVALID, "nothing was started: see errors", [FieldError("toQueue", problem)])
