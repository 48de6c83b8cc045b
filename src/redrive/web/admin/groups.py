"""Groups: the causes behind the letters, and what people say of one: notes, ignored, resolved, open again.

A group is named by `by` and `key` in the address, since a key may hold any text. What is said may be guarded
with the ETag that the group had when it was read; a note needs no guard, it takes nothing away.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec
from starlette.responses import Response

from redrive.office.documents.groups import said_document, shown_group
from redrive.office.groups import GroupBy, Said
from redrive.office.groups.said import KEY_LENGTH, MOST_COUNT, NOTE_LENGTH
from redrive.web.access import Call, Route
from redrive.web.admin.route import (
    OPERATE,
    READ,
    AdminRoom,
    AdminRoute,
    FilterText,
    Limit,
    Parameters,
    asked,
    demand,
    if_match,
    tag,
)
from redrive.web.documents import decode, milliseconds, respond
from redrive.web.limits import read_json
from redrive.web.problems import BAD_QUERY, CHANGED, INVALID, FieldError, Refusal

_BODY_BYTES: Final = 64 * 1024
By = Annotated[
    Literal["fingerprint", "code", "reason", "tenant", "queue", "age"],
    msgspec.Meta(description="What the letters of a group have in common."),
]
Key = Annotated[
    str, msgspec.Meta(max_length=KEY_LENGTH, description="The group's `key`; empty: those without.")
]


class ListGroups(Parameters, frozen=True):
    """Groups of which letters, by what."""

    by: By = "fingerprint"
    filter: FilterText = ""
    limit: Limit = 100


class OneGroup(Parameters, frozen=True):
    """The group that is meant."""

    by: By
    key: Key


class GroupChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How a group stands from now on; an ignored one until a count of letters, an instant, or either."""

    state: Literal["open", "ignored", "resolved"]
    until_count: Annotated[int, msgspec.Meta(ge=1, le=MOST_COUNT)] | None = None
    until_at: datetime | None = None


class GroupNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note on a group."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=NOTE_LENGTH)]


_LIST = AdminRoute(
    method="GET",
    path="/groups",
    name="listGroups",
    summary="The largest groups of letters, how each stands, and one letter of each",
    allowed=READ,
    query=ListGroups,
    document="GroupList",
    problems=(BAD_QUERY,),
)
_SHOW = AdminRoute(
    method="GET",
    path="/group",
    name="showGroup",
    summary="One group and what was said of it",
    allowed=READ,
    query=OneGroup,
    document="ShownGroup",
    tagged=True,
)
_CHANGE = AdminRoute(
    method="PUT",
    path="/group",
    name="changeGroup",
    summary="Ignore, resolve or open a group",
    allowed=OPERATE,
    query=OneGroup,
    body="GroupChange",
    document="ShownGroup",
    tagged=True,
    problems=(CHANGED,),
    parameters=(if_match(required=False),),
)
_NOTE = AdminRoute(
    method="POST",
    path="/group/notes",
    name="addGroupNote",
    summary="Write a note on a group",
    allowed=OPERATE,
    query=OneGroup,
    body="GroupNote",
    document="ShownGroup",
    tagged=True,
)
_CHANGE_BODY = msgspec.json.Decoder(GroupChange)
_NOTE_BODY = msgspec.json.Decoder(GroupNote)


class GroupRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _LIST.to(self.every),
            _SHOW.to(self.show),
            _CHANGE.to(self.change),
            _NOTE.to(self.note),
        ]

    async def every(self, call: Call) -> Response:
        query = asked(call, ListGroups)
        found = await self.acting(call).groups.find(GroupBy(query.by), query.filter, limit=query.limit)
        return respond(200, found.document)

    async def show(self, call: Call) -> Response:
        return await self._answer(call, asked(call, OneGroup))

    async def change(self, call: Call) -> Response:
        query = asked(call, OneGroup)
        body = decode(_CHANGE_BODY, await read_json(call.request, _BODY_BYTES))
        groups, by, key = self.acting(call).groups, GroupBy(query.by), query.key
        before = await groups.said(by, key)
        expected = before if demand(call, _version(before)) else None
        if body.state == "ignored":
            until_at = milliseconds(body.until_at, "untilAt", "the group was not changed: see errors")
            await groups.ignore(by, key, until_count=body.until_count, until_at=until_at, expected=expected)
        else:
            _refuse_until(body)
            change = groups.resolve if body.state == "resolved" else groups.reopen
            await change(by, key, expected=expected)
        return await self._answer(call, query)

    async def note(self, call: Call) -> Response:
        query = asked(call, OneGroup)
        body = decode(_NOTE_BODY, await read_json(call.request, _BODY_BYTES))
        await self.acting(call).groups.note(GroupBy(query.by), query.key, body.text)
        return await self._answer(call, query)

    async def _answer(self, call: Call, query: OneGroup) -> Response:
        by = GroupBy(query.by)
        group, said = await self.acting(call).groups.show(by, query.key)
        document = shown_group(by, query.key, group, said)
        return respond(200, document, {"ETag": tag(_version(said))})


def _version(said: Said) -> str:
    return sha256(msgspec.json.encode(said_document(said))).hexdigest()[:16]


def _refuse_until(body: GroupChange) -> None:
    if body.until_count is not None or body.until_at is not None:
        error = FieldError("state", "only an ignored group has an untilCount or untilAt")
        raise Refusal(INVALID, "the group was not changed: see errors", [error])
