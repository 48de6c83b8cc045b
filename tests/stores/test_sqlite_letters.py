"""The office's index inside the file: one row a dead letter, as the letter itself says, at every moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from redrive.core.failure import Kind
from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move
from redrive.core.store import OwnIndex
from redrive.core.verdict import Bury, Reason, RetryAt, Settlement
from redrive.office.documents.letters import letter_document
from redrive.office.masking import UNMASKED
from redrive.stores.sqlite import SqliteStore
from redrive.stores.statements import load_migrations
from tests.conformance import makers

COLUMNS = [
    "id",
    "queue",
    "tenant",
    "reason",
    "kind",
    "code",
    "failure",
    "fingerprint",
    "attempts",
    "redriven",
    "generation",
    "enqueued_at",
    "died_at",
    "ttl_s",
    "first_died_at",
]

_SECOND_SCHEMA_ROWS = """
insert into queues (queue, name) values (1, 'orders');
insert into lanes (lane, queue, tenant, dead) values (1, 1, 'acme', 2);
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation,
  size, enqueued_at, ttl_s, first_track, died_at, reason, fingerprint)
values (1, 'twice', 1, 1, 'dead', 'main', 0, 60000, 2, 0, 1, 2, 5, 60, 'main', 900, 'exhausted', 'f2'),
  (2, 'foreign', 1, 1, 'dead', 'main', 0, 60000, 0, 0, 0, 2, 6, 60, 'main', 800, 'bounced', ''),
  (3, 'waiting', 1, 1, 'waiting', 'main', 0, 9e15, 0, 0, 0, 2, 7, 60, 'main', null, null, null);
insert into bodies (seq, body) values (1, x'7b7d'), (2, x'5b5d'), (3, x'7b7d');
insert into failures (seq, number, at, attempt, kind, reason, code, fingerprint)
values (1, 1, 100, 1, 'permanent', 'no such user', '550', 'f1'),
  (1, 2, 300, 1, 'temporary', 'refused', 'ECONN', 'f2'), (1, 3, 310, 1, 'lost', 'worker lost', null, 'f3'),
  (1, 4, 400, 2, 'temporary', 'timed out', 'ETIME', 'f2');
insert into redrives (seq, generation, at, actor, result) values (1, 1, 200, 'ann', 'dead');
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    yield store
    await store.close()


def rows(index: OwnIndex, query: str = "select * from letters order by died_at, id") -> list[Any]:
    connection = apsw.Connection(index.path, flags=apsw.SQLITE_OPEN_READONLY)
    found: list[Any] = connection.execute(query).fetchall()
    connection.close()
    return found


def expected(letter: DeadLetter) -> tuple[Any, ...]:
    """The row of a letter, from what the wire says of it."""
    message, last, wire = letter.message, letter.failures[-1], letter_document(letter, UNMASKED, None)
    return (
        message.id,
        message.queue,
        message.tenant,
        letter.reason.value,
        last.kind.value,
        last.code,
        wire.last_failure_reason,
        letter.fingerprint,
        wire.failed_attempts,
        len(letter.redrives),
        letter.progress.generation,
        message.enqueued_at,
        letter.died_at,
        message.ttl_s,
        letter.first_died_at,
    )


async def check(store: SqliteStore) -> int:
    found = await makers.letters(store, None)
    assert rows(store.index) == sorted(map(expected, found), key=lambda row: (row[12], row[0]))
    bodies = {one.message.id: one.message.body for one in found}
    assert dict(rows(store.index, "select id, body from letter_bodies")) == bodies
    return len(found)


async def bury_now(store: SqliteStore) -> None:
    """Bury what is due, with a failure of this instant."""
    for one in await makers.drain(store):
        failed = replace(makers.failure(one, "refused", kind=Kind.PERMANENT), at=store.now())
        await store.settle([Settlement(one, Bury(Reason.PERMANENT, failed))])


async def test_the_relations_have_the_columns_that_the_office_reads(store: SqliteStore) -> None:
    assert [row[1] for row in rows(store.index, "pragma table_info(letters)")] == COLUMNS
    assert [row[1] for row in rows(store.index, "pragma table_info(letter_bodies)")] == ["id", "body"]


async def test_the_index_follows_a_letter_through_all_its_moves(store: SqliteStore) -> None:
    ids = await makers.submit(store, 6, body=b"payload")
    await bury_now(store)
    assert await check(store) == 6
    store.skew_ms += 1_000
    await store.redrive("orders", makers.keys(ids[:3]), actor="ann")
    assert await check(store) == 3
    await makers.retry(store, *await makers.take(store))
    await bury_now(store)
    assert await check(store) == 6
    await store.remove("orders", makers.keys(ids[:1]), Move.DISCARD, actor="ann")
    await store.remove("orders", makers.keys(ids[1:2]), Move.REPLACE, actor="ann")
    gone = [one for one in await makers.letters(store) if one.message.id in ids[2:4]]
    await store.remove("orders", makers.keys(ids[2:4]), Move.ARCHIVE, actor="ann")
    assert await check(store) == 2
    await store.bury(gone)
    assert await check(store) == 4


async def test_a_letter_of_another_generation_stays_in_the_index(store: SqliteStore) -> None:
    ids = await makers.dead(store)
    await store.redrive("orders", [LetterKey(ids[0], 7)], actor="ann")
    await store.remove("orders", [LetterKey(ids[0], 7)], Move.DISCARD, actor="ann")
    assert await check(store) == 1


async def test_a_letter_without_failures_has_its_reason_for_a_failure(store: SqliteStore) -> None:
    await makers.dead(store)
    (letter,) = await makers.letters(store)
    await store.remove("orders", makers.keys([letter.message.id]), Move.ARCHIVE, actor="ann")
    bare = DeadLetter(letter.message, letter.progress, Reason.BOUNCED, letter.died_at, letter.died_at, "")
    await store.bury([bare])
    found = rows(store.index, "select reason, kind, code, failure, attempts from letters")
    assert found == [("bounced", None, None, "bounced", 0)]


async def test_dead_letters_of_an_older_file_are_in_the_index_after_its_migration(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    connection = apsw.Connection(str(path))
    for script in load_migrations("sqlite")[:2]:
        connection.execute(script)
    connection.execute(_SECOND_SCHEMA_ROWS)
    connection.pragma("user_version", 2)
    connection.close()
    store = SqliteStore(path)
    await store.open()
    foreign, twice = rows(store.index)
    assert foreign[:10] == ("foreign", "orders", "acme", "bounced", None, None, "bounced", "", 0, 0)
    assert twice[3:11] == ("exhausted", "temporary", "ETIME", "timed out", "f2", 2, 1, 1)
    assert (foreign[-1], twice[-1]) == (800, 100), "the last failure before the first re-drive"
    assert twice == expected((await makers.letters(store))[1])
    await store.close()


async def test_a_traceback_goes_with_the_last_failure_that_has_it(store: SqliteStore) -> None:
    """Also when a message failed in the same way several times."""
    ids = await makers.submit(store, 2)
    for _ in range(3):
        for delivery in await makers.take(store):
            failed = makers.failure(delivery, traceback="Traceback: always this one")
            await store.settle([Settlement(delivery, RetryAt(makers.soon(store), failed))])
    for delivery in await makers.take(store):
        failed = makers.failure(delivery, traceback="Traceback: always this one")
        await store.settle([Settlement(delivery, Bury(Reason.EXHAUSTED, failed))])
    uses = "select uses from tracebacks"
    assert rows(store.index, uses) == [(8,)]
    await store.remove("orders", [LetterKey(ids[0])], Move.ARCHIVE, actor="ops")
    assert rows(store.index, uses) == [(4,)]
    await store.remove("orders", [LetterKey(ids[1])], Move.ARCHIVE, actor="ops")
    assert rows(store.index, uses) == []


def test_tracebacks_that_were_left_behind_go_with_the_migration(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "redrive.db"))
    migrations = load_migrations("sqlite")
    for script in migrations[:4]:
        connection.execute(script)
    connection.execute(
        "insert into tracebacks (traceback, hash, text, uses)"
        " values (1, x'01', 'gone', 3), (2, x'02', 'kept', 9);"
        "insert into failures (seq, number, at, attempt, kind, reason, fingerprint, traceback)"
        " values (7, 1, 0, 1, 'temporary', 'refused', 'f', 2), (7, 2, 0, 2, 'temporary', 'refused', 'f', 2)"
    )
    connection.execute(migrations[4])
    assert connection.execute("select text, uses from tracebacks").fetchall() == [("kept", 2)]
    connection.close()
