"""One message: its life, its payload, and what can be done with it. Mail is shown as mail.

Revealing is the office's, with its row in the audit. What a mail says in HTML is shown in a frame of its own,
which may run nothing and load nothing; raw content is only ever a download.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from redrive.app import Redrive
from redrive.core.lifecycle import State
from redrive.office.access import Permission
from redrive.office.documents.letters import ShownMessage
from redrive.office.filters import Filter
from redrive.office.groups import GroupBy, group_term
from redrive.office.messages import NotDead
from redrive.office.operations import OperationKind, Order, Selection
from redrive.web.admin.route import OPERATE, READ, Parameters
from redrive.web.documents import check_payload
from redrive.web.pages.commands import curl_line, shell_line
from redrive.web.pages.difference import TextDifference, difference
from redrive.web.pages.door import redirect
from redrive.web.pages.mail_reader import mail_bytes, parse_mail
from redrive.web.pages.payload import beginning, pretty
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import PageRoute, Visit, asked_of
from redrive.web.problems import CHANGED, FORBIDDEN, NOT_FOUND, Refusal

FRAME_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)
REVEAL: Final = frozenset({Permission.REVEAL})


class AskOne(Parameters, frozen=True):
    """How one is shown."""

    reveal: Literal["true", "false"] = "false"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a message: `kind` names its text, `tone` its colour."""

    at: str
    kind: str
    tone: str = ""
    what: Any = None


class LetterPages:
    """The routes."""

    def __init__(self, app: Redrive, renderer: Renderer) -> None:
        self._app = app
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/letters/{id}", answer=self.show, allowed=READ),
            PageRoute(path="/messages/{id}", answer=self.message, allowed=READ),
            PageRoute(path="/messages/{id}", answer=self.act, allowed=OPERATE, method="POST"),
            PageRoute(path="/letters/{id}/raw", answer=self.raw, allowed=REVEAL),
            PageRoute(path="/letters/{id}/frame", answer=self.frame, allowed=REVEAL),
            PageRoute(path="/letters/{id}/edit", answer=self.edit, allowed=REVEAL),
            PageRoute(path="/letters/{id}/edit", answer=self.review, allowed=OPERATE, method="POST"),
        ]

    async def show(self, visit: Visit) -> Response:
        reveal = asked_of(visit, AskOne).reveal == "true"
        shown = await visit.acting.messages.show(visit.named("id"), reveal=reveal)
        if shown.found.state is not State.DEAD:
            return redirect(f"/messages/{visit.named('id')}")
        one = shown.document
        order = Order(OperationKind.REDRIVE, Selection(ids=(one.job_id,)))
        last = one.failures[-1] if one.failures else None
        term = None if last is None else group_term(GroupBy.FINGERPRINT, last.fingerprint)
        return await self._page(
            visit,
            one,
            reveal=reveal,
            alike=None if term is None else str(Filter((term,))),
            last=last,
            shell=shell_line(order),
            curl=curl_line(order, str(visit.request.base_url).rstrip("/")),
            edit=self._app.settings.office.edit and visit.may("operate") and visit.may("reveal"),
        )

    async def message(self, visit: Visit) -> Response:
        reveal = asked_of(visit, AskOne).reveal == "true"
        shown = await visit.acting.messages.show(visit.named("id"), reveal=reveal)
        if shown.found.state is State.DEAD:
            return redirect(f"/letters/{visit.named('id')}")
        return await self._page(visit, shown.document, reveal=reveal)

    async def act(self, visit: Visit) -> Response:
        """Cancel a waiting message, or have it run now."""
        messages = visit.acting.messages
        account = await messages.find(visit.named("id"))
        match visit.form.text("verb"):
            case "cancel":
                await messages.cancel(account)
            case "run_now":
                await messages.run_now(account)
            case _:
                raise visit.form.unknown_verb()
        return redirect(f"/messages/{account.message.id}")

    async def raw(self, visit: Visit) -> Response:
        one = await self._revealed(visit)
        mail = mail_bytes(one.queue, one.original_data)
        if mail is not None:
            return _download(mail, "eml", "message/rfc822")
        text = await asyncio.to_thread(pretty, one.original_data)
        return _download(text.encode(), "json", "application/json")

    async def frame(self, visit: Visit) -> Response:
        one = await self._revealed(visit)
        raw = mail_bytes(one.queue, one.original_data)
        mail = None if raw is None else await asyncio.to_thread(parse_mail, raw)
        if mail is None or mail.html is None:
            raise Refusal(NOT_FOUND, "there is no HTML in this message")
        headers = {"Content-Security-Policy": FRAME_POLICY, "X-Frame-Options": "SAMEORIGIN"}
        return Response(mail.html, headers=headers, media_type="text/html")

    async def edit(self, visit: Visit) -> Response:
        self._check_edit()
        one = await self._revealed(visit)
        text = await asyncio.to_thread(pretty, one.original_data)
        return self._renderer.page(
            visit, "edit.html", one=one, before=text, after=text, changes=None, problem=None, other=False
        )

    async def review(self, visit: Visit) -> Response:
        """First show what would change; then, once this text was seen so, do it."""
        self._check_edit()
        acting, form = visit.acting, visit.form
        account = await acting.messages.find(visit.named("id"))
        if account.state is not State.DEAD:
            raise NotDead(account)
        generation = form.number("generation")
        if account.progress.generation != generation:
            raise Refusal(CHANGED, "the letter came back and died again after it was read: nothing was done")
        after = form.whole("payload").replace("\r\n", "\n")
        payload, problem = await asyncio.to_thread(_payload, after)
        reviewed, starts = sha256(payload).hexdigest(), form.text("verb") == "start"
        if problem is None and starts and form.text("reviewed") == reviewed:
            order = Order(
                OperationKind.REDRIVE,
                Selection(ids=(account.message.id,), generation=generation),
                expired=True,
                edited=True,
            )
            started = await acting.operations.start(order, body=payload)
            return redirect(f"/operations/{started.id}")
        one = await self._revealed(visit)
        before, changes = await asyncio.to_thread(_compared, one.original_data, after)
        return self._renderer.page(
            visit,
            "edit.html",
            status=200 if problem is None else 422,
            one=one,
            before=before,
            after=after,
            changes=changes if problem is None else None,
            problem=problem,
            reviewed=reviewed,
            other=starts and problem is None,
        )

    def _check_edit(self) -> None:
        if not self._app.settings.office.edit:
            raise Refusal(FORBIDDEN, "editing letters is off: set office.edit to true to allow it")

    async def _revealed(self, visit: Visit) -> ShownMessage:
        return (await visit.acting.messages.show(visit.named("id"), reveal=True)).document

    async def _page(self, visit: Visit, one: ShownMessage, *, reveal: bool, **more: Any) -> Response:
        values = {"alike": None, "last": None, "shell": None, "curl": None, "edit": False, **more}
        raw = mail_bytes(one.queue, one.original_data) if reveal else None
        return self._renderer.page(
            visit,
            "letter.html",
            one=one,
            life=life(one),
            mail=None if raw is None else await asyncio.to_thread(parse_mail, raw),
            payload=await asyncio.to_thread(beginning, one.original_data),
            reveal=reveal,
            **values,
        )


def life(one: ShownMessage) -> list[Step]:
    """Everything that happened to a message, in order."""
    steps = [Step(one.enqueued_at, "accepted")]
    steps += [Step(failure.timestamp, "failed", "bad", failure) for failure in one.failures]
    steps += [Step(redrive.timestamp, "redriven", "accent", redrive) for redrive in one.redrives]
    if one.moved_to_dlq_at is not None:
        steps.append(Step(one.moved_to_dlq_at, "died", "bad", one.reason))
    if one.finished_at is not None and one.state == State.DONE:
        steps.append(Step(one.finished_at, "done", "good"))
    if one.removal is not None:
        steps.append(Step(one.removal.at, "removed", "", one.removal))
    order = ("accepted", "redriven", "failed", "died", "done", "removed")
    return sorted(steps, key=lambda step: (step.at, order.index(step.kind)))


def _compared(payload: Any, after: str) -> tuple[str, TextDifference]:
    """A payload as it is, and what a new text of it changes."""
    before = pretty(payload)
    return before, difference(before, after)


def _download(data: bytes, ending: str, kind: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="message.{ending}"'}
    return Response(data, headers=headers, media_type=kind)


def _payload(text: str) -> tuple[bytes, str | None]:
    """The new payload as it is stored, or what is wrong with it."""
    try:
        body = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).encode()
        check_payload(msgspec.Raw(body))
    except (ValueError, RecursionError) as error:
        return b"", str(error)
    except Refusal as refused:
        return b"", refused.detail
    return body, None
