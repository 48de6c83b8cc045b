"""For admins: the audit and SQL over the letters. And alerts, for everyone."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import msgspec
from starlette.responses import Response

from redrive.office.audit import Query
from redrive.office.documents.alerts import ChannelTest
from redrive.office.documents.findings import row_document, sql_document, verification_document
from redrive.office.sql import SAVED, SqlError
from redrive.web.admin.audit import Text
from redrive.web.admin.route import ADMINISTER, OPERATE, READ, Flag, Parameters
from redrive.web.admin.sql import SQL_LENGTH
from redrive.web.pages.door import redirect
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import Form, PageRoute, Visit, asked_of

_ROWS: Final = 50


class AskAudit(Parameters, frozen=True):
    """Which rows."""

    actor: Text = ""
    verb: Text = ""
    action: Text = ""
    cursor: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    verify: Flag = "false"


class AskSaved(Parameters, frozen=True):
    """A saved question."""

    saved: Annotated[str, msgspec.Meta(max_length=50)] = ""


class AdminPages:
    """The routes."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/audit", answer=self.audit, allowed=ADMINISTER, unbound=True),
            PageRoute(path="/sql", answer=self.sql, allowed=ADMINISTER, unbound=True),
            PageRoute(path="/sql", answer=self.ask, allowed=ADMINISTER, method="POST", unbound=True),
            PageRoute(path="/alerts", answer=self.alerts, allowed=READ),
            PageRoute(path="/alerts", answer=self.silence, allowed=OPERATE, method="POST", unbound=True),
        ]

    async def audit(self, visit: Visit) -> Response:
        asked, audit = asked_of(visit, AskAudit), visit.acting.audit
        wanted = Query(asked.actor or None, asked.verb or None, asked.action or None)
        rows = await audit.latest(wanted, _ROWS, before=asked.cursor)
        verified = verification_document(await audit.verify()) if asked.verify == "true" else None
        ends = len(rows) < _ROWS or rows[-1].position == 1
        return self._renderer.page(
            visit,
            "audit.html",
            asked=asked,
            rows=[row_document(row) for row in rows],
            verified=verified,
            cursor=None if ends else rows[-1].position,
        )

    async def sql(self, visit: Visit) -> Response:
        saved = asked_of(visit, AskSaved).saved
        return self._renderer.page(
            visit, "sql.html", text=SAVED.get(saved, ""), saved=list(SAVED), answer=None, problem=None
        )

    async def ask(self, visit: Visit) -> Response:
        text, answer, problem = visit.form.text("sql", most=SQL_LENGTH), None, None
        try:
            answer = sql_document(await visit.acting.sql.ask(text))
        except SqlError as error:
            problem = str(error)
        return self._renderer.page(
            visit,
            "sql.html",
            status=200 if problem is None else 400,
            text=text,
            saved=list(SAVED),
            answer=answer,
            problem=problem,
        )

    async def alerts(self, visit: Visit) -> Response:
        return await self._alerts(visit)

    async def silence(self, visit: Visit) -> Response:
        """Silence an alert, end a silence, or test a channel and say what came of it."""
        form, alerts = visit.form, visit.acting.alerts
        match form.text("verb"):
            case "silence":
                rule, subject = form.text("alert") or None, form.text("subject") or None
                await alerts.silence(rule, subject, _hours(form), form.text("why"))
            case "unsilence":
                await alerts.unsilence(form.text("silence"))
            case "test":
                return await self._alerts(visit, await alerts.test(form.text("channel")))
            case _:
                raise form.unknown_verb()
        return redirect("/alerts")

    async def _alerts(self, visit: Visit, tested: ChannelTest | None = None) -> Response:
        found = await visit.acting.alerts.list(every=True)
        return self._renderer.page(visit, "alerts.html", found=found, tested=tested)


def _hours(form: Form) -> timedelta:
    """As many as were asked for; whether that is too long is not said here."""
    try:
        return timedelta(hours=form.number("hours") or 1)
    except OverflowError:
        return timedelta.max
