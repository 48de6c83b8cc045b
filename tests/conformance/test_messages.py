"""Ledger.messages: what waits, is scheduled, runs, is done or was removed, in pages."""

from __future__ import annotations

from contextlib import suppress

import pytest

from redrive.core.errors import InvalidMessage
from redrive.core.letters import MessagePhase
from redrive.core.lifecycle import Move
from redrive.core.message import Track
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    append,
    complete,
    crash,
    dead,
    drain,
    entry,
    keys,
    listed,
    retry,
    submit,
    take,
    take_one,
)

PAGES = (1, 2, 500)


async def ids(store: Store, phase: MessagePhase, **asked: object) -> list[str]:
    return [one.id for one in await listed(store, phase, **asked)]  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", PAGES)
async def test_what_is_due_comes_by_tenant_and_in_order(store: Store, limit: int) -> None:
    late = await submit(store, 3, tenant="zeta")
    early = await submit(store, 2, tenant="acme")
    bulk = await submit(store, 2, tenant="acme", track=Track.BULK)
    await submit(store, tenant="acme", delay_s=DAY_S)
    assert await ids(store, MessagePhase.WAITING, limit=limit) == [*early, *bulk, *late]
    assert await ids(store, MessagePhase.WAITING, tenant="zeta", limit=limit) == late
    assert await ids(store, MessagePhase.WAITING, tenant="nobody", limit=limit) == []
    assert await ids(store, MessagePhase.WAITING, queue="mail", limit=limit) == []


@pytest.mark.parametrize("limit", PAGES)
async def test_what_is_due_later_is_scheduled(bench: Bench, store: Store, limit: int) -> None:
    retried = await submit(store)
    await retry(store, await take_one(store), delay_s=10 * MINUTE_S)
    scheduled = await submit(store, 3, delay_s=DAY_S)
    await submit(store, 2)
    assert await ids(store, MessagePhase.SCHEDULED, limit=limit) == retried + scheduled
    bench.advance(20 * MINUTE_S)
    assert await ids(store, MessagePhase.SCHEDULED, limit=limit) == scheduled
    assert set(retried) <= set(await ids(store, MessagePhase.WAITING, limit=limit))


async def test_a_suspect_waits(store: Store) -> None:
    (message_id,) = await submit(store, tenant="acme")
    await crash(store, await take_one(store))
    assert await ids(store, MessagePhase.WAITING) == [message_id]
    assert await ids(store, MessagePhase.WAITING, tenant="acme") == [message_id]
    assert await ids(store, MessagePhase.WAITING, tenant="other") == []


@pytest.mark.parametrize("limit", PAGES)
async def test_what_a_worker_holds_is_running(store: Store, limit: int) -> None:
    held = await submit(store, 3, tenant="acme") + await submit(store, 2, tenant="zeta")
    assert len(await drain(store, limit=2)) == 5
    await submit(store)
    assert sorted(await ids(store, MessagePhase.RUNNING, limit=limit)) == sorted(held)
    assert sorted(await ids(store, MessagePhase.RUNNING, tenant="zeta", limit=limit)) == sorted(held[3:])
    (first, *_) = await listed(store, MessagePhase.RUNNING)
    assert (first.attempts, first.phase) == (1, MessagePhase.RUNNING)
    assert first.lease_until_at is not None
    assert first.lease_until_at > store.now()


@pytest.mark.parametrize("limit", PAGES)
async def test_what_is_done_comes_newest_first(bench: Bench, store: Store, limit: int) -> None:
    done: list[str] = []
    for tenant in ("acme", "zeta", "acme"):
        done += await submit(store, tenant=tenant)
        await complete(store, *await take(store))
        bench.advance(MINUTE_S)
    assert await ids(store, MessagePhase.DONE, limit=limit) == done[::-1]
    assert await ids(store, MessagePhase.DONE, tenant="acme", limit=limit) == [done[2], done[0]]
    assert await ids(store, MessagePhase.WAITING, limit=limit) == []
    newest = (await listed(store, MessagePhase.DONE))[0]
    assert newest.finished_at is not None
    assert newest.removal is None


@pytest.mark.parametrize("limit", PAGES)
async def test_what_people_removed_says_who_did(store: Store, limit: int) -> None:
    (discarded,) = await dead(store)
    await store.remove("orders", keys([discarded]), Move.DISCARD, actor="ann")
    (archived,) = await dead(store)
    await store.remove("orders", keys([archived]), Move.ARCHIVE, actor="bob")
    (cancelled,) = await submit(store, tenant="zeta")
    await store.cancel("orders", [cancelled], actor="eve")
    found = {one.id: one for one in await listed(store, MessagePhase.REMOVED, limit=limit)}
    removals = {one.id: one.removal and (one.removal.move, one.removal.actor) for one in found.values()}
    assert removals == {
        discarded: (Move.DISCARD, "ann"),
        archived: (Move.ARCHIVE, "bob"),
        cancelled: (Move.CANCEL, "eve"),
    }
    assert await ids(store, MessagePhase.REMOVED, tenant="zeta", limit=limit) == [cancelled]
    assert await ids(store, MessagePhase.DONE, limit=limit) == []


@pytest.mark.parametrize("limit", PAGES)
async def test_a_finished_parent_with_open_children_is_listed_as_done(store: Store, limit: int) -> None:
    parents = await submit(store, 3)
    held = await take(store)
    children = [entry(store, parent=parent, delay_s=DAY_S) for parent in parents]
    await append(store, *children)
    await complete(store, *held)
    others = await submit(store, 2)
    await complete(store, *await take(store))
    assert sorted(await ids(store, MessagePhase.DONE, limit=limit)) == sorted(parents + others)


async def test_a_discarded_parent_with_open_children_is_listed_once(store: Store) -> None:
    (parent,) = await dead(store)
    await append(store, entry(store, parent=parent, delay_s=DAY_S))
    await store.remove("orders", keys([parent]), Move.DISCARD, actor="ann")
    assert await ids(store, MessagePhase.REMOVED) == [parent]


@pytest.mark.parametrize("limit", PAGES)
async def test_what_left_a_list_from_its_middle_is_not_listed(store: Store, limit: int) -> None:
    waiting = await submit(store, 6)
    await store.cancel("orders", waiting[1:4], actor="ann")
    assert await ids(store, MessagePhase.WAITING, limit=limit) == [waiting[0], *waiting[4:]]


async def test_a_page_goes_on_after_its_last_message_was_taken(store: Store) -> None:
    waiting = await submit(store, 6)
    page = await store.messages("orders", MessagePhase.WAITING, limit=2)
    await take(store, 3)
    rest = await store.messages("orders", MessagePhase.WAITING, after=page.cursor)
    assert [one.id for one in rest.messages] == waiting[3:]


async def test_a_page_of_later_messages_goes_on_after_its_last_was_cancelled(store: Store) -> None:
    made = [entry(store, delay_s=DAY_S + number) for number in range(4)]
    await append(store, *made)
    page = await store.messages("orders", MessagePhase.SCHEDULED, limit=2)
    await store.cancel("orders", [page.messages[-1].id], actor="ann")
    rest = await store.messages("orders", MessagePhase.SCHEDULED, after=page.cursor)
    assert [one.id for one in rest.messages] == [one.message.id for one in made[2:]]


@pytest.mark.parametrize("phase", MessagePhase)
@pytest.mark.parametrize(
    "cursor", ["", "x", "1/2", "1/2/3", "acme/main/x/y", "acme/1/00", "a/b/c/d/e", "//", "/9/ff"]
)
async def test_a_foreign_cursor_is_refused_or_begins_somewhere(
    store: Store, phase: MessagePhase, cursor: str
) -> None:
    await submit(store, 2)
    with suppress(InvalidMessage):
        assert len((await store.messages("orders", phase, after=cursor)).messages) <= 2
