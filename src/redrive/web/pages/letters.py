"""Dead letters: by cause, one by one, by tenant and age; a group and what is said of it; saved views.

A filter that cannot be read is shown with its place, beside the box it stands in.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Final, Literal

import msgspec
from starlette.responses import Response

from redrive.office.documents.groups import shown_group
from redrive.office.filters import Filter, FilterError
from redrive.office.filters.masked import MaskedValue
from redrive.office.groups import GroupBy, group_term
from redrive.office.index import CursorError, LetterOrder, TimeLimit
from redrive.office.office import ActingOffice
from redrive.web.admin.groups import By, Key
from redrive.web.admin.route import OPERATE, READ, Cursor, FilterText, Parameters
from redrive.web.documents import respond
from redrive.web.pages.door import redirect
from redrive.web.pages.render import Renderer, address
from redrive.web.pages.visit import PageRoute, Visit, asked_of
from redrive.web.problems import INVALID, FieldError, Refusal

_PAGE: Final = 50
_GROUPS: Final = 100
_TENANTS: Final = 100
_HOUR_MS: Final = 3_600_000

View = Literal["groups", "letters", "ages"]


class AskLetters(Parameters, frozen=True):
    """Which letters, seen how."""

    filter: FilterText = ""
    view: View = "groups"
    by: By = "fingerprint"
    order: Literal["oldest", "newest"] = "newest"
    cursor: Cursor | None = None


class AskGroup(Parameters, frozen=True):
    """The group that is meant."""

    by: By = "fingerprint"
    key: Key = ""
    cursor: Cursor | None = None


class AskSuggestions(Parameters, frozen=True):
    """What was typed so far."""

    text: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


class LettersPages:
    """The routes."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/letters", answer=self.find, allowed=READ),
            PageRoute(path="/letters/suggest", answer=self.suggest, allowed=READ),
            PageRoute(path="/letters/views", answer=self.views, allowed=OPERATE, method="POST"),
            PageRoute(path="/group", answer=self.group, allowed=READ),
            PageRoute(path="/group", answer=self.say, allowed=OPERATE, method="POST"),
        ]

    async def find(self, visit: Visit) -> Response:
        asked, acting = asked_of(visit, AskLetters), visit.acting
        problem, found = None, None
        try:
            found = await _found(acting, asked)
        except (FilterError, MaskedValue, TimeLimit, CursorError) as error:
            problem = str(error)
        return self._renderer.page(
            visit,
            "letters.html",
            status=200 if problem is None else 400,
            asked=asked,
            found=found,
            problem=problem,
            views=await acting.saved_views.list(),
            suggestions=await acting.suggestions.find(""),
            kinds=[one.value for one in GroupBy if one is not GroupBy.AGE],
        )

    async def suggest(self, visit: Visit) -> Response:
        return respond(200, await visit.acting.suggestions.find(asked_of(visit, AskSuggestions).text))

    async def views(self, visit: Visit) -> Response:
        """Keep a view, or forget one."""
        form, views = visit.form, visit.acting.saved_views
        if form.text("remove"):
            await views.remove(form.text("remove"))
        else:
            await views.save(form.text("name"), form.text("filter"))
        return redirect(address("/letters", filter=form.text("filter"), view=form.text("view") or None))

    async def group(self, visit: Visit) -> Response:
        asked, acting = asked_of(visit, AskGroup), visit.acting
        by = GroupBy(asked.by)
        group, said = await acting.groups.show(by, asked.key)
        term = group_term(by, asked.key)
        text = "" if term is None else str(Filter((term,)))
        letters = (
            await acting.letters.find(text, order=LetterOrder.NEWEST, after=asked.cursor, limit=_PAGE)
        ).document
        return self._renderer.page(
            visit,
            "group.html",
            shown=shown_group(by, asked.key, group, said),
            text=text,
            found=letters,
            asked=asked,
        )

    async def say(self, visit: Visit) -> Response:
        form = visit.form
        by, key, groups = form.text("by"), form.text("key"), visit.acting.groups
        if by not in list(GroupBy):
            raise Refusal(INVALID, "there is no such group", [FieldError("by", "is not a kind of group")])
        await _say(groups, GroupBy(by), key, visit)
        return redirect(address("/group", by=by, key=key))


def _say(groups: Any, by: GroupBy, key: str, visit: Visit) -> Awaitable[Any]:
    form = visit.form
    match form.text("verb"):
        case "note":
            said: Awaitable[Any] = groups.note(by, key, form.whole("text"))
        case "resolve":
            said = groups.resolve(by, key)
        case "reopen":
            said = groups.reopen(by, key)
        case "ignore":
            hours = form.number("hours")
            until_at = None if hours is None else visit.now + hours * _HOUR_MS
            said = groups.ignore(by, key, until_count=form.number("count"), until_at=until_at)
        case _:
            raise form.unknown_verb()
    return said


async def _found(acting: ActingOffice, asked: AskLetters) -> Any:
    match asked.view:
        case "groups":
            return (await acting.groups.find(GroupBy(asked.by), asked.filter, limit=_GROUPS)).document
        case "letters":
            found = await acting.letters.find(
                asked.filter, order=LetterOrder(asked.order), after=asked.cursor, limit=_PAGE
            )
            return found.document
        case "ages":
            return (await acting.letters.shape(asked.filter, limit=_TENANTS)).document
