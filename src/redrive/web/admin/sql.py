"""SQL over the letters: one SELECT from the table `dlq`, asked of a copy; for admins, and audited."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.office.documents.findings import sql_document
from redrive.office.sql import SAVED
from redrive.web.access import Call, Route
from redrive.web.admin.route import ADMINISTER, AdminRoom, AdminRoute, Parameters, Reveal, asked
from redrive.web.documents import decode, respond
from redrive.web.limits import read_json
from redrive.web.problems import BAD_QUERY, INVALID, FieldError, Refusal

_BODY_BYTES = 128 * 1024


class AskSql(Parameters, frozen=True):
    """How payloads are shown."""

    reveal: Reveal = "false"


SQL_LENGTH = 20_000


class SqlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One SELECT, or the name of one that is kept."""

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=SQL_LENGTH)] | None = None
    saved: Annotated[str, msgspec.Meta(max_length=50)] | None = None


_ASK = AdminRoute(
    method="POST",
    path="/sql",
    name="askSql",
    summary="One SELECT over a copy of the letters",
    allowed=ADMINISTER,
    query=AskSql,
    body="SqlBody",
    document="SqlDocument",
    problems=(BAD_QUERY,),
    unbound=True,
)
_BODY = msgspec.json.Decoder(SqlBody)


class SqlRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [_ASK.to(self.ask)]

    async def ask(self, call: Call) -> Response:
        reveal = asked(call, AskSql).reveal == "true"
        text = _statement(decode(_BODY, await read_json(call.request, _BODY_BYTES)))
        return respond(200, sql_document(await self.acting(call).sql.ask(text, reveal=reveal)))


def _statement(body: SqlBody) -> str:
    if (body.sql is None) == (body.saved is None):
        raise _refused("sql", "write one SELECT, or name a saved one: one of the two")
    if body.sql is not None:
        return body.sql
    if body.saved is None or body.saved not in SAVED:
        raise _refused("saved", f"there is: {', '.join(SAVED)}")
    return SAVED[body.saved]


def _refused(field: str, problem: str) -> Refusal:
    return Refusal(INVALID, "nothing was asked: see errors", [FieldError(field, problem)])
