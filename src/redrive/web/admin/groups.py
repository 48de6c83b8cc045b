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

from redrive.office.filters import Filter
from redrive.office.filters.guessing import unsearched
from redrive.office.filters.terms import Named, NameField
from redrive.office.groups import Group, GroupBy, Said
from redrive.office.groups.documents import group_document, said_document
from redrive.office.groups.standing import NOTE_LENGTH
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import FilterText, Limit, Query, asked
from redrive.web.admin.description import OPERATE, READ, Route, if_match
from redrive.web.admin.office import Office
from redrive.web.admin.tags import demand, tag
from redrive.web.answers import respond
from redrive.web.documents import decode
from redrive.web.limits import read_json
from redrive.web.problem_types import BAD_QUERY, CHANGED, INVALID
from redrive.web.problems import FieldError, Refused

_BODY_BYTES: Final = 64 * 1024
_ALL_GROUPS: Final = 10_000
_NAMED: Final = {
    GroupBy.FINGERPRINT: NameField.FINGERPRINT,
    GroupBy.CODE: NameField.CODE,
    GroupBy.TENANT: NameField.TENANT,
    GroupBy.QUEUE: NameField.QUEUE,
}
By = Annotated[
    Literal["fingerprint", "code", "reason", "tenant", "queue", "age"],
    msgspec.Meta(description="What the letters of a group have in common."),
]
Key = Annotated[str, msgspec.Meta(max_length=500, description="The group's `key`; empty: those without.")]


class ListGroups(Query, frozen=True):
    """Groups of which letters, by what."""

    by: By = "fingerprint"
    filter: FilterText = ""
    limit: Limit = 100


class OneGroup(Query, frozen=True):
    """The group that is meant."""

    by: By
    key: Key


class GroupChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How a group stands from now on; an ignored one until a count of letters, an instant, or either."""

    state: Literal["open", "ignored", "resolved"]
    until_count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None
    until_at: datetime | None = None


class GroupNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note on a group."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=NOTE_LENGTH)]


_LIST = Route(
    method="GET",
    path="/groups",
    name="listGroups",
    summary="The largest groups of letters, how each stands, and one letter of each",
    allowed=READ,
    query=ListGroups,
    document="GroupList",
    problems=(BAD_QUERY,),
)
_SHOW = Route(
    method="GET",
    path="/group",
    name="showGroup",
    summary="One group and what was said of it",
    allowed=READ,
    query=OneGroup,
    document="ShownGroup",
    tagged=True,
)
_CHANGE = Route(
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
_NOTE = Route(
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


class Groups:
    """The routes."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [
            _LIST.operation(self.every),
            _SHOW.operation(self.show),
            _CHANGE.operation(self.change),
            _NOTE.operation(self.note),
        ]

    async def every(self, call: Call) -> Response:
        query = asked(call, ListGroups)
        wanted = self._office.filter(call, query.filter)
        found = await self._office.groups(call).list(GroupBy(query.by), wanted, limit=query.limit)
        document = {
            "groups": [group_document(one) for one in found],
            "behind": self._office.index.freshness.behind,
            "notice": unsearched(wanted),
            "empty": await self._office.empty(call, wanted, len(found)),
        }
        return respond(200, document)

    async def show(self, call: Call) -> Response:
        query = asked(call, OneGroup)
        said = await self._office.groups(call).said(GroupBy(query.by), query.key)
        return await self._answer(call, query, said)

    async def change(self, call: Call) -> Response:
        query = asked(call, OneGroup)
        body = decode(_CHANGE_BODY, await read_json(call.request, _BODY_BYTES))
        groups, by, key = self._office.groups(call), GroupBy(query.by), query.key
        before = await groups.said(by, key)
        expected = before if demand(call, _version(before)) else None
        if body.state == "ignored":
            until_at = _milliseconds(body.until_at)
            said = await groups.ignore(
                by, key, until_count=body.until_count, until_at=until_at, expected=expected
            )
        else:
            _refuse_until(body)
            change = groups.resolve if body.state == "resolved" else groups.reopen
            said = await change(by, key, expected=expected)
        return await self._answer(call, query, said)

    async def note(self, call: Call) -> Response:
        query = asked(call, OneGroup)
        body = decode(_NOTE_BODY, await read_json(call.request, _BODY_BYTES))
        said = await self._office.groups(call).note(GroupBy(query.by), query.key, body.text)
        return await self._answer(call, query, said)

    async def _answer(self, call: Call, query: OneGroup, said: Said) -> Response:
        found = await self._find(call, GroupBy(query.by), query.key)
        document = {
            "by": query.by,
            "key": query.key,
            "said": said_document(said),
            "group": None if found is None else group_document(found),
        }
        return respond(200, document, {"ETag": tag(_version(said))})

    async def _find(self, call: Call, by: GroupBy, key: str) -> Group | None:
        name = _NAMED.get(by) if key else None
        narrow = Filter(() if name is None else (Named(name, (key,)),))
        found = await self._office.groups(call).list(by, narrow, limit=_ALL_GROUPS)
        return next((one for one in found if one.counts.key == key), None)


def _version(said: Said) -> str:
    return sha256(msgspec.json.encode(said_document(said))).hexdigest()[:16]


def _milliseconds(at: datetime | None) -> int | None:
    if at is None:
        return None
    if at.tzinfo is None:
        error = FieldError("untilAt", "has no offset: write 2026-01-31T08:00:00Z")
        raise Refused(INVALID, "the group was not changed: see errors", [error])
    return round(at.timestamp() * 1000)


def _refuse_until(body: GroupChange) -> None:
    if body.until_count is not None or body.until_at is not None:
        error = FieldError("state", "only an ignored group has an untilCount or untilAt")
        raise Refused(INVALID, "the group was not changed: see errors", [error])
