"""Groups of dead letters: five causes instead of four thousand letters, with what people said about each.

Counts come from the index, what was said from the store's records (kind `group`), and every change is in the
audit. Whoever is bound to a tenant sees and says things about that tenant's part of a group alone.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from redrive.core.errors import RedriveError, VersionConflict
from redrive.core.ports import PAGE
from redrive.office.audit import Actor, action
from redrive.office.documents.groups import GroupList, group_document
from redrive.office.documents.letters import empty_document
from redrive.office.filters import Filter
from redrive.office.filters.masked import unsearched
from redrive.office.filters.terms import Named, NameField, Reasoned
from redrive.office.groups.counts import BUCKETS, SPAN_S, Counts, GroupBy, Sample, TrendWindow, count_groups
from redrive.office.groups.said import (
    KEY_LENGTH,
    MOST_COUNT,
    NOTE_LENGTH,
    GroupState,
    Note,
    Said,
    Standing,
    decode,
    derive,
    encode,
)
from redrive.office.index.read import TIME_LIMIT_S
from redrive.office.letters import Letters
from redrive.office.queues import queue_term
from redrive.office.view import OfficeAnswer

if TYPE_CHECKING:
    from redrive.office.office import Office

__all__ = [
    "Counts",
    "Group",
    "GroupBy",
    "GroupChanged",
    "GroupError",
    "GroupState",
    "Groups",
    "Note",
    "Said",
    "Sample",
    "Standing",
    "group_term",
]

GROUP_RECORDS = "group"
_ALL = 10_000
_TREND_PARTS = 500
_LAST_MS = 253_370_764_799_999  # the end of 9998: what is later may be in a year without a name elsewhere


class GroupError(RedriveError):
    """What was asked about a group cannot be."""


class GroupChanged(GroupError):
    """Someone said something else of a group meanwhile."""

    def __init__(self) -> None:
        super().__init__("someone said something of this group meanwhile: read it again, then repeat")


@dataclass(frozen=True, slots=True)
class Group:
    """A group and how it stands."""

    counts: Counts
    standing: Standing


class Groups:
    """The verbs on groups, for one actor, within the tenant that the actor is bound to.

    `expected` is what had been said when the actor looked: GroupChanged when it is another by now.
    """

    def __init__(self, office: Office, actor: Actor, letters: Letters, scope: str | None) -> None:
        self._store = office.store
        self._index = office.index
        self._actor = actor
        self._letters = letters
        self._scope = scope

    async def find(
        self,
        by: GroupBy,
        text: str = "",
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
    ) -> OfficeAnswer[builtins.list[Group], GroupList]:
        """The largest groups of the letters that a text means, in one queue where one is named."""
        asked = await self._letters.filter(text, queue, tenant)
        found = await self.list(by, asked, limit=limit)
        document = GroupList(
            groups=[group_document(one) for one in found],
            behind=self._index.freshness.behind,
            notice=unsearched(asked),
            empty=empty_document(await self._letters.explain(asked, len(found))),
        )
        return OfficeAnswer(found, document)

    async def list(
        self,
        by: GroupBy,
        asked: Filter | None = None,
        *,
        limit: int = 100,
        span_s: float = SPAN_S,
        buckets: int = BUCKETS,
        limit_s: float = TIME_LIMIT_S,
    ) -> list[Group]:
        """The largest groups of the letters meant, with a trend over `span_s` in so many parts; TimeLimit
        where counting takes longer than `limit_s`."""
        if span_s < 1 or not 1 <= buckets <= _TREND_PARTS:
            raise GroupError(f"a trend is of at least a second, in 1 to {_TREND_PARTS} parts")
        window = TrendWindow(self._index.now(), span_s, buckets)
        condition = self._index.compile(asked or Filter(), self._scope)
        found = await self._index.read(lambda db: count_groups(db, by, condition, window, limit), limit_s)
        said = await self._all_said(by) if found else {}
        return [Group(counts, _standing(counts, said.get(counts.key), window.now)) for counts in found]

    async def show(self, by: GroupBy, key: str) -> tuple[Group | None, Said]:
        """A group, None while it has no letters, and what was said of it."""
        term = group_term(by, key) if key else None
        found = await self.list(by, Filter(() if term is None else (term,)), limit=_ALL)
        group = next((one for one in found if one.counts.key == key), None)
        return group, await self.said(by, key)

    async def said(self, by: GroupBy, key: str) -> Said:
        """What was said of a group; it need not have letters now."""
        record = await self._store.get_record(GROUP_RECORDS, self._record_id(by, key))
        return Said() if record is None else decode(record.document)

    async def note(self, by: GroupBy, key: str, text: str, *, expected: Said | None = None) -> Said:
        """Write a note on a group."""
        text = text.strip()
        if not text or len(text) > NOTE_LENGTH:
            raise GroupError(f"a note has 1 to {NOTE_LENGTH} characters, not {len(text)}")
        note = Note(self._store.now(), self._actor.name, text)
        return await self._say("note group", by, key, lambda said: said.with_note(note), expected)

    async def resolve(self, by: GroupBy, key: str, *, expected: Said | None = None) -> Said:
        """The cause is gone; the group opens by itself when another of its letters dies.

        Letters that are there died before it, also those that another clock, a little ahead, has dated.
        """
        group, _ = await self.show(by, key)
        change = self._as(GroupState.RESOLVED, at_least=group.counts.last_died_at if group is not None else 0)
        return await self._say("resolve group", by, key, change, expected)

    async def ignore(
        self,
        by: GroupBy,
        key: str,
        *,
        until_count: int | None = None,
        until_at: int | None = None,
        expected: Said | None = None,
    ) -> Said:
        """Nothing to do until the group has so many letters, or until an instant, whichever is first."""
        if until_count is None and until_at is None:
            raise GroupError("a group is ignored until a count or a date: give one")
        if until_count is not None and not 1 <= until_count <= MOST_COUNT:
            raise GroupError(
                f"a group is ignored until it has 1 to {MOST_COUNT:,} letters: give such a count"
            )
        if until_at is not None and not 0 <= until_at <= _LAST_MS:
            raise GroupError("a group is ignored until a date from 1970 to 9998: give one of these")
        change = self._as(GroupState.IGNORED, until_count, until_at)
        return await self._say("ignore group", by, key, change, expected)

    async def reopen(self, by: GroupBy, key: str, *, expected: Said | None = None) -> Said:
        """Take back what was said; the notes stay."""
        return await self._say("reopen group", by, key, self._as(GroupState.OPEN), expected)

    def _as(
        self,
        state: GroupState,
        until_count: int | None = None,
        until_at: int | None = None,
        at_least: int = 0,
    ) -> Callable[[Said], Said]:
        at, name = max(self._store.now(), at_least), self._actor.name
        return lambda said: replace(
            said, state=state, at=at, actor=name, until_count=until_count, until_at=until_at
        )

    async def _say(
        self, verb: str, by: GroupBy, key: str, change: Callable[[Said], Said], expected: Said | None
    ) -> Said:
        if len(key) > KEY_LENGTH:
            raise GroupError(f"a group's key has at most {KEY_LENGTH} characters, not {len(key):,}")
        record_id = self._record_id(by, key)
        subject = {"by": by.value, "key": key, "tenant": self._scope}
        async with action(self._store, self._actor, verb, subject) as current:
            while True:
                record = await self._store.get_record(GROUP_RECORDS, record_id)
                before = Said() if record is None else decode(record.document)
                if expected not in (None, before):
                    raise GroupChanged
                said = change(before)
                version = 0 if record is None else record.version
                try:
                    await self._store.put_record(GROUP_RECORDS, record_id, encode(said), expected=version)
                except VersionConflict:
                    continue
                current.result["state"] = said.state.value
                return said

    async def _all_said(self, by: GroupBy) -> dict[str, Said]:
        """What was said of the groups of a kind, by key; an empty key is a key too."""
        prefix = self._record_id(by, "")
        found: dict[str, Said] = {}
        after = prefix[:-1]
        while page := await self._store.list_records(GROUP_RECORDS, after=after, limit=PAGE):
            for record in page:
                if record.id.startswith(prefix):
                    found[record.id.removeprefix(prefix)] = decode(record.document)
            after = page[-1].id
            if not after.startswith(prefix):
                break
        return found

    def _record_id(self, by: GroupBy, key: str) -> str:
        return f"{self._scope or '*'}/{by.value}/{key}"


def _standing(counts: Counts, said: Said | None, now: int) -> Standing:
    return derive(said or Said(), count=counts.count, last_died_at=counts.last_died_at, now=now)


def group_term(by: GroupBy, key: str) -> Named | Reasoned | None:
    """The letters of a group as a term of a filter; an age goes on, and has none."""
    match by:
        case GroupBy.FINGERPRINT:
            return Named(NameField.FINGERPRINT, (key,))
        case GroupBy.CODE:
            return Named(NameField.CODE, (key,))
        case GroupBy.TENANT:
            return Named(NameField.TENANT, (key,))
        case GroupBy.QUEUE:
            return queue_term(key)
        case GroupBy.REASON:
            return Reasoned((key,))
        case GroupBy.AGE:
            return None
    assert_never(by)
