"""The audit: who did what, in rows that nobody changes, takes away or reorders unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from redrive.core.records import JournalRow
from redrive.core.store import Store
from redrive.office.audit import AUDIT, Actor, Query, action, interrupted, latest, read
from redrive.office.chain import HEAD_RECORDS, Head, add, add_once, head_of, verify
from redrive.office.operations import OperationState
from redrive.stores.sqlite import SqliteStore
from tests.conformance.backends import Bench
from tests.office.desks import ANA, desk, letters, redrive, run_to, work

BOB = Actor("bob@host", "test")


async def _rows(store: Store) -> list[JournalRow]:
    return await store.read_journal(AUDIT)


async def _act(store: Store, count: int = 3, actor: Actor = ANA) -> None:
    for number in range(count):
        async with action(store, actor, "pause", {"queue": f"q{number}"}) as current:
            current.result["moved"] = number


async def test_an_action_has_an_intent_before_and_an_outcome_after_it(store: Store) -> None:
    async with action(store, ANA, "pause", {"queue": "orders"}) as current:
        (intent,) = await _rows(store)
        current.result["moved"] = 3
    _, outcome = await _rows(store)
    assert (intent.document["row"], intent.document["subject"]) == ("intent", {"queue": "orders"})
    assert (outcome.document["row"], outcome.document["ok"], outcome.document["result"]) == (
        "outcome",
        True,
        {"moved": 3},
    )
    assert intent.document["action"] == outcome.document["action"] == current.id
    assert (await verify(store)).whole


async def test_an_action_that_raises_says_so_and_one_without_an_outcome_is_seen(store: Store) -> None:
    with pytest.raises(LookupError):
        async with action(store, ANA, "pause", {}):
            raise LookupError("gone")
    assert (await _rows(store))[-1].document["error"] == "LookupError"
    await add(store, {"action": "a1", "actor": "bob", "origin": "test", "verb": "purge", "row": "intent"})
    assert [row.document["action"] for row in await interrupted(store)] == ["a1"]


async def test_rows_are_found_by_actor_verb_and_instant(store: Store, bench: Bench) -> None:
    await _act(store, 2)
    bench.advance(60)
    since_at = store.now()
    await _act(store, 1, BOB)

    async def found(query: Query) -> int:
        return len([row async for row in read(store, query)])

    assert await found(Query(actor="ana@host")) == 4
    assert await found(Query(actor="ana@host", verb="purge")) == 0
    assert await found(Query(since_at=since_at)) == 2
    newest = await latest(store, Query(actor="ana@host"), 3)
    assert [row.position for row in newest] == [4, 3, 2]
    assert await found(Query(action=str((await _rows(store))[0].document["action"]))) == 2


async def test_many_at_once_make_one_chain(bench: Bench) -> None:
    stores = [await bench.open_store() for _ in range(2)]
    await asyncio.gather(*(_act(store, 5) for store in stores for _ in range(2)))
    found = await verify(stores[0])
    assert (found.rows, found.unchained, found.faults) == (40, 0, ())
    assert found.head == await head_of(stores[1])


async def test_a_row_that_only_one_process_may_write_is_written_once(bench: Bench) -> None:
    stores = [await bench.open_store() for _ in range(2)]
    row = {"action": "a1", "row": "outcome"}
    heads = await asyncio.gather(*(add_once(store, 0, row) for store in stores for _ in range(3)))
    assert len(set(heads)) == 1
    assert len(await _rows(stores[0])) == 1


async def test_rows_from_before_the_chain_are_counted_and_held_on_to(store: Store) -> None:
    await store.write_journal(AUDIT, {"action": "old", "row": "intent"})
    await store.write_journal(AUDIT, {"action": "old", "row": "outcome"})
    await _act(store, 1)
    found = await verify(store)
    assert (found.rows, found.unchained, found.faults) == (4, 2, ())


async def test_a_head_kept_elsewhere_shows_a_chain_that_was_written_anew(bench: Bench) -> None:
    store = await bench.open_store()
    await _act(store, 2)
    assert (await verify(store, await head_of(store))).whole
    found = await verify(store, Head(2, "0" * 64))
    assert [fault.position for fault in found.faults] == [2]


def _tamper(path: Path, statement: str, bindings: Sequence[Any] = ()) -> None:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    connection.execute(statement, bindings)
    connection.close()


@pytest.fixture
async def written(tmp_path: Path) -> Path:
    """A file with six rows of audit."""
    path = tmp_path / "redrive.db"
    store = SqliteStore(path)
    await store.open()
    await _act(store)
    await store.close()
    return path


async def _verified(path: Path) -> list[tuple[int, str]]:
    store = SqliteStore(path)
    await store.open()
    try:
        return [(fault.position, fault.what) for fault in (await verify(store)).faults]
    finally:
        await store.close()


async def test_a_changed_row_is_found(written: Path) -> None:
    _tamper(
        written, "update journal set document = replace(document, 'ana@host', 'eve@host') where position = 3"
    )
    ((position, what),) = await _verified(written)
    assert position == 3
    assert "changed" in what


async def test_a_changed_row_with_its_hash_made_anew_is_found_by_the_next_one(written: Path) -> None:
    from redrive.office.chain import digest

    store = SqliteStore(written)
    await store.open()
    document = dict((await _rows(store))[2].document) | {"actor": "eve@host"}
    await store.close()
    document["hash"] = digest(3, document)
    forged = msgspec.json.encode(document).decode()
    _tamper(written, "update journal set document = ? where position = 3", [forged])
    assert [position for position, _ in await _verified(written)] == [4]


async def test_a_missing_row_and_a_cut_end_are_found(written: Path) -> None:
    _tamper(written, "delete from journal where position = 2")
    assert (3, "rows 2 to 2 are missing") in await _verified(written)
    _tamper(written, "delete from journal where position > 4")
    assert (4, "the end is cut off: there were 6 rows") in await _verified(written)


async def test_reordered_rows_are_found(written: Path) -> None:
    _tamper(written, "update journal set position = 100 where position = 2")
    _tamper(written, "update journal set position = 2 where position = 3")
    _tamper(written, "update journal set position = 3 where position = 100")
    assert {2, 3} <= {position for position, _ in await _verified(written)}


async def test_a_cut_end_does_not_stop_the_office_and_stays_visible(written: Path) -> None:
    _tamper(written, "delete from journal where position > 4")
    store = SqliteStore(written)
    await store.open()
    await _act(store, 2)
    await store.close()
    assert [position for position, _ in await _verified(written)] == [5]


async def test_an_operation_is_one_action_with_the_hash_of_its_list_told_once(bench: Bench) -> None:
    store = await bench.open_store()
    await letters(store, 12)
    office, other = desk(store), desk(await bench.open_store(), actor=BOB)
    started = await office.start(redrive(canary=2))
    await run_to(office, started.id, lambda seen: seen.moved == 2)
    await work(store)
    assert [row.document["action"] for row in await interrupted(store)] == [started.id]
    await office.conductor.release()
    ended = await other.wait(started.id)
    await office.wait(started.id)
    assert ended.operation.state is OperationState.FINISHED
    rows = [row.document async for row in read(store, Query(action=started.id))]
    assert [row["row"] for row in rows] == ["intent", "frozen", "outcome"]
    assert {row["actor"] for row in rows} == {"ana@host"}
    assert rows[1]["result"]["hash"] == rows[2]["result"]["hash"] == ended.operation.frozen.hash
    assert (rows[2]["result"]["letters"], rows[2]["result"]["moved"]) == (12, 12)
    assert (await verify(store)).whole
    assert (await store.get_record(HEAD_RECORDS, AUDIT)) is not None
