"""The planted bugs that reach into the SQLite store: its statements, its writer, its settling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from redrive.core.message import Entry
from redrive.core.ports import Receipt
from redrive.stores.rules.append import body_hash
from redrive.stores.sqlite import SqliteStore, append, claim, rows, settle, upkeep
from redrive.stores.sqlite.lane_book import LaneBook
from redrive.stores.sqlite.unit import Unit
from redrive.stores.sqlite.writer import Writer
from tests.faults.plants import Bugs, Fire, replace_method

_TURNS = 20
"""Turns of the event loop in which the early answer is heard and written down."""


def wrap_commit(moment: str, fire: Fire) -> None:
    """Fire before or after each commit of the writer."""
    original = Writer._commit_now

    def commit_now(self: Writer) -> float:
        if moment == "before":
            fire()
        took_s = original(self)
        if moment == "after":
            fire()
        return took_s

    replace_method(Writer, "_commit_now", commit_now)


def settle_without_token() -> None:
    """A settle moves the message whoever holds it."""
    for name in ("complete", "retry", "release", "bury"):
        _rewrite(settle, name, "and lease = ?2", "")
    _rewrite(settle, "held", "where m.lease = ?2", "")
    original = settle._Settling._lease

    def lease(self: Any, settlement: Any) -> int:
        return original(self, settlement) or 0

    replace_method(settle._Settling, "_lease", lease)


def count_attempt_late() -> None:
    """The attempt is counted when it ends, not when it is handed out."""
    _rewrite(claim, "take", "attempts = attempts + 1, ", "")
    _rewrite(rows, "held", "m.expires_at, m.attempts,", "m.expires_at, m.attempts + 1,", "CLAIM")
    for name in ("complete", "retry", "bury"):
        _rewrite(settle, name, "lease = null,", "attempts = attempts + 1, lease = null,")


def accept_before_commit() -> None:
    """The submitter hears `accepted` before the durable write."""
    use_turn, run_group, commit = Writer._use_turn, Writer._run_group, Writer._commit_in_thread

    def use_turn_slowly(self: Writer) -> None:
        self._commit_s = 1.0
        use_turn(self)

    def answer_early(self: Writer, group: list[Any], due: set[str]) -> None:
        run_group(self, group, due)
        for job in group:
            job.answer()

    def commit_late(self: Writer, transaction: Any, turns: int = _TURNS) -> None:
        if turns:
            self._loop.call_soon(commit_late, self, transaction, turns - 1)
        else:
            commit(self, transaction)

    replace_method(Writer, "_use_turn", use_turn_slowly)
    replace_method(Writer, "_run_group", answer_early)
    replace_method(Writer, "_commit_in_thread", commit_late)


def dedupe_key_first() -> None:
    """The dedupe key is written in a step of its own, before the message."""
    original = SqliteStore.append

    async def key_then_message(self: SqliteStore, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        await self._write(lambda unit: _take_keys(unit, [entry for group in groups for entry in group]))
        plain = [
            [replace(entry, message=replace(entry.message, dedupe=None)) for entry in group]
            for group in groups
        ]
        return await original(self, plain)

    replace_method(SqliteStore, "append", key_then_message)


def _take_keys(unit: Unit, entries: Sequence[Entry]) -> None:
    messages = [entry.message for entry in entries if entry.message.dedupe is not None]
    book = LaneBook.named(unit, entries[0].message.queue)
    keys = [
        (book.tenant(message.tenant).lane, message.dedupe, message.id, body_hash(message.body))
        for message in messages
    ]
    unit.db.executemany(append.SQL["take_key"], keys)
    book.close()


def reclaim_live_leases() -> None:
    """A sweep takes over whatever is claimed, as if all other workers were dead."""
    _rewrite(upkeep, "overdue", "l.ends_ms <= ?4", "?4 > 0")
    _rewrite(upkeep, "ended_leases", "ends_ms <= ?4", "?4 > 0")


def _rewrite(module: Any, name: str, before: str, after: str, table: str = "SQL") -> None:
    statements = getattr(module, table)
    assert before in statements[name], (
        f"{module.__name__}: {name} no longer says {before!r}, the plant is void"
    )
    setattr(module, table, {**statements, name: statements[name].replace(before, after)})


BUGS = Bugs(
    SqliteStore,
    wrap_commit,
    (
        settle_without_token,
        count_attempt_late,
        accept_before_commit,
        dedupe_key_first,
        reclaim_live_leases,
    ),
)
