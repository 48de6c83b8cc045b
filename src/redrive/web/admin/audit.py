"""The audit: who did what, the newest first, and whether a row was changed or is missing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.office.audit import Query as Wanted
from redrive.office.audit import latest
from redrive.office.chain import Head, verify
from redrive.office.operations.documents import row_document
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import Limit, Query, asked
from redrive.web.admin.description import ADMINISTER, Route
from redrive.web.admin.office import Office
from redrive.web.answers import respond
from redrive.web.problem_types import INVALID
from redrive.web.problems import FieldError, Refused

Text = Annotated[str, msgspec.Meta(max_length=200, description="Empty: any.")]


class ReadAudit(Query, frozen=True):
    """Which rows: of one actor, verb or action (an operation's id is one), from an instant on."""

    actor: Text = ""
    verb: Text = ""
    action: Text = ""
    since: Annotated[str, msgspec.Meta(max_length=40, description="An instant with Z or an offset.")] = ""
    limit: Limit = 50
    cursor: Annotated[int, msgspec.Meta(ge=1, le=2**53, description="That of the page before.")] | None = None


class VerifyAudit(Query, frozen=True):
    """A head that was kept elsewhere and must still be in the chain."""

    head: (
        Annotated[
            str,
            msgspec.Meta(
                pattern="^[0-9]{1,15}:[0-9a-f]{64}$", description="`POSITION:HASH` of an earlier answer."
            ),
        ]
        | None
    ) = None


_LIST = Route(
    method="GET",
    path="/audit",
    name="readAudit",
    summary="Rows of the audit, the newest first",
    allowed=ADMINISTER,
    query=ReadAudit,
    document="AuditPage",
    unbound=True,
)
_VERIFY = Route(
    method="GET",
    path="/audit/verify",
    name="verifyAudit",
    summary="Whether a row of the audit was changed or is missing",
    allowed=ADMINISTER,
    query=VerifyAudit,
    document="VerificationDocument",
    unbound=True,
)


class Audit:
    """The routes."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [_LIST.operation(self.every), _VERIFY.operation(self.verify)]

    async def every(self, call: Call) -> Response:
        query = asked(call, ReadAudit)
        wanted = Wanted(query.actor or None, query.verb or None, query.action or None, _instant(query.since))
        rows = await latest(self._office.store, wanted, query.limit, before=query.cursor)
        ends = len(rows) < query.limit or rows[-1].position == 1
        cursor = None if ends else rows[-1].position
        return respond(200, {"rows": [row_document(row) for row in rows], "cursor": cursor})

    async def verify(self, call: Call) -> Response:
        query = asked(call, VerifyAudit)
        known = None
        if query.head is not None:
            position, _, digest = query.head.partition(":")
            known = Head(int(position), digest)
        found = await verify(self._office.store, known)
        document = {
            "whole": found.whole,
            "rows": found.rows,
            "unchained": found.unchained,
            "faults": [{"row": fault.position, "what": fault.what} for fault in found.faults],
            "head": f"{found.head.position}:{found.head.hash}",
        }
        return respond(200, document)


def _instant(text: str) -> int | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        error = FieldError("since", "is no instant: write 2026-01-31T08:00:00Z")
        raise Refused(INVALID, "the address cannot be used: see errors", [error])
    return round(at.timestamp() * 1000)
