"""Letters: found by filter, page by page; one with its whole history; one message; all by tenant and age."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from redrive.office.index import LetterOrder
from redrive.web.access import Call, Route
from redrive.web.admin.query import Cursor, FilterText, Limit, Parameters, Reveal, asked
from redrive.web.admin.room import AdminRoom
from redrive.web.admin.route import READ, AdminRoute
from redrive.web.admin.tags import tag
from redrive.web.answers import respond
from redrive.web.problems import BAD_QUERY


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


class LetterRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _LIST.to(self.find),
            _SHOW.to(self.show),
            _MESSAGE.to(self.message),
            _SHAPE.to(self.shape),
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
