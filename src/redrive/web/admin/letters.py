"""Letters: found by filter, page by page; one letter with its whole history; one message in any state."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response

from redrive.core.letters import Account, as_letter
from redrive.core.lifecycle import State
from redrive.core.redaction import redact
from redrive.office.filters.guessing import unsearched
from redrive.office.index import FoundPage, Order
from redrive.office.why import why
from redrive.office.wire import account_document, letter_document
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import Cursor, FilterText, Limit, Query, Reveal, asked
from redrive.web.admin.description import READ, Route
from redrive.web.admin.office import Office, check_reveal
from redrive.web.admin.tags import tag
from redrive.web.answers import respond
from redrive.web.problem_types import BAD_QUERY, NOT_FOUND
from redrive.web.problems import Refused


class FindLetters(Query, frozen=True):
    """Which letters, from where, how many."""

    filter: FilterText = ""
    order: Annotated[Literal["oldest", "newest"], msgspec.Meta(description="Which come first.")] = "oldest"
    limit: Limit = 50
    cursor: Cursor | None = None
    reveal: Reveal = "false"


class ShowOne(Query, frozen=True):
    """How one is shown."""

    reveal: Reveal = "false"


_LIST = Route(
    method="GET",
    path="/letters",
    name="findLetters",
    summary="Dead letters by filter, page by page",
    allowed=READ,
    query=FindLetters,
    document="LetterPage",
    problems=(BAD_QUERY,),
)
_SHOW = Route(
    method="GET",
    path="/letters/{id}",
    name="showLetter",
    summary="One dead letter with everything that led there",
    allowed=READ,
    query=ShowOne,
    document="ShownLetter",
    tagged=True,
)
_MESSAGE = Route(
    method="GET",
    path="/messages/{id}",
    name="showMessage",
    summary="One message in any state, and why it waits, or what became of it",
    allowed=READ,
    query=ShowOne,
    document="ShownMessage",
)


class Letters:
    """The routes."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [_LIST.operation(self.find), _SHOW.operation(self.show), _MESSAGE.operation(self.message)]

    async def find(self, call: Call) -> Response:
        query = asked(call, FindLetters)
        reveal = query.reveal == "true"
        if reveal:
            check_reveal(call)
        wanted = self._office.filter(call, query.filter)
        page = await self._office.index.find(
            wanted,
            scope=call.credential.tenant,
            after=query.cursor,
            limit=query.limit,
            order=Order(query.order),
        )
        letters = await self._office.shown(call, page.letters, reveal=reveal)
        elsewhere = page.cursor is not None or query.cursor is not None
        document = {
            "letters": letters,
            **place(page),
            "behind": self._office.index.freshness.behind,
            "notice": unsearched(wanted),
            "empty": None if elsewhere else await self._office.empty(call, wanted, len(page.letters)),
        }
        return respond(200, document)

    async def show(self, call: Call) -> Response:
        query = asked(call, ShowOne)
        account = await account_of(self._office, call)
        if account.state is not State.DEAD:
            detail = f"this message is {account.state}, not a dead letter: GET /admin/dlq/messages/ shows it"
            raise Refused(NOT_FOUND, detail)
        document = await self._shown(call, account, letter_document(as_letter(account)), query)
        return respond(200, document, {"ETag": tag(account.progress.generation)})

    async def message(self, call: Call) -> Response:
        query = asked(call, ShowOne)
        account = await account_of(self._office, call)
        return respond(200, await self._shown(call, account, account_document(account), query))

    async def _shown(
        self, call: Call, account: Account, document: dict[str, Any], query: ShowOne
    ) -> dict[str, Any]:
        reveal = query.reveal == "true"
        if reveal:
            await self._office.may_reveal(call, [account.message.id])
        text = await why(self._office.store, account)
        fit = await asyncio.to_thread(self._office.fit, document, reveal=reveal)
        return fit | {"why": text if reveal else redact(text)}


async def account_of(office: Office, call: Call) -> Account:
    """The message that the address names; Refused when there is none that the caller may see."""
    account = await office.store.get(call.request.path_params["id"])
    if account is None or not call.credential.sees(account.message.tenant):
        raise Refused(NOT_FOUND, "there is no such message: it may have finished and been cleaned up")
    return account


def place(page: FoundPage) -> dict[str, Any]:
    """Where a search goes on, and how far it has looked."""
    looked = page.looked
    return {
        "cursor": page.cursor,
        "looked": None if looked is None else {"letters": looked.letters, "of": looked.of},
    }
