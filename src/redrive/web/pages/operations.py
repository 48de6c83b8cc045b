"""Re-driving and discarding: a preview that changes nothing, the start, and a page that shows how far it is.

The preview's form carries the id of the operation it would start, so that sending it twice starts one; and
when it counted how many letters, so that it takes these and none that died since.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Final, Literal

import msgspec
from starlette.responses import Response

from redrive.app import Redrive
from redrive.core.errors import ConfigurationError
from redrive.office.documents.operations import PartDocument, preview_document
from redrive.office.operations import (
    NoOperation,
    Operation,
    OperationError,
    OperationKind,
    Operations,
    Order,
    Selection,
)
from redrive.office.operations.listing import new_id
from redrive.office.operations.operation import NO_RATE
from redrive.web.admin.route import OPERATE, READ, Cursor, FilterText, Parameters
from redrive.web.pages.commands import curl_line, shell_line
from redrive.web.pages.door import redirect
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import Form, PageRoute, Visit, asked_of
from redrive.web.problems import INVALID, WRONG_STATE, FieldError, Refusal

_PAGE: Final = 50
_KINDS: Final = ("redrive", "discard", "undiscard")
_ID: Final = re.compile(r"[0-9a-f]{20}", re.ASCII)
_VERBS: Final[Mapping[str, Callable[[Operations, str], Awaitable[Operation]]]] = {
    "pause": Operations.pause,
    "resume": Operations.resume,
    "cancel": Operations.cancel,
}


class AskPreview(Parameters, frozen=True):
    """What is to be done with which letters; the ids are read apart, since there are several.

    `ticked`: only with those that were ticked, so none means none.
    """

    kind: Literal["redrive", "discard", "undiscard"] = "redrive"
    filter: FilterText = ""
    canary: Annotated[int, msgspec.Meta(ge=0, le=500)] | None = None
    rate: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    ticked: str = ""


class AskOperations(Parameters, frozen=True):
    """From where."""

    cursor: Cursor | None = None


class OperationPages:
    """The routes."""

    def __init__(self, app: Redrive, renderer: Renderer) -> None:
        self._app = app
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/preview", answer=self.preview, allowed=OPERATE),
            PageRoute(path="/operations", answer=self.start, allowed=OPERATE, method="POST"),
            PageRoute(path="/operations", answer=self.every, allowed=READ),
            PageRoute(path="/operations/{id}", answer=self.show, allowed=READ),
            PageRoute(path="/operations/{id}", answer=self.change, allowed=OPERATE, method="POST"),
        ]

    async def preview(self, visit: Visit) -> Response:
        asked, ids = asked_of(visit, AskPreview), tuple(visit.query.getlist("ids"))
        if asked.ticked and not ids:
            raise Refusal(INVALID, "nothing is ticked: tick letters first, or take all that match")
        order = _order(asked.kind, ids, asked.filter, asked.canary, asked.rate)
        return await self._preview(visit, order)

    async def _preview(self, visit: Visit, order: Order, problem: str | None = None) -> Response:
        """What an order would do; with what is wrong with the form that asked for it, beside its fields."""
        found = await visit.acting.operations.preview(order)
        settled, form = found.order, visit.form
        shown = preview_document(found)
        grown = found.count > (form.number("counted") or 0)
        return self._renderer.page(
            visit,
            "preview.html",
            status=200 if problem is None else INVALID.status,
            kind=order.kind.value,
            text=order.selection.filter,
            ids=order.selection.ids,
            found=shown,
            parts=_parts(shown.groups),
            as_of=found.as_of,
            operation=form.text("operation") or new_id(visit.now),
            canary=_typed(form, "canary", grown=grown) or settled.canary,
            rate=_typed(form, "rate", grown=grown) or settled.rate or NO_RATE,
            problem=problem,
            shell=shell_line(order),
            curl=curl_line(order, str(visit.request.base_url).rstrip("/")),
        )

    async def start(self, visit: Visit) -> Response:
        form, operations = visit.form, visit.acting.operations
        kind, operation_id = form.text("kind"), form.text("operation")
        as_of, counted = form.number("as_of", digits=15), form.number("counted")
        if kind not in _KINDS or _ID.fullmatch(operation_id) is None or as_of is None or counted is None:
            raise Refusal(INVALID, "nothing was started: open the preview again")
        ids, text = form.texts("ids"), form.text("filter")
        if not ids and not text and not form.flag("all"):
            error = FieldError("filter", "say which letters: by a filter, by ticking them, or all")
            raise Refusal(INVALID, "nothing was started: see errors", [error])
        try:
            order = _order(kind, ids, text, form.number("canary"), form.text("rate") or None)
        except ConfigurationError as error:
            return await self._preview(visit, _order(kind, ids, text, None, None), str(error))
        started = await operations.start(order.as_previewed(as_of, counted), operation_id=operation_id)
        return redirect(f"/operations/{started.id}")

    async def every(self, visit: Visit) -> Response:
        asked = asked_of(visit, AskOperations)
        found = await visit.acting.operations.list(limit=_PAGE, before=asked.cursor)
        return self._renderer.page(visit, "operations.html", found=found.document, asked=asked)

    async def show(self, visit: Visit) -> Response:
        operations = visit.acting.operations
        one = operations.document(await operations.show(visit.named("id")))
        return self._renderer.page(visit, "operation.html", one=one)

    async def change(self, visit: Visit) -> Response:
        verb = _VERBS.get(visit.form.text("verb"))
        if verb is None:
            raise visit.form.unknown_verb()
        try:
            await verb(visit.acting.operations, visit.named("id"))
        except NoOperation:
            raise
        except OperationError as error:
            raise Refusal(WRONG_STATE, str(error)) from error
        return redirect(f"/operations/{visit.named('id')}")


def _typed(form: Form, name: str, *, grown: bool) -> str:
    """What a field said, to be corrected; that there is no canary or rate was said of fewer letters."""
    text = form.text(name)
    return "" if grown and text in ("0", NO_RATE) else text


def _parts(groups: Iterable[PartDocument]) -> list[tuple[str, str, int]]:
    """How many letters of each tenant and queue, whatever they died of; the most first."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in groups:
        counts[one.company_id, one.queue] += one.count
    return [(tenant, queue, count) for (tenant, queue), count in counts.most_common()]


def _order(kind: str, ids: tuple[str, ...], text: str, canary: int | None, rate: str | None) -> Order:
    return Order(
        OperationKind(kind),
        Selection(ids=ids, filter="" if ids else text),
        rate=rate,
        canary=canary if kind == OperationKind.REDRIVE else None,
        expired=kind != OperationKind.REDRIVE,
    )
