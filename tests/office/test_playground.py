"""Whose mails the simulator may have: those of a store that was marked while nothing had happened in it."""

from __future__ import annotations

from redrive.core.lanes import LaneState
from redrive.core.store import WORKER_RECORDS, Store
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.office.playground import end_playground, may_play
from tests.conformance.makers import entry


async def test_an_untouched_store_becomes_a_playground_and_stays_one(store: Store) -> None:
    assert await may_play(store)
    await store.append([[entry(store)]])
    assert await may_play(store)


async def test_a_store_with_a_message_is_somebodys(store: Store) -> None:
    await store.append([[entry(store)]])
    assert not await may_play(store)


async def test_a_store_with_a_paused_queue_is_somebodys(store: Store) -> None:
    await store.set_queue("email:send", LaneState.PAUSED)
    assert not await may_play(store)


async def test_a_store_with_a_key_is_somebodys(store: Store) -> None:
    await Access(store, Actor("ana@host", "test")).create(Role.ADMIN, None)
    assert not await may_play(store)


async def test_a_store_with_a_worker_is_somebodys(store: Store) -> None:
    await store.put_record(WORKER_RECORDS, "w1", {"host": "h", "pid": 1, "queues": []}, expected=0)
    assert not await may_play(store)


async def test_what_went_through_a_relay_is_no_playground_any_more(store: Store) -> None:
    assert await may_play(store)
    await store.append([[entry(store)]])
    await end_playground(store)
    await end_playground(store)
    assert not await may_play(store)
