"""SQL over the letters: one SELECT from the table `dlq`, asked of a copy; for admins, and audited (R13)."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.failure import clip
from redrive.office.audit import action
from redrive.office.sql import SAVED, Sql
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import Query, Reveal, asked
from redrive.web.admin.description import ADMINISTER, Route
from redrive.web.admin.office import Office, actor_of, check_reveal
from redrive.web.answers import respond
from redrive.web.documents import decode
from redrive.web.limits import read_json
from redrive.web.problem_types import BAD_QUERY, INVALID
from redrive.web.problems import FieldError, Refused

_BODY_BYTES = 128 * 1024
_AUDITED = 2_000


class AskSql(Query, frozen=True):
    """How payloads are shown."""

    reveal: Reveal = "false"


class SqlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One SELECT, or the name of one that is kept."""

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)] | None = None
    saved: Annotated[str, msgspec.Meta(max_length=50)] | None = None


_ASK = Route(
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


class SqlRoutes:
    """The route."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [_ASK.operation(self.ask)]

    async def ask(self, call: Call) -> Response:
        reveal = asked(call, AskSql).reveal == "true"
        text = _statement(decode(_BODY, await read_json(call.request, _BODY_BYTES)))
        store, actor = self._office.store, actor_of(call)
        if reveal:
            check_reveal(call)
            async with action(store, actor, "reveal", {"sql": clip(text, _AUDITED)}):
                pass
        sql = Sql(store, self._office.index, actor, call.credential.tenant)
        answer = await sql.run(text, mask=None if reveal else self._masked)
        document = {
            "columns": answer.columns,
            "rows": answer.rows,
            "complete": answer.complete,
            "letters": {"copied": answer.copied.letters, "of": answer.copied.of},
        }
        return respond(200, document)

    def _masked(self, text: str) -> str:
        return json.dumps(self._office.mask.payload(json.loads(text)))


def _statement(body: SqlBody) -> str:
    if (body.sql is None) == (body.saved is None):
        raise _refused("sql", "write one SELECT, or name a saved one: one of the two")
    if body.sql is not None:
        return body.sql
    if body.saved is None or body.saved not in SAVED:
        raise _refused("saved", f"there is: {', '.join(SAVED)}")
    return SAVED[body.saved]


def _refused(field: str, problem: str) -> Refused:
    return Refused(INVALID, "nothing was asked: see errors", [FieldError(field, problem)])
