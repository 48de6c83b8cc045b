"""Feed.changes: whoever follows it knows the dead letters of a queue, whatever happens between two pages.

A store that is its own index has no feed; its index is tested with the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redrive.core.letters import ChangePage, DeadLetter
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE
from redrive.core.store import Feed, OwnIndex, Store
from tests.conformance.makers import bury, dead, drain, keys, letters, submit, take_one


@dataclass(slots=True)
class Reader:
    """What an index keeps: the letters it knows, and how far it has read."""

    feed: Feed
    position: int = 0
    known: dict[str, DeadLetter] = field(default_factory=dict)

    async def read_page(self, limit: int = PAGE) -> ChangePage:
        page = await self.feed.changes("orders", after=self.position, limit=limit)
        assert len(page.changes) <= limit
        assert len({one.id for one in page.changes}) == len(page.changes)
        if page.reset:
            self.known.clear()
        for change in page.changes:
            if change.letter is None:
                self.known.pop(change.id, None)
            else:
                self.known[change.id] = change.letter
        self.position = page.position
        return page

    async def catch_up(self, limit: int = PAGE) -> None:
        for _ in range(1_000):
            if not (await self.read_page(limit)).more:
                return
        raise AssertionError("the feed never ends")

    async def check(self, store: Store) -> None:
        assert self.known == {one.message.id: one for one in await letters(store)}


@pytest.fixture
def reader(store: Store) -> Reader:
    if isinstance(store.index, OwnIndex):
        pytest.skip("this store is its own index")
    return Reader(store.index)


async def test_an_unknown_queue_has_no_changes(reader: Reader) -> None:
    page = await reader.read_page()
    assert (page.changes, page.more, page.reset) == ((), False, False)


async def test_the_beginning_tells_only_what_is_dead_now(store: Store, reader: Reader) -> None:
    ids = await dead(store, 5)
    await store.redrive("orders", keys(ids[:2]), actor="ann")
    page = await reader.read_page()
    assert {one.id for one in page.changes if one.letter is not None} == set(ids[2:])
    assert all(one.letter is not None for one in page.changes)
    await reader.check(store)


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_pages_of_any_size_lead_to_the_same(store: Store, reader: Reader, limit: int) -> None:
    await dead(store, 5)
    await reader.catch_up(limit)
    await reader.check(store)


async def test_what_died_and_left_since_is_told(store: Store, reader: Reader) -> None:
    ids = await dead(store, 4)
    await reader.catch_up()
    await store.redrive("orders", keys(ids[:1]), actor="ann")
    await store.remove("orders", keys(ids[1:2]), Move.DISCARD, actor="ann")
    await store.remove("orders", keys(ids[2:3]), Move.ARCHIVE, actor="ann")
    (fresh,) = await submit(store)
    await bury(store, *[one for one in await drain(store) if one.message.id == fresh])
    page = await reader.read_page()
    assert {one.id: one.letter is not None for one in page.changes} == {
        **dict.fromkeys(ids[:3], False),
        fresh: True,
    }
    await reader.check(store)


async def test_a_reader_that_knows_everything_is_told_nothing(store: Store, reader: Reader) -> None:
    await dead(store, 3)
    await reader.catch_up()
    page = await reader.read_page()
    assert (page.changes, page.position, page.more) == ((), reader.position, False)


async def test_a_letter_that_died_again_is_told_once_as_it_is(store: Store, reader: Reader) -> None:
    (message_id,) = await dead(store)
    await reader.catch_up()
    for _ in range(3):
        await store.redrive("orders", keys([message_id]), actor="ann")
        await bury(store, await take_one(store))
    (change,) = (await reader.read_page()).changes
    assert change.letter is not None
    assert change.letter.progress.generation == 3
    await reader.check(store)


async def test_a_restored_letter_is_told_again(store: Store, reader: Reader) -> None:
    ids = await dead(store, 2)
    found = await letters(store)
    await store.remove("orders", keys(ids), Move.ARCHIVE, actor="ann")
    await reader.catch_up()
    await store.bury(found)
    await reader.catch_up()
    await reader.check(store)


async def test_changes_are_of_their_own_queue(store: Store, reader: Reader) -> None:
    await dead(store, 2, queue="mail")
    assert (await reader.read_page()).changes == ()


steps = st.lists(
    st.tuples(st.sampled_from(["die", "redrive", "discard", "read"]), st.integers(1, 3)), max_size=14
)


@given(steps)
@settings(
    max_examples=15, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_a_reader_between_any_steps_ends_with_what_is_dead(
    store: Store, reader: Reader, plan: list[tuple[str, int]]
) -> None:
    """Examples share one store: each begins where the last one ended, with a reader from the beginning."""
    fresh = Reader(reader.feed)
    for step, count in plan:
        known = [one.message.id for one in await letters(store)]
        match step:
            case "die":
                await dead(store, count)
            case "redrive":
                await store.redrive("orders", keys(known[:count]), actor="ann")
            case "discard":
                await store.remove("orders", keys(known[-count:]), Move.DISCARD, actor="ann")
            case _:
                await fresh.read_page(count)
    for one in (fresh, reader):
        await one.catch_up(2)
        await one.check(store)
