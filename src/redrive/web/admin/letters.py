"""Letters: found by filter, page by page; one with its whole history; one message; all by tenant and age;
mails by destination; and one edited and re-driven with another payload, as a new message, where that is
enabled.

Whoever edits says with If-Match which death was read; a letter that came back and died again meanwhile is
not touched.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from redrive.core.lifecycle import State
from redrive.mail.stored import QUEUE as MAIL_QUEUE
from redrive.office.index import LetterOrder
from redrive.office.messages import NotDead
from redrive.office.operations import OperationKind, Order, Selection
from redrive.web.access import Call, Route
from redrive.web.admin.operations import target
from redrive.web.admin.route import (
    OPERATE,
    READ,
    AdminRoom,
    AdminRoute,
    Cursor,
    FilterText,
    Limit,
    NoParameters,
    Parameters,
    Reveal,
    asked,
    demand,
    if_match,
    tag,
)
from redrive.web.admin.start import StartingRoom
from redrive.web.documents import check_payload, decode, respond
from redrive.web.limits import read_json
from redrive.web.problems import BAD_QUERY, CHANGED, FORBIDDEN, NO_IF_MATCH, NOT_FOUND, TOO_LARGE, Refusal

_AROUND = 1_024


class FindLetters(Parameters, frozen=True):
    """Which letters, from where, how many."""

    filter: FilterText = ""
    order: Annotated[Literal["oldest", "newest"], msgspec.Meta(description="Which come first.")] = "oldest"
    limit: Limit = 50
    cursor: Cursor | None = None
    reveal: Reveal = "false"


class AskShape(Parameters, frozen=True):
    """Of which letters, and how many tenants at most."""

    filter: FilterText = ""
    limit: Limit = 50


class AskDestinations(Parameters, frozen=True):
    """Of which letters of a queue of mails, and how many rows at most."""

    queue: Annotated[str, msgspec.Meta(max_length=128, description="The queue of the mails.")] = MAIL_QUEUE
    filter: FilterText = ""
    limit: Limit = 50


class ShowOne(Parameters, frozen=True):
    """How one is shown."""

    reveal: Reveal = "false"


_LIST = AdminRoute(
    method="GET",
    path="/letters",
    name="findLetters",
    summary="Dead letters by filter, page by page",
    allowed=READ,
    query=FindLetters,
    document="LetterPageDocument",
    problems=(BAD_QUERY,),
)
_SHOW = AdminRoute(
    method="GET",
    path="/letters/{id}",
    name="showLetter",
    summary="One dead letter with everything that led there",
    allowed=READ,
    query=ShowOne,
    document="ShownLetter",
    tagged=True,
)
_MESSAGE = AdminRoute(
    method="GET",
    path="/messages/{id}",
    name="showMessage",
    summary="One message in any state, and why it waits, or what became of it",
    allowed=READ,
    query=ShowOne,
    document="ShownMessage",
)

_SHAPE = AdminRoute(
    method="GET",
    path="/shape",
    name="showShape",
    summary="Letters by tenant and age",
    allowed=READ,
    query=AskShape,
    document="ShapeDocument",
    problems=(BAD_QUERY,),
)
_DESTINATIONS = AdminRoute(
    method="GET",
    path="/destinations",
    name="showDestinations",
    summary="Dead mails by the domain that they were for, and by code",
    allowed=READ,
    query=AskDestinations,
    document="DestinationList",
    problems=(BAD_QUERY, NOT_FOUND),
)


class LetterRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _LIST.to(self.find),
            _SHOW.to(self.show),
            _MESSAGE.to(self.message),
            _SHAPE.to(self.shape),
            _DESTINATIONS.to(self.destinations),
        ]

    async def find(self, call: Call) -> Response:
        query = asked(call, FindLetters)
        found = await self.acting(call).letters.find(
            query.filter,
            order=LetterOrder(query.order),
            after=query.cursor,
            limit=query.limit,
            reveal=query.reveal == "true",
        )
        return respond(200, found.document)

    async def show(self, call: Call) -> Response:
        reveal = asked(call, ShowOne).reveal == "true"
        shown = await self.acting(call).letters.show(call.request.path_params["id"], reveal=reveal)
        return respond(200, shown.document, {"ETag": tag(shown.found.progress.generation)})

    async def message(self, call: Call) -> Response:
        reveal = asked(call, ShowOne).reveal == "true"
        shown = await self.acting(call).messages.show(call.request.path_params["id"], reveal=reveal)
        return respond(200, shown.document)

    async def shape(self, call: Call) -> Response:
        query = asked(call, AskShape)
        found = await self.acting(call).letters.shape(query.filter, limit=query.limit)
        return respond(200, found.document)

    async def destinations(self, call: Call) -> Response:
        query = asked(call, AskDestinations)
        found = await self.acting(call).destinations.count(query.filter, queue=query.queue, limit=query.limit)
        return respond(200, found.document)


class LetterEdit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The whole new payload, and the queue it goes to if it is another."""

    payload: msgspec.Raw
    to_queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


_EDIT = AdminRoute(
    method="POST",
    path="/letters/{id}/edit",
    name="editLetter",
    summary="Re-drive one letter with another payload, where editing is enabled",
    allowed=OPERATE,
    body="LetterEdit",
    document="OperationDocument",
    started=True,
    problems=(CHANGED, NO_IF_MATCH),
    parameters=(if_match(required=True),),
)
_BODY = msgspec.json.Decoder(LetterEdit)


class EditRoom(StartingRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [_EDIT.to(self.edit)]

    async def edit(self, call: Call) -> Response:
        asked(call, NoParameters)
        if not self._office.settings.edit:
            raise Refusal(FORBIDDEN, "editing letters is off: set office.edit to true to allow it")
        raw = await read_json(call.request, self._body_bytes + _AROUND)
        again = await self.repeated(call, raw)
        if again is not None:
            return again
        acting = self.acting(call)
        account = await acting.messages.find(call.request.path_params["id"])
        if account.state is not State.DEAD:
            raise NotDead(account)
        generation = account.progress.generation
        demand(call, generation, required=True)
        body = decode(_BODY, raw)
        payload = self._checked(bytes(body.payload))
        order = Order(
            OperationKind.REDRIVE,
            Selection(ids=(account.message.id,), generation=generation),
            expired=True,
            edited=True,
            to_queue=None if body.to_queue is None else await target(acting.queues, body.to_queue),
        )
        return await self.start(call, order, raw, body=payload)

    def _checked(self, payload: bytes) -> bytes:
        if len(payload) > self._body_bytes:
            raise Refusal(TOO_LARGE, f"a payload has more than {self._body_bytes:,} bytes")
        check_payload(msgspec.Raw(payload))
        return payload
