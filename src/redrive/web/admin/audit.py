"""The audit: who did what, the newest first, and whether a row was changed or is missing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.office.audit import Query
from redrive.office.chain import Head
from redrive.office.documents.findings import AuditPage, row_document, verification_document
from redrive.web.access import Call, Route
from redrive.web.admin.route import ADMINISTER, AdminRoom, AdminRoute, Limit, Parameters, asked
from redrive.web.documents import respond
from redrive.web.problems import INVALID, FieldError, Refusal

Text = Annotated[str, msgspec.Meta(max_length=200, description="Empty: any.")]


class ReadAudit(Parameters, frozen=True):
    """Which rows: of one actor, verb or action (an operation's id is one), from an instant on."""

    actor: Text = ""
    verb: Text = ""
    action: Text = ""
    since: Annotated[str, msgspec.Meta(max_length=40, description="An instant with Z or an offset.")] = ""
    limit: Limit = 50
    cursor: Annotated[int, msgspec.Meta(ge=1, le=2**53, description="That of the page before.")] | None = None


class VerifyAudit(Parameters, frozen=True):
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


_LIST = AdminRoute(
    method="GET",
    path="/audit",
    name="readAudit",
    summary="Rows of the audit, the newest first",
    allowed=ADMINISTER,
    query=ReadAudit,
    document="AuditPage",
    unbound=True,
)
_VERIFY = AdminRoute(
    method="GET",
    path="/audit/verify",
    name="verifyAudit",
    summary="Whether a row of the audit was changed or is missing",
    allowed=ADMINISTER,
    query=VerifyAudit,
    document="VerificationDocument",
    unbound=True,
)


class AuditRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [_LIST.to(self.every), _VERIFY.to(self.verify)]

    async def every(self, call: Call) -> Response:
        query = asked(call, ReadAudit)
        wanted = Query(query.actor or None, query.verb or None, query.action or None, _instant(query.since))
        rows = await self.acting(call).audit.latest(wanted, query.limit, before=query.cursor)
        ends = len(rows) < query.limit or rows[-1].position == 1
        cursor = None if ends else rows[-1].position
        return respond(200, AuditPage(rows=[row_document(row) for row in rows], cursor=cursor))

    async def verify(self, call: Call) -> Response:
        query = asked(call, VerifyAudit)
        known = None if query.head is None else Head.parse(query.head)
        return respond(200, verification_document(await self.acting(call).audit.verify(known)))


def _instant(text: str) -> int | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        error = FieldError("since", "is not a valid time: write 2026-01-31T08:00:00Z")
        raise Refusal(INVALID, "the address cannot be used: see errors", [error])
    return round(at.timestamp() * 1000)
