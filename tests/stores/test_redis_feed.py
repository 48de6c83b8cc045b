"""Feed on Redis: what a disposable index is told of a queue's letters, and when it must begin again."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from redrive.core.letters import Change, ChangePage
from redrive.core.lifecycle import Move
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.conformance.makers import keys

QUEUE = makers.QUEUE
DEPARTED = 20_000


async def read(store: RedisStore, after: int = 0, limit: int = 500) -> tuple[list[Change], int]:
    """Everything from a position on, over all pages."""
    found: list[Change] = []
    page = ChangePage((), after, more=True)
    while page.more:
        page = await store.changes(QUEUE, after=page.position, limit=limit)
        assert len(page.changes) <= limit
        assert not page.reset
        found += page.changes
    return found, page.position


def dead_ids(changes: list[Change]) -> list[str]:
    return [change.id for change in changes if change.letter is not None]


def gone_ids(changes: list[Change]) -> list[str]:
    return [change.id for change in changes if change.letter is None]


async def forget_first(redis_url: str, prefix: str) -> None:
    """What the store does with the oldest departure when there are too many."""
    root = f"{prefix}:{{{QUEUE}}}"
    server: Any = Redis.from_url(redis_url)
    [(_, number)] = await server.zpopmin(f"{root}:departed")
    await server.hset(root, "departed", int(number))
    await server.aclose()


@pytest.mark.parametrize("limit", [1, 3, 500])
async def test_the_beginning_tells_what_is_dead_now(store: RedisStore, limit: int) -> None:
    ids = await makers.dead(store, 7)
    await store.remove(QUEUE, keys(ids[:2]), Move.DISCARD, actor="ann")
    await store.redrive(QUEUE, keys(ids[2:3]), actor="ann")
    changes, position = await read(store, limit=limit)
    assert [change.letter for change in changes] == await makers.letters(store)
    assert dead_ids(changes) == ids[3:]
    assert await read(store, position) == ([], position)


async def test_an_empty_queue_has_nothing_to_tell(store: RedisStore) -> None:
    assert await store.changes(QUEUE, after=0) == ChangePage((), 0)
    await makers.submit(store)
    assert await store.changes(QUEUE, after=0) == ChangePage((), 0)


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_a_reader_is_told_each_death_and_departure_once(store: RedisStore, limit: int) -> None:
    ids = await makers.dead(store, 4)
    _, position = await read(store)
    await store.redrive(QUEUE, keys(ids[:2]), actor="ann")
    first, second = await makers.take(store, 2)
    await makers.bury(store, first)
    await makers.complete(store, second)
    await store.remove(QUEUE, keys(ids[2:3]), Move.ARCHIVE, actor="ann")
    (fresh,) = await makers.dead(store)
    changes, position = await read(store, position, limit)
    assert dead_ids(changes) == [first.message.id, fresh]
    assert sorted(gone_ids(changes)) == sorted([second.message.id, ids[2]])
    assert await read(store, position) == ([], position)


async def test_what_happens_while_the_beginning_is_read_is_told_after_it(store: RedisStore) -> None:
    ids = await makers.dead(store, 6)
    page = await store.changes(QUEUE, after=0, limit=2)
    known = {change.id for change in page.changes}
    await store.remove(QUEUE, keys([ids[0], ids[5]]), Move.DISCARD, actor="ann")
    (late,) = await makers.dead(store)
    rest, _ = await read(store, page.position, limit=2)
    known |= set(dead_ids(rest))
    known -= set(gone_ids(rest))
    assert known == {*ids[1:5], late}


async def test_a_letter_taken_in_from_elsewhere_is_told(store: RedisStore) -> None:
    (message_id,) = await makers.dead(store)
    (letter,) = await makers.letters(store)
    await store.remove(QUEUE, keys([message_id]), Move.ARCHIVE, actor="ann")
    _, position = await read(store)
    await store.bury([letter])
    assert await read(store, position) == ([Change(message_id, letter)], position + 1)


async def test_who_missed_departures_that_are_forgotten_begins_again(
    store: RedisStore, redis_url: str, prefix: str
) -> None:
    ids = await makers.dead(store, 3)
    _, position = await read(store)
    await store.remove(QUEUE, keys(ids[:2]), Move.DISCARD, actor="ann")
    await forget_first(redis_url, prefix)
    page = await store.changes(QUEUE, after=position)
    assert (page.reset, [change.id for change in page.changes], page.more) == (True, ids[2:], False)
    assert not (await store.changes(QUEUE, after=page.position)).reset


async def test_whoever_begins_is_not_sent_back_by_departures_from_before(
    store: RedisStore, redis_url: str, prefix: str
) -> None:
    ids = await makers.dead(store, 5)
    await store.remove(QUEUE, keys(ids[3:]), Move.DISCARD, actor="ann")
    await forget_first(redis_url, prefix)
    changes, _ = await read(store, limit=1)
    assert dead_ids(changes) == ids[:3]


@pytest.mark.long
async def test_so_many_departures_are_remembered_and_no_more(
    store: RedisStore, redis_url: str, prefix: str
) -> None:
    for _ in range(DEPARTED // 500 + 1):
        ids = await makers.submit(store, 500)
        await makers.bury(store, *await makers.take(store, 500))
        await store.remove(QUEUE, keys(ids), Move.ARCHIVE, actor="ann")
    root = f"{prefix}:{{{QUEUE}}}"
    server: Any = Redis.from_url(redis_url)
    assert await server.zcard(f"{root}:departed") == DEPARTED
    [(_, first)] = await server.zrange(f"{root}:departed", 0, 0, withscores=True)
    assert int(await server.hget(root, "departed")) < first
    await server.aclose()


async def test_everyone_begins_again_after_the_server_was_started_anew(
    store: RedisStore, redis_url: str, prefix: str
) -> None:
    """It may have lost its last second, and with it changes that were told."""
    ids = await makers.dead(store, 3)
    _, position = await read(store)
    server: Any = Redis.from_url(redis_url)
    await server.hset(f"{prefix}:{{{QUEUE}}}", "run", "0123abcd")
    await server.aclose()
    page = await store.changes(QUEUE, after=position)
    assert (page.reset, dead_ids(list(page.changes))) == (True, ids)
    (late,) = await makers.dead(store)
    changes, _ = await read(store, page.position)
    assert dead_ids(changes) == [late]


async def test_a_reader_of_a_queue_that_was_emptied_begins_again(
    store: RedisStore, redis_url: str, prefix: str
) -> None:
    await makers.dead(store, 3)
    _, position = await read(store)
    server: Any = Redis.from_url(redis_url)
    async for key in server.scan_iter(f"{prefix}:{{{QUEUE}}}*"):
        await server.delete(key)
    await server.aclose()
    store.skew_ms += 60_000
    ids = await makers.dead(store, 5)
    page = await store.changes(QUEUE, after=position)
    assert (page.reset, dead_ids(list(page.changes))) == (True, ids)
