"""Who did what: an intent row before each action and an outcome row after it, under one action id.

The rows go to the store's journal, are only ever added, and are chained (`office.chain`). An action that ends
in an error has an outcome row that says so; one whose process died has an intent row and no outcome. An
operation is one action: its id is the action's, and whichever process ends it writes the outcome, once.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from redrive.core.ports import PAGE
from redrive.core.records import JournalRow
from redrive.office.chain import AUDIT, Head, Verification, add, add_once, head_of, journal, verify
from redrive.office.ports import Books

if TYPE_CHECKING:
    from redrive.office.view import View

__all__ = [
    "AUDIT",
    "Actor",
    "Audit",
    "AuditedAction",
    "Query",
    "action",
    "add_intent",
    "add_later",
    "instant_of",
    "interrupted",
    "latest",
    "read",
    "this_account",
]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and from where: `ana@host`, `cli`."""

    name: str
    origin: str


def this_account(origin: str) -> Actor:
    """The account that runs this process, from the system and not from a variable that anyone may set."""
    try:
        account = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        account = f"uid{os.getuid()}"
    return Actor(f"{account}@{socket.gethostname()}", origin)


@dataclass(slots=True)
class AuditedAction:
    """An action under way; what is put into `result` stands in its outcome row."""

    id: str
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows: of one actor, verb or action, from an instant on; what is None does not matter."""

    actor: str | None = None
    verb: str | None = None
    action: str | None = None
    since_at: int | None = None

    def wants(self, row: JournalRow) -> bool:
        document = row.document
        named = {"actor": self.actor, "verb": self.verb, "action": self.action}
        return all(value is None or document.get(name) == value for name, value in named.items()) and (
            self.since_at is None or instant_of(row) >= self.since_at
        )


@asynccontextmanager
async def action(
    store: Books, actor: Actor, verb: str, subject: Mapping[str, Any]
) -> AsyncIterator[AuditedAction]:
    """Write the intent, let the caller act, write the outcome."""
    current = AuditedAction(uuid4().hex)
    await add_intent(store, current.id, actor, verb, subject)
    head = _lead(current.id, actor, verb) | {"row": "outcome"}
    try:
        yield current
    except BaseException as error:
        await add(store, head | {"ok": False, "error": type(error).__name__, "result": current.result})
        raise
    await add(store, head | {"ok": True, "result": current.result})


async def add_intent(
    store: Books, action_id: str, actor: Actor, verb: str, subject: Mapping[str, Any]
) -> Head:
    """The row before an action."""
    return await add(store, _lead(action_id, actor, verb) | {"row": "intent", "subject": dict(subject)})


async def add_later(
    store: Books, after: int, action_id: str, actor: Actor, verb: str, more: Mapping[str, Any]
) -> Head:
    """A later row of an action that several processes may carry on: written once after a position."""
    return await add_once(store, after, _lead(action_id, actor, verb) | dict(more))


async def read(store: Books, query: Query, *, after: int = 0) -> AsyncIterator[JournalRow]:
    """The rows that a query wants, in order."""
    async for row in journal(store, after=after):
        if query.wants(row):
            yield row


async def latest(store: Books, query: Query, limit: int, *, before: int | None = None) -> list[JournalRow]:
    """The last rows that a query wants, the newest first; `before` is a position to go on from."""
    found: list[JournalRow] = []
    end = (await head_of(store)).position
    if before is not None:
        end = min(end, before - 1)
    while end > 0 and len(found) < limit:
        begin = max(0, end - PAGE)
        page = await store.read_journal(AUDIT, after=begin, limit=end - begin)
        found += [row for row in reversed(page) if query.wants(row)]
        end = begin
    return found[:limit]


async def interrupted(store: Books) -> list[JournalRow]:
    """The intent rows without an outcome: of actions that are under way, or whose process died."""
    waiting: dict[str, JournalRow] = {}
    async for row in journal(store):
        action_id = str(row.document.get("action"))
        if row.document.get("row") == "intent":
            waiting[action_id] = row
        elif row.document.get("row") == "outcome":
            waiting.pop(action_id, None)
    return list(waiting.values())


def instant_of(row: JournalRow) -> int:
    """When a row was written, as its hash covers it; the store's word where there is no hash."""
    return int(row.document.get("at", row.at))


def _lead(action_id: str, actor: Actor, verb: str) -> dict[str, Any]:
    return {"action": action_id, "actor": actor.name, "origin": actor.origin, "verb": verb}


class Audit:
    """The audit for who may see all of it: for nobody who is bound to a tenant."""

    def __init__(self, store: Books, view: View) -> None:
        self._store = store
        self._view = view

    async def latest(self, query: Query, limit: int, *, before: int | None = None) -> list[JournalRow]:
        """The last rows that a query wants, the newest first; `before` is a position to go on from."""
        self._view.demand_all()
        return await latest(self._store, query, limit, before=before)

    async def interrupted(self, query: Query, limit: int) -> list[JournalRow]:
        """The last intent rows without an outcome: of actions under way, or whose process died."""
        self._view.demand_all()
        return [row for row in await interrupted(self._store) if query.wants(row)][-limit:]

    async def verify(self, known: Head | None = None) -> Verification:
        """Read the whole chain; `known` is a head that was kept elsewhere and must still be in it."""
        self._view.demand_all()
        return await verify(self._store, known)
